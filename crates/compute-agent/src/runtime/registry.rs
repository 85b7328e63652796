//! The engines of this node, and which of them are available.
//!
//! To add a runtime: implement [`Executor`] in a module next to this one, and enter it in
//! [`KINDS`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api_types::NodeId;
use api_types::engine::EngineType;
use futures_util::future::join_all;
use tokio::sync::watch;
use tracing::{info, warn};

use super::docker::Docker;
use super::noop::Noop;
use super::wasm::Wasm;
use super::{Availability, Executor, ExecutorError};
use crate::host::data_dir::DataDir;
use crate::host::settings::Settings;
use crate::node::tasks::Tasks;

/// Interval between two probes of an engine that may go away.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// Consecutive failed probes before the node stops offering the engine: a busy machine may miss
/// one, and every change costs a new session.
const PROBES_UNTIL_GONE: u32 = 2;

/// How long a clean stop waits for the engines to remove idle resources; the rest expires by
/// itself.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates an engine, also where this machine cannot run anything with it now: tasks of an earlier
/// agent may still run under it.
type Make = fn(&Settings, &Surroundings<'_>) -> Box<dyn Executor>;

/// Every engine that a node may have.
const KINDS: [(EngineType, Make); 3] = [
    (EngineType::Docker, docker),
    (EngineType::Wasm, wasm),
    (EngineType::Noop, |_, _| Box::new(Noop::default())),
];

/// What an engine may be created from, apart from the settings.
pub(crate) struct Surroundings<'a> {
    pub(crate) node_id: NodeId,
    pub(crate) data_dir: &'a DataDir,
    pub(crate) tasks: &'a Tasks,
    /// The engines of executions that are not done.
    pub(crate) held: BTreeSet<EngineType>,
}

pub(crate) struct Engines {
    entries: BTreeMap<EngineType, Box<dyn Executor>>,
    /// Those that the settings do not name: they end what runs under them, and are offered nothing.
    retired: BTreeSet<EngineType>,
    available: watch::Sender<BTreeSet<EngineType>>,
}

fn docker(settings: &Settings, around: &Surroundings<'_>) -> Box<dyn Executor> {
    let record = around.data_dir.images();
    Box::new(Docker::new(settings, around.node_id, &record, around.tasks.clone()))
}

fn wasm(settings: &Settings, around: &Surroundings<'_>) -> Box<dyn Executor> {
    Box::new(Wasm::new(around.data_dir, settings, around.tasks.clone()))
}

// === impl Engines ===

impl Engines {
    /// The engines that the settings name, and those under which something still runs.
    pub(crate) fn of_settings(settings: &Settings, around: &Surroundings<'_>) -> Arc<Self> {
        let is_named = |engine: &EngineType| settings.engines.contains(engine);
        let retired: BTreeSet<_> =
            around.held.iter().copied().filter(|engine| !is_named(engine)).collect();
        for engine in &retired {
            warn!(
                %engine,
                "the settings do not name this engine; it ends what runs under it, and is offered \
                 nothing"
            );
        }
        let kinds = KINDS.iter().filter(|(engine, _)| is_named(engine) || retired.contains(engine));
        Self::with_retired(
            kinds.map(|(engine, make)| (*engine, make(settings, around))),
            retired.clone(),
        )
    }

    #[cfg(test)]
    pub(crate) fn new(
        entries: impl IntoIterator<Item = (EngineType, Box<dyn Executor>)>,
    ) -> Arc<Self> {
        Self::with_retired(entries, BTreeSet::new())
    }

    fn with_retired(
        entries: impl IntoIterator<Item = (EngineType, Box<dyn Executor>)>,
        retired: BTreeSet<EngineType>,
    ) -> Arc<Self> {
        let entries: BTreeMap<_, _> = entries.into_iter().collect();
        let always = entries.iter().filter(|(_, it)| it.availability() == Availability::Always);
        let always = always.map(|(engine, _)| *engine).filter(|engine| !retired.contains(engine));
        let available = watch::Sender::new(always.collect());
        Arc::new(Self { entries, retired, available })
    }

    /// The engines that this node offers, whether they are reachable or not.
    pub(crate) fn named(&self) -> impl Iterator<Item = EngineType> {
        self.entries.keys().copied().filter(|engine| !self.retired.contains(engine))
    }

    /// The reachable engines; the receiver sees every change.
    pub(crate) fn available(&self) -> watch::Receiver<BTreeSet<EngineType>> {
        self.available.subscribe()
    }

    /// The engine, whether or not it is reachable: its tasks wait until it is reachable again.
    pub(crate) fn get(&self, engine: EngineType) -> Option<&dyn Executor> {
        self.entries.get(&engine).map(AsRef::as_ref)
    }

    /// Every engine that may hold something of an execution.
    pub(crate) fn all(&self) -> impl Iterator<Item = (EngineType, &dyn Executor)> {
        self.entries.iter().map(|(engine, executor)| (*engine, executor.as_ref()))
    }

    /// Probes every engine once, so that the first node record is complete.
    pub(crate) async fn probe(&self) {
        let probes = self.probed().map(async |(engine, executor)| {
            if let Err(error) = self.probe_one(engine, executor).await {
                warn!(%engine, %error, "the engine does not answer; the node offers it when it does");
            }
        });
        join_all(probes).await;
    }

    /// Probes the engines and runs their background work, until the agent stops.
    pub(crate) async fn keep(&self) {
        let watching =
            join_all(self.probed().map(|(engine, executor)| self.watch(engine, executor)));
        let working = join_all(self.all().map(|(_, executor)| executor.run_in_background()));
        tokio::join!(watching, working);
    }

    /// Lets the engines remove idle resources when the agent stops; nothing else is running by
    /// then.
    pub(crate) async fn shutdown(&self) {
        let available = self.available.borrow().clone();
        let is_there =
            |engine: &EngineType| available.contains(engine) || self.retired.contains(engine);
        let there = self.all().filter(|(engine, _)| is_there(engine));
        let closing = join_all(there.map(|(_, executor)| executor.shutdown()));
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, closing).await.is_err() {
            warn!("an engine is slow to remove its idle resources; the rest expires by itself");
        }
    }

    fn probed(&self) -> impl Iterator<Item = (EngineType, &dyn Executor)> {
        self.all().filter(|(_, executor)| executor.availability() == Availability::Probed)
    }

    /// Whether the engine responds.
    async fn probe_one(
        &self,
        engine: EngineType,
        executor: &dyn Executor,
    ) -> Result<(), ExecutorError> {
        let who = executor.probe().await.inspect_err(|error| {
            if self.available.borrow().contains(&engine) {
                info!(%engine, %error, "the engine missed a probe");
            }
        })?;
        if self.set(engine, true) {
            info!(%engine, who, "the engine answers");
        }
        Ok(())
    }

    async fn watch(&self, engine: EngineType, executor: &dyn Executor) {
        let mut missed = 0;
        loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            let answers = self.probe_one(engine, executor).await.is_ok();
            missed = if answers { 0 } else { missed + 1 };
            if missed == PROBES_UNTIL_GONE && self.set(engine, false) {
                warn!(
                    %engine,
                    "the engine does not answer any more; the node stops offering it, and waits \
                     for what runs under it"
                );
            }
        }
    }

    /// Whether the state changed.
    fn set(&self, engine: EngineType, is_there: bool) -> bool {
        let is_there = is_there && !self.retired.contains(&engine);
        self.available.send_if_modified(|engines| match is_there {
            true => engines.insert(engine),
            false => engines.remove(&engine),
        })
    }
}

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}
