//! What an orchestrator opens before it serves anything.

use std::sync::Arc;

use control_plane::records::Record;
use control_plane::store::{Hold, Reads};
use telemetry::traces::Tracer;

use super::error::StartError;
use super::follow::Taken;
use crate::driver::{self, Handle, Vitals, Writer};
use crate::keys::KeyRing;
use crate::metrics::standing::StandingMetrics;
use crate::observer::Observer;
use crate::settings::Settings;
use crate::view::View;

/// The parts that an orchestrator needs before it serves.
pub(super) struct Setup {
    pub(super) keys: Arc<KeyRing>,
    /// As they were stored.
    pub(super) records: Vec<Record>,
    pub(super) reads: Arc<dyn Reads>,
    pub(super) handle: Handle,
    pub(super) observer: Observer,
}

/// Leaves the lead to a process that can open the keys.
fn resign(writer: &mut Writer) {
    if matches!(writer.hold, Hold::Lease(_))
        && let Err(error) = writer.store.resign()
    {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "cannot give the lead up; another orchestrator waits for it");
    }
}

// === impl Setup ===

impl Setup {
    /// Loads the complete live state, which takes seconds when it is large.
    pub(super) fn open(
        settings: &Settings,
        instance: String,
        taken: Taken,
        view: Arc<View>,
        vitals: Vitals,
        counted: Arc<StandingMetrics>,
    ) -> Result<Self, StartError> {
        let Taken { mut writer, reads, .. } = taken;
        let tracer = Tracer::start(&settings.otlp, "orchestrator", instance)?;
        let observer = Observer::new(tracer, counted);
        let records = writer.store.records()?;
        let keys = KeyRing::open(&settings.data_dir, &settings.cluster_key_file, &records)
            .and_then(|keys| keys.open_all(&records).map(|()| keys))
            .inspect_err(|_| resign(&mut writer))?;
        let (scheduler, retention) = (settings.scheduler(), settings.retention());
        let handle = driver::start(writer, view, scheduler, retention, observer.clone(), vitals)?;
        Ok(Self { keys: Arc::new(keys), records, reads, handle, observer })
    }
}
