//! The event stream: every history event of jobs or of nodes, as it is committed.
//!
//! A stream owns only its position. It reads the store one page at a time, after its reader has
//! taken the previous page: a slow reader delays no other and misses nothing while retention keeps
//! the events. Events removed by then appear as a gap. Rejected: a queue of events per reader,
//! which a slow reader overflows.

mod text;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api_types::history::EventType;
use api_types::{Code, Timestamp, routes};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use control_plane::store::{EventsPage, EventsQuery, Namespaces};
use daemon::collect;
use daemon::http::Operations;
use futures_util::stream;
use http::{HeaderMap, header};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::error::{BadRequest, Failure};
use crate::http::lookup;
use crate::http::openapi::{JOB, QUERY, READ, params, refusals};
use crate::http::query::{IdPrefix, Namespace, Number, StreamFilters, invalid, query};
use crate::shares::Permit;

/// Events examined in one read, matching or not: about a millisecond.
const EVENTS_AT_ONCE: u32 = 500;

/// Minimum interval between two reads of the store by a stream that has caught up; it batches the
/// commits in between.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// Interval of keep-alive comments, by which each side notices that the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

const LAST_EVENT_ID: &str = "Last-Event-ID";

/// The state of an open stream.
struct Events {
    api: Arc<Api>,
    /// Its `after` is the position of the stream.
    query: EventsQuery,
    /// The position that the reader knows, if any.
    known: Option<u64>,
    next: Next,
    /// Changes with every commit of events.
    news: watch::Receiver<u64>,
    /// When the store was last read.
    last_read: Instant,
    /// When something was last written.
    written: Instant,
    place: Permit,
}

#[derive(Clone, Copy)]
enum Next {
    /// Send the position at which the stream begins.
    Greeting,
    /// Continue reading the store.
    Page,
    /// Caught up: wait for the next commit.
    Wait,
    /// No further event is possible.
    End,
}

query! {
    struct OpenQuery {
        job: Option<String> = ("job_id", IdPrefix('j'), "Events of one job, by ID or prefix.");
        namespace: Option<String> = (
            "namespace",
            Namespace { default: "*" },
            "Events of the jobs of one namespace; `*` for all."
        );
        last_event_id: Option<u64> =
            ("last_event_id", Number, "Resumes after this event; the header takes precedence.");
        events: StreamFilters = part;
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(open))
}

/// Stream of events
///
/// Server-sent events: each event of every job's history, once, in commit order; with
/// `event_type=node` each event of every node's history. `id` counts over all events, `data` is one
/// history event; one `gap` event stands for events that retention has removed. The stream stays
/// open.
#[utoipa::path(
    get,
    path = routes::EVENTS,
    operation_id = "streamEvents",
    tag = "Events",
    params(OpenQuery, params::LastEventId),
    responses((
        status = 200,
        description = "The stream.",
        body = String,
        content_type = "text/event-stream",
        headers(("Cache-Control" = String, description = "`no-store`")),
    )),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, READ, &[Code::InvalidRequest, Code::NamespaceNotFound]]))), ("x-item-schema" = json!({ "text/event-stream": "HistoryEvent" }))),
)]
async fn open(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: OpenQuery,
) -> Handled {
    let OpenQuery { job, namespace, last_event_id, events } = query;
    let (event_type, since) = (events.event_type, events.since.since);
    if event_type == Some(EventType::NodeLevel) && (job.is_some() || namespace.is_some()) {
        // An empty stream would look like a quiet cluster.
        let reason = "events of nodes belong to no job and no namespace";
        return Err(invalid(format!("event_type: {reason}")));
    }
    // Events of nodes are in no namespace.
    let namespaces = match event_type {
        Some(EventType::NodeLevel) => Namespaces::All,
        _ => access.within(namespace)?,
    };
    let resumed = resumed_after(&headers, last_event_id)?;
    let place = api.pools.streams.take(&api.pools.owner(access.caller()), 1)?;
    // Subscribe before determining the position, so that no commit falls in between.
    let news = api.view.feed().last_seq();
    let query = api
        .read(move |reads| {
            let job = job.map(|text| lookup::job(reads, &access, &text)).transpose()?;
            let job = job.map(|job| job.id);
            let last = reads.last_event()?;
            let after = match (resumed, since) {
                (Some(id), _) if id > last => return Err(beyond(id, last)),
                (Some(id), _) => id,
                (None, Some(since)) => reads.position_before(since)?,
                (None, None) => last,
            };
            let since = since.unwrap_or(Timestamp::ZERO);
            Ok(EventsQuery { after, job, namespaces, event_type, since, limit: EVENTS_AT_ONCE })
        })
        .await?;
    let now = Instant::now();
    let events = Events {
        known: resumed,
        api,
        query,
        next: Next::Greeting,
        news,
        last_read: now,
        written: now,
        place,
    };
    let pieces = stream::unfold(events, |mut events| async move {
        let piece = events.next_piece().await?;
        events.written = Instant::now();
        // The stream only ever ends; it never fails partway.
        Some((Ok::<_, Infallible>(piece), events))
    });
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        // Asks a proxy not to buffer.
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// The event to resume after. The header wins, because a reconnecting browser sends it together
/// with its original query.
fn resumed_after(headers: &HeaderMap, in_query: Option<u64>) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
        return Ok(in_query);
    };
    let id = value
        .to_str()
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok());
    let reason = "must be the id of an event, which is a number".to_owned();
    id.map(Some).ok_or(BadRequest::Header { name: LAST_EVENT_ID, reason }.into())
}

/// Another database issued this id, or this database was restored since.
fn beyond(id: u64, last: u64) -> Failure {
    invalid(format!("{LAST_EVENT_ID}: {id} is unknown, the last event is {last}"))
}

// === impl Events ===

impl Events {
    /// The next events, or `None` when the stream is over.
    async fn next_piece(&mut self) -> Option<Bytes> {
        loop {
            match self.next {
                Next::Greeting => {
                    self.next = Next::Page;
                    let begins = self.query.after;
                    return Some(text::greeting(begins, self.news_of_position()));
                }
                Next::Page => {
                    let piece = self.read().await?;
                    if !piece.is_empty() {
                        return Some(piece);
                    }
                    // A search through many events that do not match takes a while.
                    if self.written.elapsed() >= KEEP_ALIVE {
                        return Some(text::keep_alive(self.news_of_position()));
                    }
                }
                Next::Wait => {
                    let silence_ends = self.written + KEEP_ALIVE;
                    let next_read = self.last_read + READ_INTERVAL;
                    let (news, stopping) = (&mut self.news, &self.api.stopping);
                    let more = async {
                        tokio::time::sleep_until(next_read).await;
                        news.changed().await
                    };
                    tokio::select! {
                        biased;
                        () = stopping.cancelled() => return None,
                        changed = more => {
                            changed.ok()?;
                            self.next = Next::Page;
                        }
                        () = tokio::time::sleep_until(silence_ends) => {
                            return Some(text::keep_alive(self.news_of_position()));
                        }
                    }
                }
                Next::End => return None,
            }
        }
    }

    /// Reads a page and moves the position behind it.
    async fn read(&mut self) -> Option<Bytes> {
        // Commits from here on wake the stream.
        self.news.borrow_and_update();
        let (query, view) = (self.query.clone(), Arc::clone(&self.api.view));
        // Rendered there too: a page may have 8 MB.
        let read = self.api.read(move |reads| {
            let page = reads.events(&query)?;
            let names = text::Names::load(&page.entries, reads, &view)?;
            Ok((text::events(&page.entries, &names)?, page))
        });
        let page = tokio::select! {
            biased;
            () = self.api.stopping.cancelled() => return None,
            page = self.place.owner().within(read) => page,
        };
        self.last_read = Instant::now();
        match page {
            Ok((piece, EventsPage { entries, through, more, job_gone })) => {
                self.query.after = through;
                self.known = entries.last().map(text::id).or(self.known);
                self.next = match (job_gone, more) {
                    (true, _) => Next::End,
                    (false, true) => Next::Page,
                    (false, false) => Next::Wait,
                };
                Some(piece)
            }
            Err(failure) => {
                // The reader reconnects with the last event that it received.
                tracing::warn!(?failure, "an event stream was cut off");
                None
            }
        }
    }

    /// The position, if the reader does not know it: a reader of rare events need not repeat the
    /// search through all others.
    fn news_of_position(&mut self) -> Option<u64> {
        let after = self.query.after;
        (self.known.replace(after) != Some(after)).then_some(after)
    }
}
