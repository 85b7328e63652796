//! Clients that follow a stream across takeovers: each continues after what it has received.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api_client::{Client, EventsQuery, StreamedEvent};
use futures_util::StreamExt;
use testbed::harness::{Cluster, eventually};
use tokio::task::JoinHandle;

/// Pause before a stream that ended is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(50);

/// How long the head of a stream may take; a process that stands still never sends it.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a stream may be silent before another one is opened: keep-alive lines are more frequent,
/// but a reader does not see them.
const SILENCE: Duration = Duration::from_secs(3);

/// What a reader of all events has received.
#[derive(Debug, Default, Clone)]
pub(crate) struct Received {
    /// After which event it began.
    pub(crate) began_after: Option<u64>,
    pub(crate) events: Vec<u64>,
    pub(crate) gaps: Vec<u64>,
    last: Option<u64>,
}

/// Reads all events of jobs until it is dropped.
pub(crate) struct EventReader {
    received: Arc<Mutex<Received>>,
    reading: JoinHandle<()>,
}

// === impl EventReader ===

impl EventReader {
    /// Returns once it knows where it begins.
    pub(crate) async fn start(client: &Client) -> Self {
        let received = Arc::<Mutex<Received>>::default();
        let reading = tokio::spawn(read(client.clone(), Arc::clone(&received)));
        let reader = Self { received, reading };
        eventually("the stream of events begins", async || match reader.received().began_after {
            Some(_) => Ok(()),
            None => Err("no position yet".to_owned()),
        })
        .await;
        reader
    }

    pub(crate) fn received(&self) -> MutexGuard<'_, Received> {
        lock(&self.received)
    }

    /// Waits until it has all events of jobs that the database has. None is missing or repeated,
    /// except those before a gap.
    pub(crate) async fn has_all(&self, cluster: &Cluster) -> Received {
        eventually("every event was received once", async || {
            let session = cluster.store().direct().session().await;
            let session = session.map_err(|error| error.to_string())?;
            let received = self.received().clone();
            let first = received.began_after.expect("it has begun");
            let first = i64::try_from(first).expect("a sequence fits");
            let stored = "SELECT seq FROM event WHERE job > 0 AND seq > $1 ORDER BY seq";
            let stored =
                session.query(stored, &[&first]).await.map_err(|error| error.to_string())?;
            let stored: Vec<_> =
                stored.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect();
            let sorted = received.events.is_sorted_by(|one, next| one < next);
            assert!(sorted, "an event was received twice or too early: {received:?}");
            // What was lost with a primary was received before it.
            let lost = received.gaps.first().map_or(0, |_| {
                received.events.iter().filter(|seq| stored.binary_search(seq).is_err()).count()
            });
            match received.events.len() - lost == stored.len() {
                true => Ok(received),
                false => Err(format!("{} of {} events", received.events.len(), stored.len())),
            }
        })
        .await
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().expect("no reader panics")
}

async fn read(client: Client, received: Arc<Mutex<Received>>) {
    loop {
        let last_event_id = lock(&received).last;
        let query = EventsQuery { last_event_id, ..EventsQuery::default() };
        let opened = tokio::time::timeout(OPEN_TIMEOUT, client.events(&query)).await;
        if let Ok(Ok(mut events)) = opened {
            while let Ok(Some(Ok(event))) = tokio::time::timeout(SILENCE, events.next()).await {
                lock(&received).note(event);
            }
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}

// === impl Received ===

impl Received {
    fn note(&mut self, event: StreamedEvent) {
        let id = match event {
            StreamedEvent::History { id, .. } => {
                self.events.push(id);
                id
            }
            StreamedEvent::Gap { id, .. } => {
                self.gaps.push(id);
                id
            }
            StreamedEvent::Position { id } => id,
        };
        self.began_after.get_or_insert(id);
        self.last = Some(id);
    }
}
