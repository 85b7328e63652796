//! One agent, from its start to its end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api_client::Client;
use api_types::NodeId;
use api_types::engine::EngineType;
use api_types::quantity::Resources;
use daemon::{Pulse, service_manager};
use telemetry::traces::{OtlpError, Tracer};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::capacity;
use crate::core::{Contents, Limits};
use crate::data_dir::{DataDir, DataDirError};
use crate::drain::Drain;
use crate::executor::Engines;
use crate::executor::wasm::Wasm;
use crate::gpu::Inventory;
use crate::http::{self, Shared};
use crate::ledger::{Ledger, LedgerError};
use crate::node_record::NodeRecord;
use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::output::Outputs;
use crate::publisher::PublishedDir;
use crate::session::{Session, SessionWatch, Streams};
use crate::settings::{InvalidSettings, Settings};
use crate::steps::{Files, Steps, Tasks};
use crate::supervisor::{Mailbox, Message, Parts, Supervisor, sweep};

/// How often the supervisor looks whether finished executions are old enough to forget, and beats
/// its pulse when there is nothing else to do.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the address {address} cannot be listened on: {source}; set another with listen")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("the capacity of this machine cannot be found out: {0}; set it with capacity")]
    Capacity(#[source] io::Error),
    #[error("send traces over OTLP")]
    Otlp(#[from] OtlpError),
}

/// Starts agents.
#[derive(Debug)]
pub struct Agent;

/// An agent at work. Dropped without [`shutdown`](Self::shutdown), it goes on working.
#[derive(Debug)]
pub struct RunningAgent {
    pub node_id: NodeId,
    /// Where its HTTP operations are served.
    pub listen_addr: SocketAddr,
    tasks: Tasks,
    mailbox: Mailbox,
    supervisor: JoinHandle<()>,
    pulse: Pulse,
    session: Arc<SessionWatch>,
    server: JoinHandle<()>,
    stop_serving: CancellationToken,
    drain: Arc<Drain>,
    observer: Arc<Observer>,
}

/// What an agent cannot start without.
struct Opened {
    data_dir: DataDir,
    ledger: Ledger,
    contents: Contents,
    gpus: Inventory,
    capacity: Resources,
    listener: TcpListener,
    listen_addr: SocketAddr,
}

// === impl Opened ===

impl Opened {
    async fn open(settings: &Settings) -> Result<Self, StartError> {
        let data_dir = DataDir::open(&settings.data_dir)?;
        let ledger = Ledger::open(&data_dir.ledger())?;
        let contents = ledger.load(&data_dir.ledger())?;
        let gpus = Inventory::detect(&settings.gpu).await;
        let capacity = capacity::of_this_machine(&settings.capacity, data_dir.root(), gpus.count())
            .map_err(StartError::Capacity)?;
        let listen_error = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen_error)?;
        let listen_addr = listener.local_addr().map_err(listen_error)?;
        Ok(Self { data_dir, ledger, contents, gpus, capacity, listener, listen_addr })
    }
}

// === impl Agent ===

impl Agent {
    /// Opens the data directory, binds the listener, takes up what was under way, and joins the
    /// orchestrator in the background: that it is away is no reason not to start.
    pub async fn start(settings: Settings) -> Result<RunningAgent, StartError> {
        let client = client(&settings)?;
        let Opened { data_dir, ledger, contents, gpus, capacity, listener, listen_addr } =
            Opened::open(&settings).await?;
        let node_id = ledger.node_id();
        info!(%node_id, %listen_addr, %capacity, "the agent starts");

        let tasks = Tasks::new(Handle::current());
        let published =
            PublishedDir::new(data_dir.published(), settings.results.published_max_bytes);
        let steps = steps(&settings, (node_id, listen_addr), &data_dir, gpus, &tasks).await?;
        let (engines, observer) = (Arc::clone(&steps.engines), Arc::clone(&steps.observer));
        let (mailbox, messages) = Mailbox::new();
        let (outbox, note) = (Arc::new(Outbox::default()), data_dir.drain_note());
        let parts = Parts {
            limits: Limits { capacity, retain: settings.retain_finished() },
            outbox: Arc::clone(&outbox),
            steps: Arc::clone(&steps),
            mailbox: mailbox.clone(),
        };
        let (pulse, supervisor) = spawn_supervisor(ledger, contents, parts, messages, data_dir);
        let record =
            Arc::new(NodeRecord::new(&settings, listen_addr, capacity, Arc::clone(&steps)));
        let watch = SessionWatch::new();
        let outputs = Outputs::new(&engines, &mailbox, &steps.files.dirs);
        let streams = Streams::new(client.clone(), node_id, Arc::clone(&outputs), tasks.clone());
        let session = Arc::new(Session {
            client,
            node_id,
            record: Arc::clone(&record),
            engines: Arc::clone(&engines),
            mailbox: mailbox.clone(),
            outbox: Arc::clone(&outbox),
            observer: Arc::clone(&observer),
            watch: Arc::clone(&watch),
            streams,
        });
        let stop_serving = CancellationToken::new();
        let shared = Shared {
            record,
            engines,
            session: Arc::clone(&watch),
            mailbox: mailbox.clone(),
            outputs,
            published: published.clone(),
            stopping: stop_serving.clone(),
            outbox,
            observer: Arc::clone(&observer),
        };
        let server =
            tokio::spawn(http::serve(listener, http::router(shared), stop_serving.clone()));
        tasks.spawn(sweep::published(published, settings.results.retain()));
        let drain = Arc::new(Drain::new(&settings, Arc::clone(&session), note));
        spawn_background(&tasks, steps, session, Arc::clone(&drain));
        Ok(RunningAgent {
            node_id,
            listen_addr,
            tasks,
            mailbox,
            supervisor,
            pulse,
            session: watch,
            server,
            stop_serving,
            drain,
            observer,
        })
    }
}

async fn steps(
    settings: &Settings,
    (node_id, listen_addr): (NodeId, SocketAddr),
    data_dir: &DataDir,
    gpus: Inventory,
    tasks: &Tasks,
) -> Result<Arc<Steps>, OtlpError> {
    let tracer = Tracer::start(&settings.otlp, "compute-agent", node_id.to_string())?;
    Ok(Arc::new(Steps {
        node_id,
        engines: engines(settings, node_id, data_dir, tasks).await,
        gpus,
        observer: Observer::new(tracer),
        tasks: tasks.clone(),
        stop_grace: settings.stop_grace(),
        files: Files::new(settings, data_dir, listen_addr),
    }))
}

fn client(settings: &Settings) -> Result<Client, InvalidSettings> {
    Client::new(&settings.orchestrator).map_err(|error| InvalidSettings::Refused {
        key: "orchestrator",
        reason: error.to_string(),
    })
}

fn spawn_supervisor(
    ledger: Ledger,
    contents: Contents,
    parts: Parts,
    messages: mpsc::Receiver<Message>,
    data_dir: DataDir,
) -> (Pulse, JoinHandle<()>) {
    let supervisor = Supervisor::new(ledger, contents, parts);
    let pulse = supervisor.pulse();
    let running = tokio::task::spawn_blocking(move || {
        // The lock is held until the ledger is closed.
        let _data_dir = data_dir;
        supervisor.run(messages);
    });
    (pulse, running)
}

async fn engines(
    settings: &Settings,
    node_id: NodeId,
    data_dir: &DataDir,
    tasks: &Tasks,
) -> Arc<Engines> {
    let engines = Engines::new(settings, node_id, wasm(settings, data_dir, tasks));
    // The first node record should be right already.
    engines.probe().await;
    engines
}

/// The wasm engine, if the settings name it and this machine can have it.
fn wasm(settings: &Settings, data_dir: &DataDir, tasks: &Tasks) -> Option<Wasm> {
    if !settings.engines.contains(&EngineType::Wasm) {
        return None;
    }
    Wasm::new(data_dir, tasks.clone())
        .inspect_err(|reason| warn!(reason, "no wasm engine here; the node does not offer it"))
        .ok()
}

fn spawn_background(tasks: &Tasks, steps: Arc<Steps>, session: Arc<Session>, drain: Arc<Drain>) {
    let mailbox = session.mailbox.clone();
    tasks.spawn(async move { drain.undo().await });
    let engines = Arc::clone(&steps.engines);
    tasks.spawn(async move { engines.watch().await });
    let engines = Arc::clone(&steps.engines);
    tasks.spawn(async move { engines.collect().await });
    let reporting = Arc::clone(&session);
    tasks.spawn(async move { reporting.report().await });
    tasks.spawn(async move { session.keep().await });
    tasks.spawn(sweep::leftovers(steps, mailbox.clone()));
    tasks.spawn(async move {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            mailbox.send(Message::Tick).await;
        }
    });
}

// === impl RunningAgent ===

impl RunningAgent {
    /// Stops the agent and leaves its containers running; the next agent on this data directory
    /// takes them up again. Wasm programs end here. What was observed until now is in the ledger when this returns.
    pub async fn shutdown(self) {
        info!("the agent stops; containers run on, wasm programs end with it");
        self.stop_serving.cancel();
        self.tasks.stop().await;
        self.mailbox.send(Message::Stop).await;
        let observer = Arc::clone(&self.observer);
        self.end().await;
        observer.shutdown().await;
    }

    /// Ends as if the process were killed: nothing is finished, told or tidied up. For tests of
    /// what a restart makes of that.
    pub async fn kill(self) {
        self.stop_serving.cancel();
        self.server.abort();
        self.tasks.stop().await;
        self.mailbox.send(Message::Stop).await;
        self.end().await;
    }

    async fn end(self) {
        for task in [self.supervisor, self.server] {
            if let Err(error) = task.await
                && error.is_panic()
            {
                warn!(%error, "a part of the agent panicked");
            }
        }
    }
}

/// Runs an agent until it is told to stop; told a second time, it does not wait for a drain.
/// The service manager hears that it is ready once the orchestrator has this node.
pub async fn run<F: Future<Output = ()>>(
    settings: Settings,
    told_to_stop: impl Fn() -> F,
) -> Result<(), StartError> {
    let orchestrator = settings.orchestrator.clone();
    let mut agent = Agent::start(settings).await?;
    service_manager::status(&format!("joining the orchestrator at {orchestrator}"));
    let watchdog = tokio::spawn(service_manager::watchdog(agent.pulse.clone()));
    let session = Arc::clone(&agent.session);
    let readiness = tokio::spawn(async move {
        session.session().await;
        service_manager::ready(&format!("joined the orchestrator at {orchestrator}"));
    });
    tokio::select! {
        () = told_to_stop() => {}
        // Nothing ends the supervisor but a fault of it; without it the agent is of no use.
        ended = &mut agent.supervisor => {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
            return Ok(());
        }
    }
    readiness.abort();
    match agent.drain.longest() {
        Duration::ZERO => service_manager::stopping("what runs keeps running", Duration::ZERO),
        longest => service_manager::stopping("draining: waiting for what runs", longest),
    }
    tokio::select! {
        () = agent.drain.leave() => {}
        () = told_to_stop() => warn!("told to stop a second time; what runs keeps running"),
    }
    agent.shutdown().await;
    watchdog.abort();
    Ok(())
}
