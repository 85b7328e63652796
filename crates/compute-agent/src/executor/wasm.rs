//! Tasks as WebAssembly programs with WASI preview 1, in the agent's own process.
//!
//! A program sees its arguments, its environment, clocks, randomness, and the directories of its
//! inputs and result paths; no network and no other file. Each runs on a thread of its own, which
//! the epoch of [`runtime`] keeps in reach: stopping is immediate, since there are no signals to
//! ask a program with, and the share of the processor is held by letting it wait.
//!
//! A run lives and dies with the agent. What it printed and wrote, and how it ended, is on disk
//! below the execution's directory, so that a run that has ended is collected by whatever agent
//! comes next; one that had not is a failure of the node, and another execution takes its place.
//!
//! ```text
//! wasm/output      what it printed (see `output`)
//! wasm/inputs/     inputs that are files, as the program sees them
//! wasm/results/    what it wrote, as it saw it
//! wasm/exit.json   how it ended
//! ```
//!
//! Rejected: a process per program, which would survive the agent, because what isolates programs
//! here is the engine, and a child would have to be found again, limited and killed like a
//! container.

mod files;
mod limits;
mod module;
mod output;
mod program;
mod run;
mod runtime;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::engine::NetworkType;
use api_types::protocol::Work;
use api_types::source::InputSource;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::BoxStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Executor, ExecutorError, OutputChunk, Run};
use crate::clock;
use crate::data_dir::{DataDir, ExecutionDirs, remove_all};
use crate::execution::{Exit, Failure};
use crate::steps::Tasks;
use output::Output;
use program::params;
use run::Program;
use runtime::Runtime;

/// Programs that run at once, each on a thread; the next waits, being prepared. A node whose
/// tasks ask for next to nothing of its processor could otherwise be told to run thousands.
const MAX_RUNS: usize = 256;

/// What a shell says of a process that SIGTERM ended. A program of this engine has no signals, and
/// so no grace.
const EXIT_STOPPED: i32 = 143;

/// Modules compiled at once: each takes all the processor it gets.
const MAX_COMPILATIONS: usize = 1;

/// The name under which programs import what this engine gives them.
const WASI: &str = "wasi_snapshot_preview1";

pub(crate) struct Wasm {
    runtime: Arc<Runtime>,
    dirs: ExecutionDirs,
    tasks: Tasks,
    places: Arc<Semaphore>,
    compilations: Semaphore,
    slots: Mutex<HashMap<ExecutionId, Slot>>,
}

/// One execution, as this process knows it.
enum Slot {
    Ready(Box<Ready>),
    Running(Running),
}

/// Holds its place among the runs already.
struct Ready {
    program: Program,
    place: OwnedSemaphorePermit,
}

#[derive(Clone)]
struct Running {
    started_at: Timestamp,
    stop: CancellationToken,
    /// None until it has ended.
    exit: watch::Receiver<Option<Exit>>,
}

// === impl Wasm ===

impl Wasm {
    /// Or why this machine cannot have it.
    pub(crate) fn new(data_dir: &DataDir, tasks: Tasks) -> Result<Self, String> {
        let runtime = Runtime::new(&data_dir.wasm_cache()).map_err(|error| format!("{error:#}"))?;
        Ok(Self {
            runtime: Arc::new(runtime),
            dirs: data_dir.executions(),
            tasks,
            places: Arc::new(Semaphore::new(MAX_RUNS)),
            compilations: Semaphore::new(MAX_COMPILATIONS),
            slots: Mutex::default(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<ExecutionId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn make(&self, run: &Run, cancel: &CancellationToken) -> Result<(), ExecutorError> {
        if self.slots().contains_key(&run.id) {
            return Ok(());
        }
        let making = async {
            let closed = |_| ExecutorError::Cancelled;
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
            let _compiling = self.compilations.acquire().await.map_err(closed)?;
            let (runtime, dir, run) =
                (Arc::clone(&self.runtime), self.dirs.of(run.id), run.clone());
            let program = tokio::task::spawn_blocking(move || program::make(&runtime, &dir, &run))
                .await
                .unwrap_or_else(|error| Err(Failure::node(format!("compiling broke off: {error}"))))
                .map_err(ExecutorError::Failed)?;
            Ok(Box::new(Ready { program, place }))
        };
        // Compiling cannot be broken off; what comes of it is let go.
        let made = cancel.run_until_cancelled(making).await.ok_or(ExecutorError::Cancelled)?;
        self.slots().insert(run.id, Slot::Ready(made?));
        Ok(())
    }

    fn start_once(&self, id: ExecutionId) -> Result<Timestamp, ExecutorError> {
        let mut slots = self.slots();
        let ready = match slots.remove(&id) {
            Some(Slot::Ready(ready)) => ready,
            Some(Slot::Running(running)) => {
                let started_at = running.started_at;
                slots.insert(id, Slot::Running(running));
                return Ok(started_at);
            }
            None => return Err(lost()),
        };
        let dir = self.dirs.of(id).wasm();
        let output = Output::create(&dir.join("output")).map_err(|error| {
            failed(format!("the program's output cannot be kept on the node: {error}"))
        })?;
        let (ended, exit) = watch::channel(None);
        let agent_stops = self.tasks.stopping().clone();
        let stop = agent_stops.child_token();
        let running = Running { started_at: clock::now(), stop: stop.clone(), exit };
        let shared = Arc::clone(&self.runtime);
        let body = move |runtime: &tokio::runtime::Handle| {
            let _ticking = shared.ticking();
            let Ready { program, place } = *ready;
            let exit = match run::run(&shared.engine, &program, &output, &stop, runtime) {
                Some(exit) => exit,
                // The agent took it down; nobody can say how it would have ended.
                None if agent_stops.is_cancelled() => return,
                None => Exit { code: EXIT_STOPPED, ..Exit::default() },
            };
            if let Err(error) = write_exit(&dir, &exit) {
                warn!(execution = %id, %error, "the end of a run cannot be written down");
            }
            ended.send_replace(Some(exit));
            drop(place);
        };
        self.tasks
            .spawn_thread(format!("wasm-{id}"), body)
            .map_err(|error| failed(format!("no thread can be started for it: {error}")))?;
        let started_at = running.started_at;
        slots.insert(id, Slot::Running(running));
        Ok(started_at)
    }

    fn running(&self, id: ExecutionId) -> Option<Running> {
        match self.slots().get(&id) {
            Some(Slot::Running(running)) => Some(running.clone()),
            Some(Slot::Ready(_)) | None => None,
        }
    }

    async fn wait_for_end(&self, id: ExecutionId) -> Result<Exit, ExecutorError> {
        let Some(mut running) = self.running(id) else {
            return read_exit(&self.dirs.of(id).wasm());
        };
        match running.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().ok_or_else(lost),
            Err(_) => Err(failed("the engine broke off while it ran".to_owned())),
        }
    }

    async fn remove_whole(&self, id: ExecutionId) -> Result<(), ExecutorError> {
        if let Some(mut running) = self.running(id) {
            running.stop.cancel();
            // An error says that its thread is gone, too.
            drop(running.exit.wait_for(Option::is_some).await);
        }
        self.slots().remove(&id);
        let dir = self.dirs.of(id).wasm();
        in_background(move || remove_all(&dir)).await
    }

    async fn list_own(&self) -> Result<Vec<ExecutionId>, ExecutorError> {
        let mut ids: BTreeSet<_> = self.slots().keys().copied().collect();
        let dirs = self.dirs.clone();
        ids.extend(
            in_background(move || {
                let mut held = dirs.list()?;
                held.retain(|id| dirs.of(*id).wasm().exists());
                Ok(held)
            })
            .await?,
        );
        Ok(ids.into_iter().collect())
    }
}

impl Executor for Wasm {
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
        // What cannot be read was declined at the offer.
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
        ready(self.start_once(id)).boxed()
    }

    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        self.wait_for_end(id).boxed()
    }

    fn stop(&self, id: ExecutionId, _: Duration) -> BoxFuture<'_, Result<(), ExecutorError>> {
        if let Some(running) = self.running(id) {
            running.stop.cancel();
        }
        ready(Ok(())).boxed()
    }

    fn logs(
        &self,
        id: ExecutionId,
        follow: bool,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>> {
        let followed = self.running(id).filter(|_| follow).map(|running| running.exit);
        output::read(&self.dirs.of(id).wasm().join("output"), followed)
    }

    fn copy_out<'a>(
        &'a self,
        id: ExecutionId,
        path: &'a str,
    ) -> BoxStream<'a, Result<Bytes, ExecutorError>> {
        files::copy_out(&self.dirs.of(id).wasm(), path)
    }

    fn written_bytes(&self, id: ExecutionId) -> BoxFuture<'_, Result<Option<u64>, ExecutorError>> {
        let dir = self.dirs.of(id).wasm();
        in_background(move || files::written_bytes(&dir).map(Some)).boxed()
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

/// Beside first, then into place: what has the name is whole.
fn write_exit(dir: &Path, exit: &Exit) -> io::Result<()> {
    let beside = dir.join("exit.json.new");
    fs::write(&beside, serde_json::to_vec(exit)?)?;
    fs::rename(beside, dir.join("exit.json"))
}

fn read_exit(dir: &Path) -> Result<Exit, ExecutorError> {
    let bytes = match fs::read(dir.join("exit.json")) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(lost()),
        Err(error) => return Err(failed(format!("how it ended cannot be read: {error}"))),
    };
    serde_json::from_slice(&bytes).map_err(|error| failed(format!("how it ended is lost: {error}")))
}

/// Work for the disk, off the loop.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ExecutorError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| failed(format!("the node's disk: {error}")))
}

fn failed(reason: String) -> ExecutorError {
    ExecutorError::Failed(Failure::node(reason))
}

/// It may have run, in part or whole, under an agent that is gone.
fn lost() -> ExecutorError {
    failed(
        "the agent restarted while it ran, and a wasm program ends with its agent; another \
         execution takes its place"
            .to_owned(),
    )
}
