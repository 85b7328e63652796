//! One agent, from start to stop.

mod error;
mod setup;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent_core::Contents;
use api_client::{Client, InvalidBaseUrl};
use api_types::NodeId;
use daemon::{Pulse, service_manager};
use telemetry::traces::{OtlpError, Tracer};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::error::StartError;
use self::setup::{Setup, limits};
use crate::data::handover::Handover;
use crate::data::logs::Outputs;
use crate::data::results::publisher::PublishedDir;
use crate::data::secrets::Secrets;
use crate::host::data_dir::DataDir;
use crate::host::gpu::Inventory;
use crate::host::secrets_dir::SecretsDir;
use crate::host::settings::{InvalidSettings, Settings};
use crate::http;
use crate::http::guard::Guard;
use crate::http::shared::{Readers, Shared};
use crate::node::effects::{EffectRunner, Files};
use crate::node::ledger::Ledger;
use crate::node::mailbox::{Mailbox, Message};
use crate::node::outbox::Outbox;
use crate::node::probe::Probes;
use crate::node::reserve::Reserve;
use crate::node::supervisor::{Parts, Supervisor, sweep};
use crate::node::tasks::Tasks;
use crate::node::usage::Meters;
use crate::node::vitals::Vitals;
use crate::observer::Observer;
use crate::runtime::registry::{Engines, Surroundings};
use crate::session::drain::Drain;
use crate::session::enrolment::Enrolment;
use crate::session::enrolment::renewal::Renewal;
use crate::session::heartbeat::Heartbeats;
use crate::session::node_record::NodeRecord;
use crate::session::state::SessionWatch;
use crate::session::{Session, Streams};

/// Interval at which the supervisor checks whether finished executions are old enough to forget,
/// and updates its pulse when it is otherwise idle.
const TICK: Duration = Duration::from_secs(1);

/// Starts agents.
#[derive(Debug)]
pub struct Agent;

/// A running agent. If it is dropped without [`shutdown`](Self::shutdown), it continues in the
/// background.
#[derive(Debug)]
pub struct RunningAgent {
    pub node_id: NodeId,
    /// The address of its HTTP API.
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
    engines: Arc<Engines>,
}

// === impl Agent ===

impl Agent {
    /// Opens the data directory, binds the listener, resumes interrupted executions, and joins the
    /// orchestrator in the background: an unreachable orchestrator does not prevent the start, except
    /// that of a new node, which has no certificate yet.
    pub async fn start(settings: Settings) -> Result<RunningAgent, StartError> {
        let Setup { data_dir, ledger, contents, gpus, capacity, listener, listen_addr, enrolment } =
            Setup::open(&settings).await?;
        let node_id = ledger.node_id();
        info!(%node_id, %listen_addr, %capacity, "the agent starts");

        let tasks = Tasks::new(Handle::current());
        let published =
            PublishedDir::new(data_dir.published(), settings.results.published_max_bytes);
        let secrets_dir = SecretsDir::open(&settings, data_dir.root())?;
        let asking = client(&settings, &enrolment)?;
        let secrets = Secrets::new(Handover::new(asking.clone(), node_id), secrets_dir.clone());
        let around =
            Surroundings { node_id, data_dir: &data_dir, tasks: &tasks, held: contents.engines() };
        let runner = runner(&settings, listen_addr, &around, gpus, (secrets, secrets_dir)).await?;
        let (engines, observer) = (Arc::clone(&runner.engines), Arc::clone(&runner.observer));
        let (mailbox, messages) = Mailbox::new();
        let (outbox, note) = (Arc::new(Outbox::default()), data_dir.drain_note());
        let vitals = Arc::new(Vitals::default());
        follow_node(&tasks, &runner, &vitals, &data_dir);
        let parts = Parts {
            limits: limits(&settings, capacity),
            outbox: Arc::clone(&outbox),
            runner: Arc::clone(&runner),
            mailbox: mailbox.clone(),
            vitals: Arc::clone(&vitals),
        };
        let guard = Guard::open(&enrolment, &settings, data_dir.local_token())?;
        let (pulse, supervisor) = spawn_supervisor(ledger, contents, parts, messages, data_dir);
        let record =
            Arc::new(NodeRecord::new(&settings, listen_addr, capacity, Arc::clone(&runner)));
        let watch = SessionWatch::new();
        let outputs = Outputs::new(&engines, &mailbox, &runner.files);
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
            readers: Readers::new(),
            guard: Arc::new(guard),
        };
        let measuring = (vitals, Arc::clone(&runner));
        let clients = (&enrolment, asking);
        let session = session(node_id, clients, measuring, &tasks, &shared)?;
        let server = tokio::spawn(http::Service::new(shared).serve(listener, stop_serving.clone()));
        let handover = runner.files.secrets.handover().clone();
        tasks.spawn(sweep::published(published, settings.results.retain(), handover));
        let background = Arc::clone(&runner.engines);
        let drain = Arc::new(Drain::new(&settings, Arc::clone(&session), note));
        spawn_background(runner, session, Arc::clone(&drain));
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
            engines: background,
        })
    }
}

/// Follows what the node uses and holds.
fn follow_node(tasks: &Tasks, runner: &EffectRunner, vitals: &Arc<Vitals>, data_dir: &DataDir) {
    let (held, file) = (Arc::clone(vitals), data_dir.node_usage());
    tasks.spawn(Arc::clone(&runner.meters).follow_node(move || held.held(), file));
}

fn session(
    node_id: NodeId,
    (enrolment, client): (&Enrolment, Client),
    (vitals, runner): (Arc<Vitals>, Arc<EffectRunner>),
    tasks: &Tasks,
    shared: &Shared,
) -> Result<Arc<Session>, StartError> {
    let (watch, observer) = (&shared.session, &shared.observer);
    // Heartbeats run on their own thread and never wait for a connection.
    let own = client.separate().map_err(unusable)?;
    let expired = Arc::new(Notify::new());
    let renewal =
        Renewal::for_clients(enrolment, vec![client.clone(), own.clone()], Arc::clone(&expired));
    let expired = renewal.is_some().then_some(expired);
    if let Some(renewal) = renewal {
        tasks.spawn(renewal.keep());
    }
    let probes = Arc::clone(&runner.probes);
    let heartbeats = Heartbeats::start(
        own,
        node_id,
        vitals,
        Arc::clone(watch),
        Arc::clone(&probes),
        Arc::clone(observer),
    )
    .map_err(StartError::Thread)?;
    let outputs = Arc::clone(&shared.outputs);
    Ok(Arc::new(Session {
        streams: Streams::new(
            client.clone(),
            node_id,
            outputs,
            shared.published.clone(),
            Arc::clone(&runner.meters),
            tasks.clone(),
        ),
        client,
        node_id,
        record: Arc::clone(&shared.record),
        engines: Arc::clone(&shared.engines),
        mailbox: shared.mailbox.clone(),
        outbox: Arc::clone(&shared.outbox),
        observer: Arc::clone(observer),
        watch: Arc::clone(watch),
        probes,
        heartbeats,
        expired,
    }))
}

async fn runner(
    settings: &Settings,
    listen_addr: SocketAddr,
    around: &Surroundings<'_>,
    gpus: Inventory,
    (secrets, secrets_dir): (Secrets, Option<SecretsDir>),
) -> Result<Arc<EffectRunner>, OtlpError> {
    let (node_id, data_dir) = (around.node_id, around.data_dir);
    let tracer = Tracer::start(&settings.otlp, "compute-agent", node_id.to_string())?;
    let engines = engines(settings, around).await;
    let files = Files::new(settings, data_dir, listen_addr, secrets);
    Ok(Arc::new(EffectRunner {
        node_id,
        reserve: Reserve::new(&engines, &files.copies, data_dir.root(), settings),
        meters: Arc::new(Meters::new(&engines, data_dir.executions())),
        probes: Probes::new(
            Arc::clone(&engines),
            data_dir,
            secrets_dir,
            settings.allow_network,
            around.tasks.clone(),
        ),
        engines,
        gpus,
        observer: Observer::new(tracer),
        tasks: around.tasks.clone(),
        stop_grace: settings.stop_grace(),
        files,
    }))
}

fn client(settings: &Settings, enrolment: &Enrolment) -> Result<Client, InvalidSettings> {
    enrolment.client(&settings.orchestrator, settings.proxy()).map_err(unusable)
}

fn unusable(error: InvalidBaseUrl) -> InvalidSettings {
    InvalidSettings::Refused { key: "orchestrator", reason: error.to_string() }
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

async fn engines(settings: &Settings, around: &Surroundings<'_>) -> Arc<Engines> {
    let engines = Engines::of_settings(settings, around);
    // The first node record should be complete.
    engines.probe().await;
    engines
}

fn spawn_background(runner: Arc<EffectRunner>, session: Arc<Session>, drain: Arc<Drain>) {
    let (tasks, mailbox) = (runner.tasks.clone(), session.mailbox.clone());
    tasks.spawn(async move { drain.undo().await });
    let engines = Arc::clone(&runner.engines);
    tasks.spawn(async move { engines.keep().await });
    let keeping = Arc::clone(&runner);
    tasks.spawn(async move { keeping.reserve.keep().await });
    let reporting = Arc::clone(&session);
    tasks.spawn(async move { reporting.report().await });
    tasks.spawn(async move { session.keep().await });
    tasks.spawn(sweep::leftovers(runner, mailbox.clone()));
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
    /// Stops the agent and leaves its tasks running; the next agent on this data directory adopts
    /// them. Engines remove what they keep ready. Everything observed so far is in the ledger when
    /// this returns.
    pub async fn shutdown(self) {
        info!("the agent is stopping; running tasks continue");
        self.stop_serving.cancel();
        self.tasks.stop().await;
        self.engines.shutdown().await;
        self.mailbox.send(Message::Stop).await;
        let observer = Arc::clone(&self.observer);
        self.end().await;
        observer.shutdown().await;
    }

    /// Ends as if the process were killed: it finishes, reports and cleans up nothing. For tests
    /// of restarts.
    pub async fn kill(self) {
        self.stop_serving.cancel();
        self.server.abort();
        self.tasks.stop().await;
        self.mailbox.send(Message::Kill).await;
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

/// Runs an agent until a stop signal; a second signal ends a drain early. The service manager is
/// notified of readiness once the orchestrator has accepted this node.
///
/// It also ends when the orchestrator finds that its data directory is a copy: on the same machine,
/// the two would handle the same containers.
pub async fn run<F: Future<Output = ()>>(
    settings: Settings,
    stop_requested: impl Fn() -> F,
) -> Result<(), StartError> {
    let (orchestrator, data_dir) = (settings.orchestrator.clone(), settings.data_dir.clone());
    let mut agent = Agent::start(settings).await?;
    service_manager::status(&format!("joining the orchestrator at {orchestrator}"));
    let watchdog = tokio::spawn(service_manager::watchdog(agent.pulse.clone()));
    let session = Arc::clone(&agent.session);
    let joined = Arc::clone(&session);
    let readiness = tokio::spawn(async move {
        joined.session().await;
        service_manager::ready(&format!("joined the orchestrator at {orchestrator}"));
    });
    let copy = tokio::select! {
        () = stop_requested() => None,
        reason = session.is_copy() => Some(reason),
        // The supervisor only ends on a bug; the agent is useless without it.
        ended = &mut agent.supervisor => {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
            return Ok(());
        }
    };
    readiness.abort();
    if let Some(reason) = copy {
        service_manager::stopping("another agent has this identity", Duration::ZERO);
        agent.shutdown().await;
        watchdog.abort();
        return Err(StartError::Copy { reason, data_dir });
    }
    match agent.drain.longest() {
        Duration::ZERO => service_manager::stopping("running tasks continue", Duration::ZERO),
        longest => service_manager::stopping("draining: waiting for running tasks", longest),
    }
    tokio::select! {
        () = agent.drain.leave() => {}
        () = stop_requested() => warn!("second stop signal: ending the drain; running tasks continue"),
    }
    agent.shutdown().await;
    watchdog.abort();
    Ok(())
}
