//! A join token in a file, for agents on this machine: every reader of the file can add a node.
//!
//! The file always has a token for one node. Once it is used, or half of its life is over, the next
//! one takes its place, so several agents can be started with the same file.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api_types::Timestamp;
use api_types::joining::{CreateNodeToken, JoinToken};
use control_plane::records::Expected;
use tokio_util::sync::CancellationToken;

use super::credential::Credential;
use super::join_token::{self, StoredJoinToken};
use crate::clock;
use crate::driver::{CallError, Handle};
use crate::files;
use crate::protection::Protection;
use crate::view::View;

/// How long one of these tokens lasts; half of it is the shortest time that an agent has to read it.
const LIFE: Duration = Duration::from_hours(24);

/// Interval between checks of its age, and between attempts to write it.
const PERIOD: Duration = Duration::from_secs(60);

/// For a group that the agents' user belongs to.
const FILE_MODE: u32 = 0o640;

#[derive(Debug, thiserror::Error)]
pub enum LeaveTokenError {
    #[error("write {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("store the join token")]
    Store(#[from] CallError),
}

/// Removes the token that this process may have left when it led: only the leader replaces it.
pub(crate) fn withdraw(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && !path.as_os_str().is_empty()
        && error.kind() != io::ErrorKind::NotFound
    {
        let path = path.display();
        tracing::warn!(%error, "cannot remove the old join token in {path}; remove it");
    }
}

/// Ensures that the file has a usable token.
pub(crate) async fn leave(
    handle: &Handle,
    view: &View,
    protection: &Protection,
    path: &Path,
) -> Result<(), LeaveTokenError> {
    let now = clock::now();
    if is_good(view, protection, path, now) {
        return Ok(());
    }
    let (credential, asked) = (Credential::mint(), CreateNodeToken::default());
    let token = StoredJoinToken {
        name: asked.name,
        labels: asked.labels,
        admin_labels: Some(BTreeSet::new()),
        node_id: None,
        max_capacity: None,
        uses_left: asked.uses,
        create_time: now,
        expire_time: now + LIFE,
        hash: credential.hash(),
    };
    // Before the file: no agent reads a token that is not valid yet.
    handle.change_records(vec![token.write(&credential.id, Expected::Nothing)]).await?;
    let text = format!("{}\n", join_token::text(&credential, protection.ca()));
    files::write(path, text.as_bytes(), FILE_MODE)
        .map_err(|source| LeaveTokenError::File { path: path.to_owned(), source })
}

/// Replaces the token whenever it is used or old, until the service stops.
pub(crate) async fn keep(
    handle: Handle,
    view: Arc<View>,
    protection: Arc<Protection>,
    path: PathBuf,
    stopping: CancellationToken,
) {
    let mut changes = view.records().changes();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            // The sender lives as long as the view.
            _ = changes.changed() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
        if let Err(error) = leave(&handle, &view, &protection, &path).await {
            let error = anyhow::Error::from(error);
            tracing::warn!(error = format!("{error:#}"), "cannot leave a join token in its file");
            // Every change of a record would otherwise be another attempt.
            if stopping.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_none() {
                return;
            }
        }
    }
}

fn is_good(view: &View, protection: &Protection, path: &Path, now: Timestamp) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let token = text.parse::<JoinToken>().ok().filter(|token| token.ca == protection.ca());
    token.is_some()
        && join_token::verify(view.records(), text.trim(), now)
            .is_ok_and(|(_, token)| token.is_usable(now + LIFE / 2))
}
