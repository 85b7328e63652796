//! Removes leftovers of executions that the node no longer needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_types::ExecutionId;
use tracing::{debug, info, warn};

use crate::data::handover::Handover;
use crate::data::results::publisher::PublishedDir;
use crate::node::effects::{EffectRunner, Files, remove_inputs};
use crate::node::mailbox::Mailbox;

/// Interval between sweeps. Leftovers only exist when a removal failed or the agent crashed
/// between two steps.
const INTERVAL: Duration = Duration::from_secs(60);

/// Delay of the first sweep after the start, and of a retry while an engine is unreachable.
const FIRST: Duration = Duration::from_secs(1);

/// Removes containers of this node that no execution needs, until the agent stops.
pub(crate) async fn leftovers(runner: Arc<EffectRunner>, mailbox: Mailbox) {
    directories(&runner, &mailbox).await;
    let mut swept = false;
    loop {
        tokio::time::sleep(if swept { INTERVAL } else { FIRST }).await;
        swept = true;
        secrets(&runner, &mailbox).await;
        for (engine, executor) in runner.engines.all() {
            // List first, then ask the supervisor: containers made in between are not in the list.
            let found = match executor.list(runner.node_id).await {
                Ok(found) => found,
                Err(error) => {
                    debug!(%engine, %error, "the engine is unreachable; retrying the sweep");
                    swept = false;
                    continue;
                }
            };
            if found.is_empty() {
                continue;
            }
            let Ok(leftovers) = mailbox.leftovers(found).await else { return };
            for id in leftovers {
                match executor.remove(id).await {
                    Ok(()) => info!(execution = %id, %engine, "removed a leftover"),
                    Err(error) => warn!(execution = %id, %error, "cannot remove a leftover"),
                }
            }
        }
    }
}

/// Removes expired archives, except those that other jobs need, until the agent stops.
pub(crate) async fn published(published: PublishedDir, retain: Duration, handover: Handover) {
    loop {
        match expired(&published, retain, &handover).await {
            Ok(0) => {}
            Ok(count) => info!(count, "removed expired archives"),
            Err(error) => warn!(%error, "cannot remove published archives"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns how many went.
async fn expired(
    published: &PublishedDir,
    retain: Duration,
    handover: &Handover,
) -> std::io::Result<usize> {
    let listed = published.clone();
    let listing = tokio::task::spawn_blocking(move || listed.older_than(retain));
    let mut older = listing.await.map_err(std::io::Error::other)??;
    if older.is_empty() {
        return Ok(0);
    }
    // However long the orchestrator is away: until it has answered, none of them goes.
    let needed = handover.needed_archives(&older).await;
    let needed = needed.map_err(|failure| std::io::Error::other(failure.message))?;
    let needed: BTreeSet<_> = needed.into_iter().collect();
    older.retain(|id| !needed.contains(id));
    let (count, removed) = (older.len(), published.clone());
    let removing = tokio::task::spawn_blocking(move || removed.remove(&older));
    removing.await.map_err(std::io::Error::other)??;
    Ok(count)
}

/// Removes directories without an execution, and the inputs of those that are done, once: the agent
/// may have ended before it removed them.
async fn directories(runner: &Arc<EffectRunner>, mailbox: &Mailbox) {
    // List first, then ask the supervisor, as above.
    let listed = match runner.files.dirs.list() {
        Ok(listed) => listed,
        Err(error) => return warn!(%error, "cannot list the executions' directories"),
    };
    let Ok(held) = mailbox.list().await else { return };
    let held: BTreeSet<_> = held.into_iter().map(|local| local.id).collect();
    let (known, forgotten) = listed.into_iter().partition(|id| held.contains(id));
    forget(runner, forgotten);
    for id in mailbox.leftovers(known).await.unwrap_or_default() {
        remove_inputs(runner.files.dirs.for_execution(id), id).await;
    }
}

/// Removes secrets that no execution needs any more. An execution may be done while its secrets are
/// still here, if the agent ended before it removed them.
async fn secrets(runner: &EffectRunner, mailbox: &Mailbox) {
    // List first, then ask the supervisor, as above.
    let found = match runner.files.secrets.list() {
        Ok(found) if found.is_empty() => return,
        Ok(found) => found,
        Err(error) => return warn!(%error, "cannot list the executions' secrets"),
    };
    for id in mailbox.leftovers(found).await.unwrap_or_default() {
        runner.files.secrets.forget(id).await;
    }
}

/// Removes the directories and secrets of forgotten executions.
pub(super) fn forget(runner: &Arc<EffectRunner>, ids: Vec<ExecutionId>) {
    if ids.is_empty() {
        return;
    }
    let of_blocking = Arc::clone(runner);
    runner.tasks.spawn(async move {
        let removed = tokio::task::spawn_blocking(move || {
            let Files { dirs, secrets, .. } = &of_blocking.files;
            for id in ids {
                if let Err(error) = dirs.for_execution(id).remove() {
                    warn!(execution = %id, %error, "cannot remove a directory");
                }
                secrets.forget_blocking(id);
            }
        });
        if let Err(error) = removed.await {
            warn!(%error, "directory removal failed");
        }
    });
}
