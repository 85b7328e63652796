//! The engines of this node, and which of them can be used right now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_types::NodeId;
use api_types::engine::EngineType;
use tokio::sync::watch;
use tracing::{info, warn};

use super::Executor;
use super::docker::Docker;
use super::noop::Noop;
use super::wasm::Wasm;
use crate::data_dir;
use crate::settings::Settings;

/// How often the Docker Engine is asked whether it is there.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// So many probes in a row must fail before the node stops offering the engine: one may be lost
/// on a busy machine, and every change costs a new session.
const PROBES_UNTIL_GONE: u32 = 2;

pub(crate) struct Engines {
    docker: Option<Docker>,
    wasm: Option<Wasm>,
    noop: Option<Noop>,
    available: watch::Sender<BTreeSet<EngineType>>,
}

// === impl Engines ===

impl Engines {
    /// The engines that the settings name; of them `wasm` where this machine can have it.
    pub(crate) fn new(settings: &Settings, node_id: NodeId, wasm: Option<Wasm>) -> Arc<Self> {
        let named = |engine| settings.engines.contains(&engine);
        let noop = named(EngineType::Noop).then(Noop::default);
        let always = noop.iter().map(|_| EngineType::Noop);
        let always = always.chain(wasm.iter().map(|_| EngineType::Wasm)).collect();
        Arc::new(Self {
            docker: named(EngineType::Docker).then(|| {
                let images = data_dir::images_of(&settings.data_dir);
                Docker::new(&settings.docker, node_id, &images)
            }),
            wasm,
            noop,
            available: watch::Sender::new(always),
        })
    }

    /// The engines that the settings name, whether they answer or not.
    pub(crate) fn named(&self) -> impl Iterator<Item = EngineType> {
        self.all().map(|(engine, _)| engine)
    }

    /// The engines that answer; the receiver sees every change.
    pub(crate) fn available(&self) -> watch::Receiver<BTreeSet<EngineType>> {
        self.available.subscribe()
    }

    /// The engine, whether it answers or not: what runs under it waits for it to come back.
    pub(crate) fn get(&self, engine: EngineType) -> Option<&dyn Executor> {
        match engine {
            EngineType::Docker => self.docker.as_ref().map(|docker| docker as &dyn Executor),
            EngineType::Noop => self.noop.as_ref().map(|noop| noop as &dyn Executor),
            EngineType::Wasm => self.wasm.as_ref().map(|wasm| wasm as &dyn Executor),
        }
    }

    /// Every engine that may hold something of an execution.
    pub(crate) fn all(&self) -> impl Iterator<Item = (EngineType, &dyn Executor)> {
        [EngineType::Docker, EngineType::Wasm, EngineType::Noop]
            .into_iter()
            .filter_map(|engine| self.get(engine).map(|executor| (engine, executor)))
    }

    /// Looks once whether the Docker Engine answers, so that the first node record is right.
    pub(crate) async fn probe(&self) -> bool {
        let Some(docker) = &self.docker else { return true };
        match docker.probe().await {
            Ok(version) => {
                if self.set_docker(true) {
                    info!(version, host = docker.host(), "docker answers");
                }
                true
            }
            Err(error) => {
                docker.doubt_sandboxes();
                if self.available.borrow().contains(&EngineType::Docker) {
                    info!(%error, "docker missed a probe");
                }
                false
            }
        }
    }

    /// Keeps looking, and what is kept ready at the Engine, for ever.
    pub(crate) async fn watch(&self) {
        let Some(docker) = &self.docker else { return std::future::pending().await };
        tokio::join!(docker.keep_sandboxes(), self.watch_docker(docker));
    }

    async fn watch_docker(&self, docker: &Docker) {
        if !self.available.borrow().contains(&EngineType::Docker) {
            warn!(host = docker.host(), "docker does not answer; the node offers it when it does");
        }
        let mut missed = 0;
        loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            missed = if self.probe().await { 0 } else { missed + 1 };
            if missed == PROBES_UNTIL_GONE && self.set_docker(false) {
                warn!(
                    host = docker.host(),
                    "docker does not answer any more; the node stops offering it, and waits for \
                     what runs under it"
                );
            }
        }
    }

    /// Removes what the engines keep for later and is too much, for ever.
    pub(crate) async fn collect(&self) {
        match &self.docker {
            Some(docker) => docker.collect_images().await,
            None => std::future::pending().await,
        }
    }

    /// Whether that was a change.
    fn set_docker(&self, is_there: bool) -> bool {
        self.available.send_if_modified(|engines| match is_there {
            true => engines.insert(EngineType::Docker),
            false => engines.remove(&EngineType::Docker),
        })
    }
}
