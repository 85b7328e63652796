//! A complete service whose commits can be blocked and whose permits can be counted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use api_types::dependency::Indexes;
use api_types::{JobId, NodeId};
use control_plane::audit::Chains;
use control_plane::records::Record;
use control_plane::store::{
    Commit, LookupResults, Outcome, Progress, RequestKey, Store, StoreError, sqlite,
};
use reqwest::Method;
use scheduler::change::{Live, LiveJobRow, NamedJob};
use scheduler::time::Moment;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::cluster::Watched;
use crate::driver::{self, Writer};
use crate::http::api::{Api, Own};
use crate::http::{Connections, Guard, Pools, serve};
use crate::keys::KeyRing;
use crate::logs::LogService;
use crate::members::Members;
use crate::observer::Observer;
use crate::reads::Reader;
use crate::settings::Settings;
use crate::shares::Refusals;
use crate::submission::Requester;
use crate::view::View;

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks commits.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    closed: bool,
    /// Blocked commits, 0 or 1.
    held: u32,
}

/// A store whose commits wait at the gate.
struct Gated {
    store: sqlite::SqliteStore,
    gate: Arc<Gate>,
}

pub(super) struct Service {
    url: String,
    client: reqwest::Client,
    pub(super) api: Arc<Api>,
    pub(super) gate: Arc<Gate>,
    _directory: TempDir,
}

// === impl Gate ===

impl Gate {
    pub(super) fn set(&self, closed: bool) {
        self.state.lock().unwrap().closed = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        while state.closed {
            state.held = 1;
            state = self.changed.wait(state).unwrap();
        }
        state.held = 0;
    }

    pub(super) async fn holds_a_commit(&self) {
        let looking = async {
            while self.state.lock().unwrap().held == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("a commit comes");
    }
}

// === impl Gated ===

impl Store for Gated {
    fn take(&mut self) -> Result<Progress, StoreError> {
        self.store.take()
    }

    fn progress(&mut self) -> Result<Progress, StoreError> {
        self.store.progress()
    }

    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        self.store.load(job)
    }

    fn audit_chains(&mut self) -> Result<Chains, StoreError> {
        self.store.audit_chains()
    }

    fn records(&mut self) -> Result<Vec<Record>, StoreError> {
        self.store.records()
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome, StoreError> {
        self.gate.pass();
        self.store.commit(commit)
    }

    fn named(&mut self, jobs: &BTreeMap<JobId, Indexes>) -> Result<Vec<NamedJob>, StoreError> {
        self.store.named(jobs)
    }

    fn resign(&mut self) -> Result<(), StoreError> {
        self.store.resign()
    }

    fn lookup(
        &mut self,
        keys: &[RequestKey],
        oldest: Moment,
        jobs: &[JobId],
    ) -> Result<LookupResults, StoreError> {
        self.store.lookup(keys, oldest, jobs)
    }
}

// === impl Service ===

impl Service {
    pub(super) async fn start() -> Self {
        // Fails harmlessly if another test of this process has installed it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let directory = tempfile::tempdir().unwrap();
        let (store, reads) = sqlite::open(directory.path()).unwrap();
        let keys = KeyRing::open(directory.path(), Path::new(""), &[]).unwrap();
        let gate = Arc::new(Gate::default());
        let store = Gated { store, gate: Arc::clone(&gate) };
        let view = Arc::new(View::default());
        let settings = Settings::default();
        let (_, vitals) = driver::Driver::new();
        let handle = driver::start(
            Writer::alone(Box::new(store)),
            Arc::clone(&view),
            settings.scheduler(),
            settings.retention(),
            Observer::default(),
            vitals,
        )
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let id = NodeId::from_uuid(Uuid::from_u128(1));
        let requester = Requester { id: id.to_string(), public_key: String::new() };
        let stopping = CancellationToken::new();
        let reader = Reader::new(reads, &Refusals::default());
        let metrics = Arc::clone(&Observer::default().metrics);
        let cluster = Watched::new(Arc::clone(&view), metrics, reader.clone());
        let refusals = Refusals::default();
        let logs = LogService::new(reader.clone(), Arc::clone(&view), &refusals, stopping.clone());
        let api = Arc::new(Api {
            handle,
            reader,
            view,
            own: Own { id, address, labels: BTreeMap::new(), requester },
            logs: Arc::new(logs),
            pools: Pools::new(false, &Refusals::default()),
            observer: Observer::default(),
            cluster,
            process: "test".to_owned(),
            guard: Arc::new(Guard::new(true, "", &[])),
            members: Arc::new(Members::of_test()),
            asks_for_credentials: false,
            protection: None,
            keys: Arc::new(keys),
            last_uses: Arc::default(),
            issuer: None,
            pages: None,
            stopping: stopping.clone(),
        });
        let connections = Connections { listener, held: Vec::new(), prefaces: None };
        tokio::spawn(serve(connections, None, Arc::clone(&api), stopping));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{address}/api/v1/orchestrator");
        Self { url, client, api, gate, _directory: directory }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).timeout(PATIENCE)
    }

    pub(super) fn submit(&self) -> reqwest::RequestBuilder {
        let engine = json!({ "Type": "docker", "Params": { "Image": "image:1" } });
        let task = json!({ "Name": "main", "Engine": engine });
        self.request(Method::PUT, "/jobs")
            .json(&json!({ "Job": { "Type": "batch", "Tasks": [task] } }))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.gate.set(false);
        self.api.stopping.cancel();
    }
}
