//! `jobctl events`: the events of all jobs, or of all nodes.

use std::time::Duration;

use anyhow::Result;
use api_client::{Client, ClientError, EventsQuery, StreamedEvent};
use api_types::Code;
use futures_util::{Stream, StreamExt};

use super::{Exit, Session};
use crate::cli::{EventsArgs, StreamLevel};
use crate::clock;
use crate::output::{Rows, note};
use crate::reconnect::Reconnect;
use crate::view::NumberedEvent;

/// Without `--follow` the command ends at the event that was the last one when it started. If a
/// filter excludes that event, the stream does not show that it was passed, and this long without
/// an event means the end. The service searches about half a million events per second.
const SILENCE: Duration = Duration::from_secs(2);

/// Delay before a stream that ended regularly is opened again.
const REOPEN_DELAY: Duration = Duration::from_millis(500);

pub(super) async fn events(session: &Session, args: &EventsArgs) -> Result<Exit> {
    // Nodes belong to no namespace.
    let namespace = if args.all_namespaces || args.level == StreamLevel::Node {
        None
    } else {
        args.namespace.namespace.clone().or_else(|| session.namespace.clone())
    };
    let query = EventsQuery {
        job_id: args.job.clone(),
        namespace,
        event_type: Some(args.level.word().to_owned()),
        since: args.since(clock::now()),
        last_event_id: args.after,
    };
    let rows = Rows::new(session.out, args.output.format, NumberedEvent::WIDTHS);
    if args.follow {
        follow(&session.client, query, rows).await?;
    } else {
        until_now(&session.client, &query, rows).await?;
    }
    Ok(Exit::Done)
}

async fn until_now(
    client: &Client,
    query: &EventsQuery,
    mut rows: Rows<NumberedEvent>,
) -> Result<()> {
    // A stream without parameters begins with the position of the last event.
    let last = match client.events(&EventsQuery::default()).await?.next().await.transpose()? {
        Some(first) => id(&first),
        None => return Ok(()),
    };
    let mut stream = client.events(query).await?;
    while let Ok(Some(item)) = tokio::time::timeout(SILENCE, stream.next()).await {
        let item = item?;
        let position = id(&item);
        show(&mut rows, item)?;
        if position >= last {
            break;
        }
    }
    Ok(())
}

/// Resumes broken streams at their last event, so that no event is lost or repeated.
async fn follow(
    client: &Client,
    mut query: EventsQuery,
    mut rows: Rows<NumberedEvent>,
) -> Result<()> {
    let mut reconnect = Reconnect::default();
    let mut opened = false;
    loop {
        let ended = match client.events(&query).await {
            Ok(mut stream) => {
                reconnect.succeeded();
                opened = true;
                relay(&mut stream, &mut query, &mut rows).await?
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => tokio::time::sleep(REOPEN_DELAY).await,
            // Removal of the job ended the stream.
            Err(error) if opened && error.code() == Some(Code::JobNotFound) => return Ok(()),
            Err(error) => tokio::time::sleep(reconnect.retry_delay(error)?).await,
        }
    }
}

/// Shows events until the stream ends or breaks, and records the position.
async fn relay(
    stream: &mut (impl Stream<Item = Result<StreamedEvent, ClientError>> + Unpin),
    query: &mut EventsQuery,
    rows: &mut Rows<NumberedEvent>,
) -> Result<Result<(), ClientError>> {
    while let Some(item) = stream.next().await {
        match item {
            Ok(item) => {
                query.last_event_id = Some(id(&item));
                show(rows, item)?;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

fn show(rows: &mut Rows<NumberedEvent>, item: StreamedEvent) -> Result<()> {
    match item {
        StreamedEvent::History { id, event } => {
            rows.show(&NumberedEvent { sequence: id, event: *event })
        }
        StreamedEvent::Gap { gap, .. } => {
            note(&format!("events {} to {} are missing: retention removed them", gap.from, gap.to));
            Ok(())
        }
        StreamedEvent::Position { .. } => Ok(()),
    }
}

const fn id(item: &StreamedEvent) -> u64 {
    match item {
        StreamedEvent::History { id, .. }
        | StreamedEvent::Gap { id, .. }
        | StreamedEvent::Position { id } => *id,
    }
}
