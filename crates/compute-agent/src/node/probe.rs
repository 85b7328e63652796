//! Probes of this node: whether it works, shown by something of the agent's own.
//!
//! A failure whose message could mean either side is judged by a probe before it is reported: a
//! synced write to the data directory, and a twin of the task ([`Twin`]). If the probe fails too,
//! the node is at fault, which the report confirms. If it succeeds, an error about the task itself
//! is the task's, and the cause is `Refused`.
//!
//! Probes of one engine run one at a time. A failure waits for a probe that begins after it and is
//! shared by all that wait, so that a thousand failures at a time cost two probes.
//!
//! The orchestrator also requests probes ([`requested`]), which end a back-off.

mod disk;
mod requested;
mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::execution::Failure;
use api_types::engine::EngineType;
use api_types::protocol::{FailureCause, SessionAnswer, Work};
use tracing::{info, warn};

use crate::host::data_dir::DataDir;
use crate::host::secrets_dir::SecretsDir;
use crate::node::tasks::Tasks;
use crate::runtime::registry::Engines;
use crate::runtime::twin::{Likeness, Twin};
use crate::runtime::{ExecutorError, field_of};
use disk::{AgentDir, Disk};
use requested::Requests;
use rounds::{Outcome, Rounds};

/// How long a failure waits for its probe, and for those before it. After that it is reported
/// without evidence. The orchestrator waits a little longer for a probe that it requests.
const PATIENCE: Duration = Duration::from_secs(100);

/// The probes of one node.
pub(crate) struct Probes {
    subjects: Arc<Subjects>,
    rounds: Rounds<Subject>,
    requests: Requests,
    tasks: Tasks,
    /// Whether the orchestrator of the latest session knows the cause `Refused`.
    knows_refused: AtomicBool,
}

/// What a probe is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    engine: EngineType,
    likeness: Likeness,
}

/// What probes need.
struct Subjects {
    engines: Arc<Engines>,
    data: Arc<Disk>,
    /// None where this node has no place for secrets.
    secrets: Option<Arc<Disk>>,
    allow_network: bool,
}

// === impl Probes ===

impl Probes {
    pub(crate) fn new(
        engines: Arc<Engines>,
        data_dir: &DataDir,
        secrets: Option<SecretsDir>,
        allow_network: bool,
        tasks: Tasks,
    ) -> Arc<Self> {
        let secrets = secrets.map(|dir| Arc::new(Disk::new(AgentDir::Secrets, dir.probe())));
        let data = Arc::new(Disk::new(AgentDir::Data, data_dir.probe()));
        let rounds = Rounds::new(engines.all().map(|(engine, _)| engine));
        Arc::new(Self {
            subjects: Arc::new(Subjects { engines, data, secrets, allow_network }),
            rounds,
            requests: Requests::default(),
            tasks,
            // Until an orchestrator says otherwise; `sendable` has the last word.
            knows_refused: AtomicBool::new(true),
        })
    }

    pub(crate) fn joined(&self, answer: &SessionAnswer) {
        self.knows_refused.store(answer.knows_refused(), Ordering::Relaxed);
    }

    /// The cause as this orchestrator can read it. One that knew `Refused` may have been replaced by
    /// an older one since the failure was recorded.
    pub(crate) fn sendable(&self, cause: FailureCause) -> FailureCause {
        match cause {
            FailureCause::Refused if !self.knows_refused.load(Ordering::Relaxed) => {
                FailureCause::Task
            }
            cause => cause,
        }
    }

    /// The failure to report for an error in a step of this task.
    pub(crate) async fn judge(
        &self,
        error: ExecutorError,
        work: &Work,
        gpus: Vec<String>,
    ) -> Failure {
        let is_about_the_task = match &error {
            ExecutorError::Refused { .. } | ExecutorError::NoSuchImage { .. } => true,
            ExecutorError::Unreachable { .. }
            | ExecutorError::Gone
            | ExecutorError::OutputLost { .. } => false,
            ExecutorError::Failed(failure) => match failure.cause {
                FailureCause::Refused => true,
                FailureCause::Node => false,
                FailureCause::Task
                | FailureCause::Timeout
                | FailureCause::Fetch
                | FailureCause::Missing
                | FailureCause::Room
                | FailureCause::Publish => return error.into(),
            },
            ExecutorError::NoSuchPath { .. } | ExecutorError::Cancelled => return error.into(),
        };
        // An orchestrator that does not know this cause makes nothing of the evidence either.
        if !self.knows_refused.load(Ordering::Relaxed) {
            return without_evidence(error);
        }
        let reason = error.to_string();
        let engine = work.task.engine.engine_type;
        let subject = Subject { engine, likeness: Likeness::of_task(work, gpus) };
        match self.probe(subject).await {
            Outcome::Fails(why) => {
                warn!(reason, why, "a probe of this node fails as well");
                let message = format!("{reason}; the node is at fault: {why}");
                Failure::confirmed(message)
            }
            Outcome::Works if is_about_the_task => {
                info!(reason, "a task is refused, and its twin runs");
                Failure::new(FailureCause::Refused, refusal(work, &reason))
            }
            Outcome::Works => Failure::node(reason),
            Outcome::Unknown(why) => {
                info!(reason, why, "a failure is reported without evidence");
                Failure::node(reason)
            }
        }
    }

    async fn probe(&self, subject: Subject) -> Outcome {
        let engine = subject.engine;
        let subjects = Arc::clone(&self.subjects);
        let probing = |subject| async move { subjects.probe(subject).await };
        let outcome = self.rounds.ask(&self.tasks, engine, subject, probing);
        let unknown = || Outcome::Unknown(format!("no probe has ended within {PATIENCE:?}"));
        tokio::time::timeout(PATIENCE, outcome).await.unwrap_or_else(|_| unknown())
    }
}

/// What an error counted as before there were probes.
fn without_evidence(error: ExecutorError) -> Failure {
    match Failure::from(error) {
        Failure { cause: FailureCause::Refused, message, .. } => Failure::node(message),
        failure => failure,
    }
}

/// What the engine said, and where to look.
fn refusal(work: &Work, reason: &str) -> String {
    let field = field_of(work, reason).map_or_else(String::new, |field| format!("check {field}; "));
    format!("{reason}; {field}this node runs a task of the agent's own in the same way")
}

// === impl Subjects ===

impl Subjects {
    async fn probe(&self, subject: Subject) -> Outcome {
        let Subject { engine, likeness } = subject;
        let mut mounts = match self.data.write().await {
            Ok(directory) => vec![directory],
            Err(reason) => return Outcome::Fails(reason),
        };
        match self.secrets.as_ref().filter(|_| likeness.secrets) {
            None => {}
            Some(secrets) => match secrets.write().await {
                Ok(directory) => mounts.push(directory),
                Err(reason) => return Outcome::Fails(reason),
            },
        }
        self.run_twin(engine, &Twin { likeness, mounts }).await
    }

    async fn run_twin(&self, engine: EngineType, twin: &Twin) -> Outcome {
        let Some(executor) = self.engines.get(engine) else {
            return Outcome::Unknown(format!("this node has no engine '{engine}'"));
        };
        match executor.run_twin(twin).await {
            Ok(()) => Outcome::Works,
            Err(error @ ExecutorError::Unreachable { .. }) => Outcome::Unknown(error.to_string()),
            Err(error) => {
                Outcome::Fails(format!("it cannot run a task of the agent's own either: {error}"))
            }
        }
    }
}
