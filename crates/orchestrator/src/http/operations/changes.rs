//! The stream of changes: which records changed, at most one message a second.
//!
//! For pages and tools that show records: a message only says what is out of date. All streams send
//! the same messages, so one costs a connection and a few kilobytes a second.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api_types::cluster::ChangeNotice;
use api_types::{Code, routes};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use control_plane::store::Namespaces;
use daemon::collect;
use daemon::http::Operations;
use futures_util::stream;
use http::{HeaderMap, header};
use tokio::sync::watch;

use crate::changes::Next;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::openapi::{QUERY, params, refusals};
use crate::http::query::{Text, query};
use crate::shares::Permit;

/// Interval of keep-alive comments, by which each side notices that the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Milliseconds until a browser reconnects.
const RETRY_MS: u32 = 1000;

const LAST_EVENT_ID: &str = "Last-Event-ID";

query! {
    struct OpenQuery {
        last_event_id: Option<String> = (
            "last_event_id",
            Text,
            "Resumes after this message; the header takes precedence. After an unknown one, `More` \
             is true."
        );
    }
}

/// An open stream.
struct Open {
    api: Arc<Api>,
    /// Jobs of other namespaces are left out.
    visible: Namespaces,
    news: watch::Receiver<u64>,
    /// The number of the last message that was sent.
    after: u64,
    /// What is sent first.
    first: Option<ChangeNotice>,
    place: Permit,
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(open))
}

/// Stream of changes
///
/// Server-sent events: which jobs and nodes changed, at most one message a second, the first
/// immediately. The stream stays open.
#[utoipa::path(
    get,
    path = routes::CHANGES,
    operation_id = "streamChanges",
    tag = "Events",
    params(OpenQuery, params::LastChangeId),
    responses((
        status = 200,
        description = "The stream.",
        body = String,
        content_type = "text/event-stream",
        headers(("Cache-Control" = String, description = "`no-store`")),
    )),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::TooManyRequests]]))), ("x-item-schema" = json!({ "text/event-stream": "ChangeNotice" }))),
)]
async fn open(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: OpenQuery,
) -> Handled {
    let in_header = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty());
    // The header wins, because a reconnecting browser sends it together with its original query.
    let known = match in_header {
        Some(value) => Some(String::from_utf8_lossy(value.as_bytes()).into_owned()),
        None => query.last_event_id,
    };
    let place = api.pools.streams.take(&api.pools.owner(access.caller()), 1)?;
    let feed = api.view.changes();
    let news = feed.last();
    let last = *news.borrow();
    let through = feed.through();
    let resumed = known.as_deref().map(|id| number(id, &api).filter(|number| *number <= last));
    let (after, more) = match resumed {
        // From another process, or damaged.
        Some(None) => (last, true),
        Some(Some(after)) => match feed.next(after) {
            Next::Missed(last) => (last, true),
            Next::Message(_) | Next::Nothing => (after, false),
        },
        None => (last, false),
    };
    let first = Some(ChangeNotice { through, more, cluster: more, ..ChangeNotice::default() });
    let visible = access.caller().visible();
    let open = Open { api, visible, news, after, first, place };
    let pieces = stream::unfold(open, |mut open| async move {
        let piece = open.next_piece().await?;
        Some((Ok::<_, Infallible>(piece), open))
    });
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        // Asks a proxy not to buffer.
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// The number in the ID of a message, if this process sent it.
fn number(id: &str, api: &Api) -> Option<u64> {
    let (process, number) = id.split_once('.')?;
    (process == api.process).then(|| number.parse().ok())?
}

// === impl Open ===

impl Open {
    /// The next bytes, or `None` when the service stops.
    async fn next_piece(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            let retry = format!("retry: {RETRY_MS}\n");
            return Some([retry.into_bytes(), self.render(&first)].concat().into());
        }
        loop {
            self.news.borrow_and_update();
            match self.api.view.changes().next(self.after) {
                Next::Message(message) => {
                    self.after = message.number;
                    let notice = self.seen(&message.notice).await;
                    return Some(self.render(&notice).into());
                }
                Next::Missed(last) => {
                    self.after = last;
                    let through = self.api.view.changes().through();
                    let notice = ChangeNotice {
                        through,
                        more: true,
                        cluster: true,
                        ..ChangeNotice::default()
                    };
                    return Some(self.render(&notice).into());
                }
                Next::Nothing => {}
            }
            tokio::select! {
                biased;
                () = self.api.stopping.cancelled() => return None,
                changed = self.news.changed() => changed.ok()?,
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    return Some(Bytes::from_static(b": keep-alive\n\n"));
                }
            }
        }
    }

    /// The message as far as its reader may see it.
    async fn seen(&self, notice: &ChangeNotice) -> ChangeNotice {
        let mut seen = notice.clone();
        if self.visible == Namespaces::All || seen.jobs.is_empty() {
            return seen;
        }
        let (jobs, visible) = (std::mem::take(&mut seen.jobs), self.visible.clone());
        let read = self.api.read(move |reads| Ok(reads.jobs_within(&jobs, &visible)?));
        let within = self.place.owner().within(read).await;
        match within {
            Ok(jobs) => seen.jobs = jobs,
            // The reader looks for itself.
            Err(_) => seen.more = true,
        }
        seen
    }

    /// JSON without line breaks is one line of data.
    fn render(&self, notice: &ChangeNotice) -> Vec<u8> {
        let (process, number) = (&self.api.process, self.after);
        let mut bytes =
            format!("id: {process}.{number}\nevent: {}\ndata: ", ChangeNotice::EVENT).into_bytes();
        // A record of plain data always renders.
        drop(serde_json::to_writer(&mut bytes, notice));
        bytes.extend_from_slice(b"\n\n");
        bytes
    }
}
