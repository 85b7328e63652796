//! What running executions use: asked of their nodes while a client reads it, and kept for a
//! moment.
//!
//! One question to a node covers all of its executions. Readers that come within a second, or while
//! the node answers, share one answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_types::curve::{DAY_POINTS, HOUR_POINTS, MAX_POINTS, NodeCurve};
use api_types::execution::{ComputeState, Execution};
use api_types::job::MAX_NAMESPACE_BYTES;
use api_types::log::LogFrame;
use api_types::protocol::AssignmentLine;
use api_types::usage::{ExecutionUsage, UsageRequest};
use api_types::{ExecutionId, JobId, NodeId};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::relay::{Answer, Relay};
use super::service::LogService;
use crate::shares::Owner;

/// How long an answer is passed on.
const CURRENT: Duration = Duration::from_secs(1);

/// How long readers wait for a node; agents answer within 700 ms.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a node that did not answer is not waited for: its release may not know the question.
const MUTE: Duration = Duration::from_secs(30);

/// Nodes whose usage no client has read for this long are dropped.
const KEPT: Duration = Duration::from_secs(60);

/// Executions of one node. A node that names more, or a namespace longer than there is any, is not
/// believed.
const MAX_EXECUTIONS: usize = 20_000;

/// What the executions of a node use.
pub(crate) type OfNode = Arc<Used>;

#[derive(Default)]
pub(super) struct Answers {
    nodes: Mutex<HashMap<NodeId, CacheEntry>>,
}

struct CacheEntry {
    read_at: Instant,
    /// Locked while the node is asked, so that it is asked once.
    last: Arc<tokio::sync::Mutex<Option<Last>>>,
}

struct Last {
    asked_at: Instant,
    /// None when it did not answer.
    answer: Option<OfNode>,
}

// === impl LogService ===

impl LogService {
    /// What the executions of the node use; none when it does not say.
    pub(crate) async fn usage_on(&self, node: NodeId) -> Option<OfNode> {
        let kept = self.usage.kept(node);
        let mut last = kept.lock().await;
        if let Some(Last { asked_at, answer }) = &*last {
            let kept_for = if answer.is_some() { CURRENT } else { MUTE };
            if asked_at.elapsed() < kept_for {
                return answer.clone();
            }
        }
        // A node without a stream costs no time, and may be back any moment.
        let asked = ask(&self.relay, node)?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, asked).await.ok().flatten();
        let answer = answer.map(Arc::new);
        *last = Some(Last { asked_at: Instant::now(), answer: answer.clone() });
        answer
    }

    /// What the job's executions on the node used over time; none when it does not say.
    pub(crate) async fn curves_on(&self, node: NodeId, job: JobId) -> Option<Used> {
        self.curves(node, Some(job)).await?.executions()
    }

    /// What all executions on the node used, in the last hour and in the last day.
    pub(crate) async fn curves_of_node(&self, node: NodeId) -> Option<(NodeCurve, NodeCurve)> {
        match self.curves(node, None).await? {
            Said::Node(hour, day) => Some((hour, day)),
            // Of an older release, which knows only what executions use.
            Said::Executions(_) => None,
        }
    }

    /// Not kept for other readers: few look at the same curve at the same time.
    async fn curves(&self, node: NodeId, job: Option<JobId>) -> Option<Said> {
        let request = |stream_id| {
            AssignmentLine::Usage(UsageRequest { stream_id, job_id: job, node: job.is_none() })
        };
        let answer = self.relay.read(node, &Owner::current(), request).ok()?;
        tokio::time::timeout(ANSWER_TIMEOUT, collect(answer)).await.ok().flatten()
    }

    /// Completes the records of executions that run now.
    pub(crate) async fn measure(&self, executions: &mut [Execution]) {
        let runs =
            |execution: &Execution| execution.compute_state.state_type == ComputeState::BidAccepted;
        let mut nodes: Vec<_> =
            executions.iter().filter(|one| runs(one)).map(|one| one.node_id).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let answers = nodes.iter().map(async |node| (*node, self.usage_on(*node).await));
        let answers: HashMap<_, _> = join_all(answers).await.into_iter().collect();
        for execution in executions.iter_mut().filter(|one| runs(one)) {
            let of_node = answers.get(&execution.node_id).and_then(Option::as_ref);
            execution.usage = of_node.and_then(|used| used.get(&execution.id)).map(|it| it.usage);
        }
    }
}

/// Asks a node; none when it has no stream.
fn ask(relay: &Arc<Relay>, node: NodeId) -> Option<impl Future<Output = Option<Used>> + use<>> {
    let request =
        |stream_id| AssignmentLine::Usage(UsageRequest { stream_id, job_id: None, node: false });
    let answer = relay.ask(node, request)?;
    Some(async move { collect(answer).await?.executions() })
}

pub(crate) type Used = HashMap<ExecutionId, ExecutionUsage>;

/// What a node says.
enum Said {
    Executions(Used),
    Node(NodeCurve, NodeCurve),
}

// === impl Said ===

impl Said {
    fn is_sound(&self) -> bool {
        match self {
            Self::Executions(_) => true,
            Self::Node(hour, day) => hour.is_sound(HOUR_POINTS) && day.is_sound(DAY_POINTS),
        }
    }

    fn executions(self) -> Option<Used> {
        match self {
            Self::Executions(used) => Some(used),
            Self::Node(..) => None,
        }
    }
}

/// The whole answer; none if it is not to be believed.
async fn collect(mut answer: Answer) -> Option<Said> {
    let mut used = HashMap::new();
    let mut of_node = None;
    while let Some(frames) = answer.next().await {
        for frame in frames {
            match frame {
                LogFrame::Usage { executions } => {
                    if executions.iter().any(|one| one.namespace.len() > MAX_NAMESPACE_BYTES) {
                        return None;
                    }
                    used.extend(executions.into_iter().map(|one| {
                        let usage = one.usage.bounded();
                        let curve = one.curve.filter(|curve| curve.is_sound(MAX_POINTS));
                        (one.execution_id, ExecutionUsage { usage, curve, ..one })
                    }));
                }
                LogFrame::NodeUsage { hour, day } => {
                    of_node = Some(Said::Node(hour, day)).filter(Said::is_sound);
                }
                LogFrame::End => return Some(of_node.unwrap_or(Said::Executions(used))),
                LogFrame::KeepAlive | LogFrame::Unknown => {}
                LogFrame::Begin(_)
                | LogFrame::Output(_)
                | LogFrame::Archive(_)
                | LogFrame::Content { .. }
                | LogFrame::Absent
                | LogFrame::Failed { .. } => return None,
            }
            if used.len() > MAX_EXECUTIONS {
                return None;
            }
        }
    }
    None
}

// === impl Answers ===

impl Answers {
    fn kept(&self, node: NodeId) -> Arc<tokio::sync::Mutex<Option<Last>>> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let read_at = Instant::now();
        if !nodes.contains_key(&node) {
            nodes.retain(|_, kept| kept.read_at.elapsed() < KEPT);
        }
        let kept =
            nodes.entry(node).or_insert_with(|| CacheEntry { read_at, last: Arc::default() });
        kept.read_at = read_at;
        Arc::clone(&kept.last)
    }
}
