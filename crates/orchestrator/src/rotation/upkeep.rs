//! What follows the replacement of a key, and the removal of CAs that nothing needs any more.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Rotation, RotationError};
use crate::access::node::holders;
use crate::clock;
use crate::keys::authorities;

/// Interval between checks. What failed is tried again, and a CA that was replaced is removed.
const PERIOD: Duration = Duration::from_secs(60);

/// The shortest pause between checks, also when something fails again and again.
const SHORTEST: Duration = Duration::from_secs(1);

/// Runs until the service stops.
pub(crate) async fn run(rotation: Rotation, stopping: CancellationToken) {
    loop {
        // Before that, it is unknown which keys there are.
        if rotation.view.records().are_known() {
            match stopping.run_until_cancelled(rotation.finish()).await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    let error = anyhow::Error::from(error);
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "the replacement of a key is not finished; trying again"
                    );
                }
            }
        }
        let pause = rotation.until_removal().map_or(PERIOD, |time| time.clamp(SHORTEST, PERIOD));
        tokio::select! {
            () = stopping.cancelled() => return,
            () = rotation.keys.changed.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

// === impl Rotation ===

impl Rotation {
    /// Does everything that is due.
    pub(super) async fn finish(&self) -> Result<(), RotationError> {
        self.follow_cluster_key().await?;
        self.encrypt_again().await?;
        self.remove_outdated().await?;
        self.follow_authorities().await
    }

    /// Removes CAs whose certificates have all expired.
    async fn remove_outdated(&self) -> Result<(), RotationError> {
        loop {
            let _alone = self.keys.alone().await;
            let records = self.view.records();
            let held = |oldest| holders(records, oldest, true);
            let Some((key, write)) = authorities::removal(records, clock::now(), held)? else {
                return Ok(());
            };
            self.handle.change_records(vec![write]).await?;
            tracing::info!(ca = %key, "a former CA is no longer trusted: all its certificates have expired");
        }
    }

    /// How long it takes until the last certificate of the oldest CA expires.
    fn until_removal(&self) -> Option<Duration> {
        let oldest = authorities::statuses(self.view.records()).ok()?.pop()?;
        let (end, now) = (oldest.last_expiry?, clock::now());
        (end > now).then(|| end.since(now))
    }
}
