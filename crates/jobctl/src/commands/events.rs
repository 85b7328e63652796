//! `jobctl events`: what happens to all jobs.

use std::time::Duration;

use anyhow::Result;
use api_client::{Client, ClientError, EventsQuery, StreamedEvent};
use api_types::Code;
use futures_util::{Stream, StreamExt};

use super::{Exit, Session};
use crate::cli::EventsArgs;
use crate::clock;
use crate::output::{Rows, note};
use crate::patience::Patience;
use crate::view::NumberedEvent;

/// Whoever does not follow ends at the event that was the last one at the beginning. Where a
/// filter leaves that one out, nothing tells that it was passed; then silence means the end. The
/// service searches about half a million events a second.
const SILENCE: Duration = Duration::from_secs(2);

/// A stream that ended well is opened again no sooner than this.
const REOPEN_DELAY: Duration = Duration::from_millis(500);

pub(super) async fn events(session: &Session, args: &EventsArgs) -> Result<Exit> {
    let namespace = if args.all_namespaces {
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
    // A stream that asks for nothing begins by telling where the events end.
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

/// Goes on where a stream that broke had ended: nothing is missed, and nothing told twice.
async fn follow(
    client: &Client,
    mut query: EventsQuery,
    mut rows: Rows<NumberedEvent>,
) -> Result<()> {
    let mut patience = Patience::default();
    let mut opened = false;
    loop {
        let ended = match client.events(&query).await {
            Ok(mut stream) => {
                patience.answered();
                opened = true;
                relay(&mut stream, &mut query, &mut rows).await?
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => tokio::time::sleep(REOPEN_DELAY).await,
            // The job was removed, which ended the stream.
            Err(error) if opened && error.code() == Some(Code::JobNotFound) => return Ok(()),
            Err(error) => tokio::time::sleep(patience.forgive(error)?).await,
        }
    }
}

/// Shows what comes until the stream ends or breaks, and remembers how far it came.
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
            note(&format!("events {} to {} are gone: their jobs were removed", gap.from, gap.to));
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
