//! Tasks as WebAssembly programs with WASI preview 1, each in a separate process.
//!
//! A program sees its arguments, its environment, clocks, randomness, and the directories of its
//! inputs and result paths; no network and no other file. The agent starts one `wasm-runner` for
//! each execution and shares a directory with it, `executions/<id>/wasm/`, whose content
//! `wasm_run` describes. Nothing else connects the two: a runner outlives its agent, and the next
//! agent finds it by its claim (pid, start time and boot), observes its end through a pidfd, and
//! reads the outcome from the file that the runner has synced. A run whose process is gone without
//! that file is a failure of the node.
//!
//! Stopping is immediate, since WASI has no signals: the agent kills the runner. The runner
//! enforces its own limits (see `wasm_runner::run`), except for disk use and run time, which the
//! agent watches as it does for every engine.
//!
//! The same program compiles modules in another process, once for each digest ([`store`]). An agent
//! that does not find the program ([`tools`]) offers no wasm until it does, and still watches, stops
//! and collects what runs.
//!
//! Rejected: idle runners that wait for a plan, and a zygote that forks them. Starting a runner
//! costs less than a millisecond of CPU time ([ADR]); both would shorten a single start and leave
//! the rate as it is, for a process that holds the memory and the descriptors of its parent.
//!
//! [ADR]: ../../../../docs/adr/2026-11-22-wasm-in-a-process-of-its-own.md

mod background;
mod compiler;
mod files;
mod module;
mod output;
mod process;
mod program;
mod runner;
mod running;
mod store;
mod tools;
mod twin;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent_core::execution::Exit;
use api_types::engine::NetworkType;
use api_types::protocol::Work;
use api_types::source::InputSource;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::BoxStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::turns::{Turn, Turns};
use super::twin::Twin;
use super::{Availability, Executor, ExecutorError, Hidden, OutputChunk, OutputRange, Run};
use crate::host::cgroup::Reading;
use crate::host::clock;
use crate::host::data_dir::{DataDir, ExecutionDirs};
use crate::host::device::Device;
use crate::host::settings::Settings;
use crate::host::tree::remove_all;
use crate::node::tasks::Tasks;
use background::{in_background, unavailable};
use process::Process;
use program::params;
use running::Running;
use tools::{Location, Tools};

/// Programs that run at the same time; a namespace has at most half of them, and its next program
/// waits in its preparation. Otherwise a node whose tasks request almost no CPU could be assigned
/// thousands.
const MAX_RUNS: usize = 512;

/// The name under which programs import WASI.
const WASI: &str = "wasi_snapshot_preview1";

pub(crate) struct Wasm {
    location: Location,
    /// Set by the first probe that finds the runner.
    tools: OnceLock<Tools>,
    boot_id: Arc<str>,
    dirs: ExecutionDirs,
    twin: twin::Directory,
    tasks: Tasks,
    permits: Turns,
    slots: Mutex<HashMap<ExecutionId, Slot>>,
}

/// One execution, as this process knows it.
enum Slot {
    /// Whether it holds a run permit.
    Ready(Turn),
    Running(Running),
}

// === impl Wasm ===

impl Wasm {
    pub(crate) fn new(data_dir: &DataDir, settings: &Settings, tasks: Tasks) -> Self {
        // Where it cannot be read, pid and start time have to tell processes apart.
        let boot_id = wasm_run::process::boot_id().unwrap_or_default();
        Self {
            location: Location::new(settings, data_dir),
            tools: OnceLock::new(),
            boot_id: boot_id.into(),
            dirs: data_dir.executions(),
            twin: twin::Directory::new(data_dir.wasm_twin()),
            tasks,
            permits: Turns::long(MAX_RUNS),
            slots: Mutex::default(),
        }
    }

    /// Finds the runner, or checks that it is still there; returns its path.
    async fn probe_tools(&self) -> Result<String, ExecutorError> {
        if self.tools.get().is_none() {
            let location = self.location.clone();
            let opened = in_background(move || Ok(Tools::open(&location))).await?;
            let tools = opened.map_err(unavailable)?;
            self.tools.get_or_init(|| tools);
        }
        self.tools()?.check().map_err(unavailable)
    }

    fn tools(&self) -> Result<&Tools, ExecutorError> {
        self.tools.get().ok_or_else(|| unavailable("no wasm-runner was found so far".to_owned()))
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<ExecutionId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn make(&self, run: &Run, cancel: &CancellationToken) -> Result<(), ExecutorError> {
        if self.slots().contains_key(&run.id) {
            return Ok(());
        }
        let making = async {
            let waiting = || {
                format!("waits for its namespace's share of the node's {MAX_RUNS} wasm programs")
            };
            let permit = self.permits.take(&run.work.namespace);
            let permit = run.progress.during(permit, waiting).await;
            program::make(&self.tools()?.store, self.dirs.for_execution(run.id).wasm(), run)
                .await?;
            Ok::<_, ExecutorError>(permit)
        };
        // The last waiter that gives up a compilation ends its process.
        let made = cancel.run_until_cancelled(making).await.ok_or(ExecutorError::Cancelled)?;
        self.slots().insert(run.id, Slot::Ready(made?));
        Ok(())
    }

    /// Starts the runner of an execution, unless it was started before.
    async fn start_once(&self, id: ExecutionId) -> Result<Timestamp, ExecutorError> {
        if let Some(running) = self.running(id) {
            return Ok(running.started_at);
        }
        let directory = self.dirs.for_execution(id).wasm();
        if !self.is_ready(id) {
            // An earlier agent prepared it, and may have started it.
            let directory = directory.clone();
            let claim = in_background(move || wasm_run::Claim::read(&directory)).await?;
            if claim.is_some() {
                return Ok(self.find(id).await?.started_at);
            }
        }
        let mut command = self.tools()?.runner.command();
        command.arg(wasm_run::RUN).arg(&directory).arg(&*self.boot_id);
        let started = in_background(move || {
            command.stderr(File::create(directory.join(wasm_run::LOG))?);
            let started_at = clock::steady();
            Ok((command.spawn()?, started_at))
        });
        let (child, started_at) = started.await?;
        let permit = match self.slots().remove(&id) {
            Some(Slot::Ready(permit)) => Some(permit),
            Some(Slot::Running(_)) | None => None,
        };
        self.watch(id, Process::Child(Box::new(child)), started_at, permit);
        Ok(started_at)
    }

    /// Records the end of a run, for every caller at any time.
    fn watch(
        &self,
        id: ExecutionId,
        process: Process,
        started_at: Timestamp,
        permit: Option<Turn>,
    ) -> Running {
        let (ending, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let was_gone = matches!(process, Process::Gone);
        let running = Running { started_at, was_gone, stop: stop.clone(), ended };
        let (directory, boot_id) = (self.dirs.for_execution(id).wasm(), Arc::clone(&self.boot_id));
        // A run of an earlier agent counts, but need not wait for a permit.
        let permit = permit.or_else(|| self.permits.try_take(""));
        self.slots().insert(id, Slot::Running(running.clone()));
        self.tasks.spawn(async move {
            let end = process.end(directory, &boot_id, &stop).await;
            ending.send_replace(Some(end));
            drop(permit);
        });
        running
    }

    fn running(&self, id: ExecutionId) -> Option<Running> {
        match self.slots().get(&id) {
            Some(Slot::Running(running)) => Some(running.clone()),
            Some(Slot::Ready(_)) | None => None,
        }
    }

    fn is_ready(&self, id: ExecutionId) -> bool {
        matches!(self.slots().get(&id), Some(Slot::Ready(_)))
    }

    /// The run in progress, including one that an earlier agent started. After this call a run
    /// that was not started never will be.
    async fn find(&self, id: ExecutionId) -> Result<Running, ExecutorError> {
        if let Some(running) = self.running(id) {
            return Ok(running);
        }
        let (directory, boot_id) = (self.dirs.for_execution(id).wasm(), Arc::clone(&self.boot_id));
        let (process, claim) = in_background(move || Process::find(&directory, &boot_id)).await?;
        // A concurrent caller may have got this far.
        if let Some(running) = self.running(id) {
            return Ok(running);
        }
        if let (Process::Found(_), Some(claim)) = (&process, &claim) {
            info!(execution = %id, pid = claim.pid, "adopted a running wasm program");
        }
        let started_at =
            claim.map_or_else(clock::steady, |claim| process::started_at(&claim, &self.boot_id));
        Ok(self.watch(id, process, started_at, None))
    }

    async fn wait_for_end(&self, id: ExecutionId) -> Result<Exit, ExecutorError> {
        self.find(id).await?.end().await.map_err(ExecutorError::Failed)
    }

    async fn stop_at_once(&self, id: ExecutionId) -> Result<(), ExecutorError> {
        self.find(id).await?.stop.cancel();
        Ok(())
    }

    async fn remove_whole(&self, id: ExecutionId) -> Result<(), ExecutorError> {
        let directory = self.dirs.for_execution(id).wasm();
        if !self.is_ready(id) && directory.exists() {
            let running = self.find(id).await?;
            running.stop.cancel();
            drop(running.end().await);
        }
        self.slots().remove(&id);
        in_background(move || remove_all(&directory)).await
    }

    async fn list_own(&self) -> Result<Vec<ExecutionId>, ExecutorError> {
        let mut ids: BTreeSet<_> = self.slots().keys().copied().collect();
        let dirs = self.dirs.clone();
        ids.extend(
            in_background(move || {
                let mut held = dirs.list()?;
                held.retain(|id| dirs.for_execution(*id).wasm().exists());
                Ok(held)
            })
            .await?,
        );
        Ok(ids.into_iter().collect())
    }
}

impl Executor for Wasm {
    fn availability(&self) -> Availability {
        Availability::Probed
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ExecutorError>> {
        self.probe_tools().boxed()
    }

    /// One program is like any other.
    fn run_twin<'a>(&'a self, _: &'a Twin) -> BoxFuture<'a, Result<(), ExecutorError>> {
        async { twin::run(&self.tools()?.runner, &self.twin, &self.boot_id).await }.boxed()
    }

    fn admit(&self, work: &Work) -> Result<(), String> {
        let params = params(work)?;
        let mut names = BTreeSet::from([WASI]);
        for (index, module) in params.import_modules.iter().enumerate() {
            let name = module.alias.as_str();
            if name.is_empty() {
                return Err(format!(
                    "ImportModules[{index}] needs an Alias: the name by which it is imported"
                ));
            }
            if !names.insert(name) {
                return Err(format!("ImportModules[{index}]: there is another module '{name}'"));
            }
        }
        let texts = params.parameters.iter().chain(params.environment_variables.values());
        if texts.chain(params.environment_variables.keys()).any(|text| text.contains('\0')) {
            return Err("Parameters and EnvironmentVariables cannot hold a NUL".to_owned());
        }
        if work.resources.gpu > 0 {
            return Err("the wasm engine gives programs no GPU".to_owned());
        }
        match work.task.network.network_type {
            NetworkType::None => Ok(()),
            other @ (NetworkType::Full | NetworkType::Http) => Err(format!(
                "network type '{other}' is not supported by the wasm engine; supported: None"
            )),
        }
    }

    fn modules(&self, work: &Work) -> Vec<InputSource> {
        // Invalid Params were declined at the offer.
        let Ok(params) = params(work) else { return Vec::new() };
        let imports = params.import_modules.into_iter().enumerate().map(|(index, module)| {
            InputSource { target: format!("/ImportModules/{index}"), ..module }
        });
        let entry = InputSource { target: "/EntryModule".to_owned(), ..params.entry_module };
        std::iter::once(entry).chain(imports).collect()
    }

    fn prepare<'a>(
        &'a self,
        run: &'a Run,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        self.make(run, cancel).boxed()
    }

    fn start(&self, id: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>> {
        self.start_once(id).boxed()
    }

    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        self.wait_for_end(id).boxed()
    }

    fn is_running(&self, id: ExecutionId) -> BoxFuture<'_, Result<bool, ExecutorError>> {
        async move { Ok(!self.find(id).await?.has_ended()) }.boxed()
    }

    fn stop(&self, id: ExecutionId, _: Duration) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.stop_at_once(id).boxed()
    }

    fn logs(
        &self,
        id: ExecutionId,
        range: OutputRange,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>> {
        let followed = self.running(id).filter(|_| range.follow).map(|running| running.ended);
        output::read(&self.dirs.for_execution(id).wasm().join(wasm_run::output::FILE), followed)
    }

    fn copy_out<'a>(
        &'a self,
        id: ExecutionId,
        path: &'a str,
    ) -> BoxStream<'a, Result<Bytes, ExecutorError>> {
        files::copy_out(&self.dirs.for_execution(id).wasm(), path)
    }

    fn written_bytes(&self, id: ExecutionId) -> BoxFuture<'_, Result<Option<u64>, ExecutorError>> {
        let (dir, boot_id) = (self.dirs.for_execution(id).wasm(), Arc::clone(&self.boot_id));
        let written = move || files::written_bytes(&dir, process::pid(&dir, &boot_id)).map(Some);
        in_background(written).boxed()
    }

    fn usage(&self, id: ExecutionId) -> BoxFuture<'_, Result<Option<Reading>, ExecutorError>> {
        let (directory, boot_id) = (self.dirs.for_execution(id).wasm(), Arc::clone(&self.boot_id));
        in_background(move || process::usage(&directory, &boot_id)).boxed()
    }

    fn hidden<'a>(&'a self, id: ExecutionId, _: &'a Device) -> BoxFuture<'a, Hidden> {
        files::hidden(self.dirs.for_execution(id).wasm()).boxed()
    }

    fn fills_the_data_directory(&self) -> bool {
        true
    }

    fn remove(&self, id: ExecutionId) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.remove_whole(id).boxed()
    }

    fn list(&self, _: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>> {
        self.list_own().boxed()
    }
}

#[cfg(test)]
mod tests;
