//! What reading output requires.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::relay::Relay;
use super::usage::Answers;
use crate::reads::Reader;
use crate::shares::Refusals;
use crate::view::View;

/// What reading output requires.
pub(crate) struct Access {
    pub(super) reader: Reader,
    pub(super) view: Arc<View>,
    pub(crate) relay: Arc<Relay>,
    pub(super) usage: Answers,
    /// Cancelled when the service stops: reading breaks off.
    pub(super) stopping: CancellationToken,
}

// === impl Access ===

impl Access {
    pub(crate) fn new(
        reader: Reader,
        view: Arc<View>,
        refusals: &Refusals,
        stopping: CancellationToken,
    ) -> Self {
        let (relay, usage) = (Arc::new(Relay::new(refusals)), Answers::default());
        Self { reader, view, relay, usage, stopping }
    }
}
