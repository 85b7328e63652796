//! What an orchestrator opens before it serves anything.

use std::sync::Arc;

use control_plane::records::Record;
use control_plane::store::{Reads, Store, sqlite};
use telemetry::traces::Tracer;

use super::StartError;
use crate::driver::{self, Driver, Handle};
use crate::identity::Identity;
use crate::issuer::Issuer;
use crate::keys::KeyRing;
use crate::observer::Observer;
use crate::settings::Settings;
use crate::view::View;

/// The parts that an orchestrator needs before it serves.
pub(super) struct Setup {
    pub(super) identity: Identity,
    pub(super) keys: Arc<KeyRing>,
    /// As they were stored.
    pub(super) records: Vec<Record>,
    pub(super) reads: Arc<dyn Reads>,
    pub(super) handle: Handle,
    pub(super) driver: Driver,
    pub(super) observer: Observer,
    pub(super) issuer: Option<Arc<Issuer>>,
}

// === impl Setup ===

impl Setup {
    /// Loads the complete live state, which takes seconds when it is large.
    pub(super) fn open(settings: &Settings, view: Arc<View>) -> Result<Self, StartError> {
        let issuer = Issuer::open(&settings.oidc)?.map(Arc::new);
        let identity = Identity::load_or_make(&settings.data_dir)?;
        let instance = identity.node_id.to_string();
        let observer = Observer::new(Tracer::start(&settings.otlp, "orchestrator", instance)?);
        let (mut store, reads) = sqlite::open(&settings.data_dir)?;
        let records = store.records()?;
        let keys = KeyRing::open(&settings.data_dir, &settings.cluster_key_file, &records)?;
        let (scheduler, retention) = (settings.scheduler(), settings.retention());
        let (handle, driver) =
            driver::start(Box::new(store), view, scheduler, retention, observer.clone())?;
        Ok(Self {
            identity,
            keys: Arc::new(keys),
            records,
            reads,
            handle,
            driver,
            observer,
            issuer,
        })
    }
}
