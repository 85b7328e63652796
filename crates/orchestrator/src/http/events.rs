//! The stream of events: everything that goes into the history, as it is committed.
//!
//! A stream owns nothing but its position. It reads the store a page at a time, and only when its
//! reader has taken the page before: a slow reader holds nobody up, and misses nothing for as long
//! as retention keeps the events; what is gone by then is told as a gap. What was rejected: a
//! queue of events per reader, which a slow one overflows.

mod text;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api_types::{Code, Timestamp, routes};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use futures_util::stream;
use http::{HeaderMap, header};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use super::error::Failure;
use super::history::EVENT_TYPES;
use super::openapi::{JOB, QUERY, READ, params, refusals};
use super::query::{Query, invalid};
use super::{Api, Handled, lookup};
use crate::store::{EventsPage, EventsQuery};

/// Events that are looked at in one go, whether they match or not: about a millisecond.
const EVENTS_AT_ONCE: u32 = 500;

/// A stream that has caught up looks at the store again no sooner than this after its last look;
/// what is committed meanwhile comes together.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Silence is broken by a comment this often, so that each side notices when the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

const LAST_EVENT_ID: &str = "Last-Event-ID";

/// What a stream that is open needs.
struct Events {
    api: Arc<Api>,
    /// Its `after` is the position of the stream.
    query: EventsQuery,
    /// The position that the reader knows of, if it knows of one.
    told: Option<u64>,
    next: Next,
    /// Changes with every commit of events.
    news: watch::Receiver<u64>,
    /// When the store was looked at last.
    looked: Instant,
    /// When something was written last.
    written: Instant,
    _place: OwnedSemaphorePermit,
}

#[derive(Clone, Copy)]
enum Next {
    /// Say where the stream begins.
    Greeting,
    /// Read on in the store.
    Page,
    /// All was read: wait for more to be committed.
    News,
    /// Nothing can follow.
    End,
}

pub(super) fn router() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(collect!(open))
}

/// Stream of events
///
/// Server-sent events: each event of every job's history, once, in the order in which they were
/// committed. `id` counts over all jobs, `data` is one history event; events that retention has
/// removed are told by one event `gap`. The stream stays open.
#[utoipa::path(
    get,
    path = routes::EVENTS,
    operation_id = "streamEvents",
    tag = "Events",
    params(params::StreamOfEvents, params::EventFilters, params::LastEventId),
    responses((
        status = 200,
        description = "The stream.",
        body = String,
        content_type = "text/event-stream",
        headers(("Cache-Control" = String, description = "`no-store`")),
    )),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, READ, &[Code::InvalidRequest]]))), ("x-item-schema" = json!({ "text/event-stream": "HistoryEvent" }))),
)]
async fn open(State(api): State<Arc<Api>>, headers: HeaderMap, query: Query) -> Handled {
    let event_type = query.choice("event_type", EVENT_TYPES, None)?;
    let namespace = query.text("namespace")?.filter(|name| *name != "*").map(str::to_owned);
    let since = query.moment("since")?;
    let resumed = last_event_id(&headers, &query)?;
    let job = query.text("job_id")?.map(str::to_owned);
    let place = api.streams.take()?;
    // Before the position is found, so that nothing falls in between.
    let news = api.view.feed().last_seq();
    let query = api
        .reader
        .run(move |reads| {
            let job = job.map(|text| lookup::job(reads, &text)).transpose()?.map(|job| job.id);
            let last = reads.last_event()?;
            let after = match (resumed, since) {
                (Some(id), _) if id > last => return Err(beyond(id, last)),
                (Some(id), _) => id,
                (None, Some(since)) => reads.last_event_before(since)?,
                (None, None) => last,
            };
            let since = since.unwrap_or(Timestamp::ZERO);
            Ok(EventsQuery { after, job, namespace, event_type, since, limit: EVENTS_AT_ONCE })
        })
        .await?;
    let now = Instant::now();
    let events = Events {
        told: resumed,
        api,
        query,
        next: Next::Greeting,
        news,
        looked: now,
        written: now,
        _place: place,
    };
    let pieces = stream::unfold(events, |mut events| async move {
        let piece = events.next_piece().await?;
        events.written = Instant::now();
        // It only ever ends; it never fails half way.
        Some((Ok::<_, Infallible>(piece), events))
    });
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        // Asks a proxy not to collect pieces of it.
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// The event after which to go on; the header wins, since a browser that connects again sends it
/// with the query that it began with.
fn last_event_id(headers: &HeaderMap, query: &Query) -> Result<Option<u64>, Failure> {
    let in_query = query.optional_number("last_event_id")?;
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
        return Ok(in_query);
    };
    let id = value
        .to_str()
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok());
    let reason = "must be the id of an event, which is a number".to_owned();
    id.map(Some).ok_or(Failure::InvalidHeader { name: LAST_EVENT_ID, reason })
}

/// Such an event was told by another database, or by one that was restored since.
fn beyond(id: u64, last: u64) -> Failure {
    invalid(format!("{LAST_EVENT_ID}: {id} is not known here, the last event is {last}"))
}

// === impl Events ===

impl Events {
    /// The next events, or nothing when the stream is over.
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
                    // A search through many events that do not match takes its time.
                    if self.written.elapsed() >= KEEP_ALIVE {
                        return Some(text::keep_alive(self.news_of_position()));
                    }
                }
                Next::News => {
                    let silence_ends = self.written + KEEP_ALIVE;
                    let look_again = self.looked + LOOK_INTERVAL;
                    let (news, stopping) = (&mut self.news, &self.api.stopping);
                    let more = async {
                        tokio::time::sleep_until(look_again).await;
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

    /// Reads a page and goes on behind it.
    async fn read(&mut self) -> Option<Bytes> {
        // What is committed from here on is news.
        self.news.borrow_and_update();
        let query = self.query.clone();
        let read = self.api.reader.run(move |reads| Ok(reads.events(&query)?));
        let page = tokio::select! {
            biased;
            () = self.api.stopping.cancelled() => return None,
            page = read => page,
        };
        self.looked = Instant::now();
        match page.and_then(|page| Ok((text::events(&page.entries)?, page))) {
            Ok((piece, EventsPage { entries, through, more, job_gone })) => {
                self.query.after = through;
                self.told = entries.last().map(text::id).or(self.told);
                self.next = match (job_gone, more) {
                    (true, _) => Next::End,
                    (false, true) => Next::Page,
                    (false, false) => Next::News,
                };
                Some(piece)
            }
            Err(failure) => {
                // The reader comes again with the last event it was told.
                tracing::warn!(?failure, "a stream of events is cut off");
                None
            }
        }
    }

    /// The position, if the reader does not know of it: whoever follows few of the events need not
    /// have all the others searched again.
    fn news_of_position(&mut self) -> Option<u64> {
        let after = self.query.after;
        (self.told.replace(after) != Some(after)).then_some(after)
    }
}
