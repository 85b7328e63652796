//! The event stream: history events as they are committed.

use api_types::history::{HistoryEvent, HistoryGap};
use api_types::routes;
use bytes::Bytes;
use futures_util::Stream;

use crate::client::Client;
use crate::error::ClientError;
use crate::lines::Lines;
use crate::query::Pairs;

/// Selects events; the service has a default for each absent field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsQuery {
    /// The id may be short.
    pub job_id: Option<String>,
    pub namespace: Option<String>,
    /// `job`, `execution` or `all`; or `node` for events of nodes, which `all` leaves out.
    pub event_type: Option<String>,
    /// Unix seconds or RFC 3339.
    pub since: Option<String>,
    /// Continue after this event. Without it and `since`, the stream begins with the next commit.
    pub last_event_id: Option<u64>,
}

/// An item of the stream. A later stream can continue after its id.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamedEvent {
    History {
        id: u64,
        event: Box<HistoryEvent>,
    },
    /// Retention removed events before the stream delivered them.
    Gap {
        id: u64,
        gap: HistoryGap,
    },
    /// No event up to this one matched. Also the first item of a stream opened without an id.
    Position {
        id: u64,
    },
}

/// The fields of an event so far.
#[derive(Default)]
struct Block {
    id: Option<u64>,
    event: String,
    data: Vec<u8>,
}

impl Client {
    /// `GET /events`. The stream ends when the service stops or the job is removed; to continue,
    /// open another with the last id.
    pub async fn events(
        &self,
        query: &EventsQuery,
    ) -> Result<
        impl Stream<Item = Result<StreamedEvent, ClientError>> + Send + Unpin + use<>,
        ClientError,
    > {
        let pairs = Pairs::default()
            .add("job_id", query.job_id.as_ref())
            .add("namespace", query.namespace.as_ref())
            .add("event_type", query.event_type.as_ref())
            .add("since", query.since.as_ref());
        let mut call = self.get(routes::EVENTS).query(&pairs.0);
        if let Some(id) = query.last_event_id {
            call = call.header("last-event-id", &id.to_string());
        }
        let (response, context) = call.open().await?;
        let lines = Lines::new(response.bytes_stream(), context);
        Ok(Box::pin(futures_util::stream::unfold(Some(lines), |lines| async move {
            let mut lines = lines?;
            match next(&mut lines).await {
                Ok(Some(event)) => Some((Ok(event), Some(lines))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })))
    }
}

/// Reads up to the next block with an event or a position; ignores an incomplete block.
async fn next<S>(lines: &mut Lines<S>) -> Result<Option<StreamedEvent>, ClientError>
where
    S: Stream<Item = reqwest::Result<Bytes>> + Unpin,
{
    let mut block = Block::default();
    while let Some(line) = lines.next_line().await? {
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            match std::mem::take(&mut block).finish(lines)? {
                Some(event) => return Ok(Some(event)),
                None => continue,
            }
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"id" => block.id = Some(lines.parse(value)?),
            b"event" => block.event = String::from_utf8_lossy(value).into_owned(),
            b"data" => block.data.extend_from_slice(value),
            // Comments, the reconnection delay, and fields of later releases.
            _ => {}
        }
    }
    Ok(None)
}

// === impl Block ===

impl Block {
    fn finish<S>(self, lines: &Lines<S>) -> Result<Option<StreamedEvent>, ClientError>
    where
        S: Stream<Item = reqwest::Result<Bytes>> + Unpin,
    {
        let Self { id, event, data } = self;
        match (id, event.as_str(), data.is_empty()) {
            (Some(id), _, true) => Ok(Some(StreamedEvent::Position { id })),
            (None, _, true) => Ok(None),
            (Some(id), "" | "message", false) => {
                let event = Box::new(lines.parse(&data)?);
                Ok(Some(StreamedEvent::History { id, event }))
            }
            (Some(id), HistoryGap::EVENT, false) => {
                Ok(Some(StreamedEvent::Gap { id, gap: lines.parse(&data)? }))
            }
            (None, _, false) => {
                Err(lines.context().protocol(format!("an event '{event}' without an id")))
            }
            // Skipping it would lose an event.
            (Some(_), other, false) => {
                Err(lines.context().protocol(format!("an unknown event '{other}'")))
            }
        }
    }
}
