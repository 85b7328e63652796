//! Removing what is left over of executions that nobody needs any more.

use std::sync::Arc;
use std::time::Duration;

use api_types::ExecutionId;
use tracing::{debug, info, warn};

use super::Mailbox;
use crate::publisher::PublishedDir;
use crate::steps::Steps;

/// How often the engines are looked through. Leftovers only come about when a removal failed or
/// the agent died between two steps.
const INTERVAL: Duration = Duration::from_secs(60);

/// How soon after the start the first time is, and again while an engine does not answer.
const FIRST: Duration = Duration::from_secs(1);

/// Looks through the engines for containers of this node that nothing needs, for ever.
pub(crate) async fn leftovers(steps: Arc<Steps>, mailbox: Mailbox) {
    directories(&steps, &mailbox).await;
    let mut swept = false;
    loop {
        tokio::time::sleep(if swept { INTERVAL } else { FIRST }).await;
        swept = true;
        for (engine, executor) in steps.engines.all() {
            // Listed before the supervisor is asked: what is made meanwhile is not in the list.
            let found = match executor.list(steps.node_id).await {
                Ok(found) => found,
                Err(error) => {
                    debug!(%engine, %error, "the sweep waits for the engine");
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
                    Err(error) => warn!(execution = %id, %error, "a leftover cannot be removed"),
                }
            }
        }
    }
}

/// Removes published archives once their time is over, for ever.
pub(crate) async fn published(published: PublishedDir, retain: Duration) {
    loop {
        let of_this_turn = published.clone();
        let removing = tokio::task::spawn_blocking(move || of_this_turn.remove_older_than(retain));
        match removing.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(0) => {}
            Ok(count) => info!(count, "removed published archives whose time is over"),
            Err(error) => warn!(%error, "published archives cannot be removed"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Removes the directories that no execution has, once.
async fn directories(steps: &Arc<Steps>, mailbox: &Mailbox) {
    let listed = match steps.files.dirs.list() {
        Ok(listed) => listed,
        Err(error) => return warn!(%error, "the executions' directories cannot be listed"),
    };
    let Ok(held) = mailbox.list().await else { return };
    let held: std::collections::BTreeSet<_> = held.into_iter().map(|local| local.id).collect();
    remove_directories(steps, listed.into_iter().filter(|id| !held.contains(id)).collect());
}

/// Removes the directories of executions that are forgotten.
pub(super) fn remove_directories(steps: &Arc<Steps>, ids: Vec<ExecutionId>) {
    if ids.is_empty() {
        return;
    }
    let dirs = steps.files.dirs.clone();
    steps.tasks.spawn(async move {
        let removed = tokio::task::spawn_blocking(move || {
            for id in ids {
                if let Err(error) = dirs.of(id).remove() {
                    warn!(execution = %id, %error, "a directory cannot be removed");
                }
            }
        });
        if let Err(error) = removed.await {
            warn!(%error, "removing directories broke off");
        }
    });
}
