//! A start that takes long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::dependency::Indexes;
use api_types::protocol::Heartbeat;
use api_types::quantity::Capacity;
use api_types::{JobId, NodeId};
use control_plane::audit::Chains;
use control_plane::records::Record;
use control_plane::store::{
    Commit, LookupResults, Outcome, Progress, RequestKey, Retention, Store, StoreError, sqlite,
};
use scheduler::Settings;
use scheduler::change::{Live, LiveJobRow, NamedJob};
use scheduler::input::{Answer, Input};
use scheduler::time::Moment;
use uuid::Uuid;

use super::{Driver, Handle, Writer, start};
use crate::observer::Observer;
use crate::view::View;

const LEASE: Duration = Duration::from_secs(1);

/// A store from which the state is read slowly.
struct Slow(sqlite::SqliteStore);

// === impl Slow ===

impl Store for Slow {
    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        std::thread::sleep(LEASE * 2);
        self.0.load(job)
    }

    fn take(&mut self) -> Result<Progress, StoreError> {
        self.0.take()
    }

    fn progress(&mut self) -> Result<Progress, StoreError> {
        self.0.progress()
    }

    fn audit_chains(&mut self) -> Result<Chains, StoreError> {
        self.0.audit_chains()
    }

    fn records(&mut self) -> Result<Vec<Record>, StoreError> {
        self.0.records()
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome, StoreError> {
        self.0.commit(commit)
    }

    fn named(&mut self, jobs: &BTreeMap<JobId, Indexes>) -> Result<Vec<NamedJob>, StoreError> {
        self.0.named(jobs)
    }

    fn resign(&mut self) -> Result<(), StoreError> {
        self.0.resign()
    }

    fn lookup(
        &mut self,
        keys: &[RequestKey],
        oldest: Moment,
        jobs: &[JobId],
    ) -> Result<LookupResults, StoreError> {
        self.0.lookup(keys, oldest, jobs)
    }
}

async fn beat(handle: &Handle, node: NodeId) -> Answer {
    let heartbeat = Heartbeat {
        session: 1,
        used_capacity: Capacity::default(),
        running_executions: 0,
        enqueued_executions: 0,
        stalled_millis: 0,
        lease_seconds: 0,
        probed: None,
    };
    handle.call(Input::Heartbeat { node, heartbeat }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lease_ends_while_the_state_is_loaded_and_before_the_listener_stands() {
    let directory = tempfile::tempdir().unwrap();
    let begin = || {
        let (store, _) = sqlite::open(directory.path()).unwrap();
        let settings = Settings { lease: LEASE, ..Settings::default() };
        let view = Arc::<View>::default();
        let writer = Writer::alone(Box::new(Slow(store)));
        let (driver, vitals) = Driver::new();
        let (retention, observer) = (Retention::default(), Observer::default());
        (start(writer, view, settings, retention, observer, vitals).unwrap(), driver)
    };
    let node = NodeId::from_uuid(Uuid::from_u128(1));
    let (handle, mut driver) = begin();
    let request = Box::new(crate::http::example_session());
    let joined = handle.call(Input::Join { node, request }).await.unwrap();
    assert!(matches!(joined, Answer::Joined { session: 1, .. }), "{joined:?}");
    drop(handle);
    driver.ended().await.unwrap();

    let (handle, _) = begin();
    // Certificates are made, a port is bound.
    tokio::time::sleep(LEASE * 2).await;
    let answer = beat(&handle, node).await;
    assert!(matches!(answer, Answer::Renewed { .. }), "{answer:?}");
}
