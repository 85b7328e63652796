//! The service that reads output, and the parts that it needs.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::relay::Relay;
use super::usage::Answers;
use crate::reads::Reader;
use crate::shares::Refusals;
use crate::view::View;

/// Reads the output of executions, wherever it is.
pub(crate) struct LogService {
    pub(super) reader: Reader,
    pub(super) view: Arc<View>,
    pub(crate) relay: Arc<Relay>,
    pub(super) usage: Answers,
    /// Cancelled when the service stops: reading breaks off.
    pub(super) stopping: CancellationToken,
}

// === impl LogService ===

impl LogService {
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
