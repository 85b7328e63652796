//! A small scriptable orchestrator that speaks the agent protocol over real sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api_types::credential::{CredentialValue, CredentialsAnswer};
use api_types::execution::{ComputeState, DesiredState};
use api_types::node::Membership;
use api_types::protocol::{
    Acknowledgement, Assignment, AssignmentLine, Heartbeat, HeartbeatAnswer, Report, ReportAnswer,
    ReportBatch, SessionAnswer, SessionRequest, Work,
};
use api_types::{ApiError, Code, ExecutionId, routes};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use futures_util::StreamExt;
use http::StatusCode;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

/// No single wait of these tests takes longer on a working agent, however busy the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Orchestrator {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// None while it is away.
    server: Option<tokio::task::JoinHandle<()>>,
}

struct Shared {
    state: Mutex<Known>,
    /// Counts changes, so that a wait sees each.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    session: u64,
    node: Option<SessionRequest>,
    heartbeats: Vec<Heartbeat>,
    /// The desired state, with the work.
    desired: BTreeMap<ExecutionId, Assignment>,
    /// Every report that came, repeats included.
    came: Vec<Report>,
    keeps_reports_unacknowledged: bool,
    refuses_outputs: bool,
    /// What every execution gets that asks for credentials.
    credentials: Vec<CredentialValue>,
    streams: Vec<mpsc::UnboundedSender<AssignmentLine>>,
}

impl Orchestrator {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(Known::default()),
            changed: watch::Sender::new(0),
        });
        let mut orchestrator =
            Self { shared, address: SocketAddr::from(([127, 0, 0, 1], 0)), server: None };
        orchestrator.come_back().await;
        orchestrator
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks every connection, and refuses new ones.
    pub(crate) async fn go_away(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            drop(server.await);
        }
        self.state().streams.clear();
    }

    pub(crate) async fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("listen");
        self.address = listener.local_addr().expect("an address");
        self.server = Some(tokio::spawn(serve(listener, Arc::clone(&self.shared))));
    }

    /// The session that the node holds is no longer known.
    pub(crate) fn forget_session(&self) {
        self.change(|state| state.session += 1);
    }

    pub(crate) fn acknowledge_reports(&self, acknowledge: bool) {
        self.change(|state| state.keeps_reports_unacknowledged = !acknowledge);
    }

    /// Refuses reports that say more than a state and a message, with all that come with them.
    pub(crate) fn refuse_outputs(&self) {
        self.change(|state| state.refuses_outputs = true);
    }

    /// Gives these to executions from now on.
    pub(crate) fn grant(&self, credentials: Vec<CredentialValue>) {
        self.change(|state| state.credentials = credentials);
    }

    pub(crate) fn offer(&self, work: Work) -> ExecutionId {
        let id = new_id();
        self.want(Assignment {
            execution_id: id,
            desired_state: DesiredState::Pending,
            compute_state: ComputeState::AskForBid,
            message: String::new(),
            work: Some(work),
        });
        id
    }

    /// Notifies the node, and every stream that opens later.
    pub(crate) fn want(&self, assignment: Assignment) {
        self.change(|state| {
            let line = AssignmentLine::Assignment(Box::new(assignment.clone()));
            state.streams.retain(|stream| stream.send(line.clone()).is_ok());
            state.desired.insert(assignment.execution_id, assignment);
        });
    }

    pub(crate) fn want_state(&self, id: ExecutionId, state: DesiredState, message: &str) {
        let mut assignment = self.state().desired[&id].clone();
        assignment.desired_state = state;
        message.clone_into(&mut assignment.message);
        self.want(assignment);
    }

    /// Removes it from the desired state; the node learns of it with the next stream.
    pub(crate) fn forget(&self, id: ExecutionId) {
        self.change(|state| drop(state.desired.remove(&id)));
    }

    pub(crate) fn break_streams(&self) {
        self.change(|state| state.streams.clear());
    }

    /// Offers the work, and orders it to run as soon as the node accepts it.
    pub(crate) async fn run(&self, work: Work) -> ExecutionId {
        let id = self.offer(work);
        let report = self.reported(id, ComputeState::AskForBidAccepted).await;
        assert_eq!(report.sequence, 1);
        self.want_state(id, DesiredState::Running, "");
        id
    }

    /// The first report of this state.
    pub(crate) async fn reported(&self, id: ExecutionId, wanted: ComputeState) -> Report {
        self.wait(&format!("{id} to be reported as {wanted:?}"), |state| {
            let of_it = state.came.iter().filter(|report| report.execution_id == id);
            for report in of_it {
                if report.compute_state == wanted {
                    return Some(report.clone());
                }
                let ended = report.compute_state.is_terminal();
                assert!(!ended, "{id} ended otherwise than {wanted:?}: {report:?}");
            }
            None
        })
        .await
    }

    /// The first report about it that is so.
    pub(crate) async fn report_that(
        &self,
        id: ExecutionId,
        wanted: impl Fn(&Report) -> bool,
    ) -> Report {
        self.wait(&format!("a report about {id}"), |state| {
            let mut of_it = state.came.iter().filter(|report| report.execution_id == id);
            of_it.find(|report| wanted(report)).cloned()
        })
        .await
    }

    pub(crate) async fn joined(&self, wanted: impl Fn(&SessionRequest) -> bool) -> SessionRequest {
        self.wait("the node to join", |state| state.node.clone().filter(|node| wanted(node))).await
    }

    pub(crate) async fn heartbeat(&self, wanted: impl Fn(&Heartbeat) -> bool) -> Heartbeat {
        self.wait("a heartbeat", |state| {
            state.heartbeats.iter().find(|heartbeat| wanted(heartbeat)).cloned()
        })
        .await
    }

    /// Every report about it so far, repeats included.
    pub(crate) fn all_reports(&self, id: ExecutionId) -> Vec<Report> {
        self.state().came.iter().filter(|report| report.execution_id == id).cloned().collect()
    }

    pub(crate) fn count_reports(&self, state: ComputeState) -> usize {
        self.state().came.iter().filter(|report| report.compute_state == state).count()
    }

    pub(crate) async fn wait_for_reports(&self, state: ComputeState, count: usize) {
        self.wait(&format!("{count} reports of {state:?}"), |shared| {
            let came = shared.came.iter().filter(|report| report.compute_state == state).count();
            (came >= count).then_some(())
        })
        .await;
    }

    async fn wait<T>(&self, what: &str, look: impl Fn(&Known) -> Option<T>) -> T {
        let mut changes = self.shared.changed.subscribe();
        let found = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = look(&self.state()) {
                    return found;
                }
                changes.changed().await.expect("the orchestrator lives");
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => panic!("waited in vain for {what}; reports: {:#?}", self.state().came),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        self.shared.change(change);
    }

    fn state(&self) -> MutexGuard<'_, Known> {
        self.shared.state.lock().expect("no test thread panicked inside")
    }
}

impl Shared {
    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let answer = change(&mut self.state.lock().expect("no handler panicked inside"));
        self.changed.send_modify(|count| *count += 1);
        answer
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new()
        .route(routes::NODE_SESSION, put(join))
        .route(routes::NODE_HEARTBEAT, put(heartbeat))
        .route(routes::NODE_ASSIGNMENTS, get(assignments))
        .route(routes::NODE_EXECUTIONS, put(report))
        .route(routes::NODE_CREDENTIALS, post(credentials))
        .with_state(shared);
    // Dropped with this future, and every connection with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            drop(served.await);
        });
    }
}

fn json<T: serde::Serialize>(value: &T) -> Response {
    serde_json::to_vec(value).expect("JSON").into_response()
}

fn read<T: serde::de::DeserializeOwned>(body: &Bytes) -> T {
    serde_json::from_slice(body).expect("the agent sends what the protocol says")
}

fn stale() -> Response {
    let error = ApiError::new(Code::StaleSession, "join again");
    (StatusCode::CONFLICT, serde_json::to_vec(&error).expect("JSON")).into_response()
}

async fn join(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let request = read(&body);
    let session = shared.change(|state| {
        state.node = Some(request);
        state.session += 1;
        state.streams.clear();
        state.session
    });
    json(&SessionAnswer {
        session,
        lease_seconds: 3,
        heartbeat_seconds: 1,
        membership: Membership::Approved,
    })
}

async fn heartbeat(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let heartbeat: Heartbeat = read(&body);
    let known = shared.change(|state| {
        let known = state.session == heartbeat.session;
        state.heartbeats.push(heartbeat);
        known
    });
    if known { json(&HeartbeatAnswer { lease_seconds: 3, heartbeat_seconds: 1 }) } else { stale() }
}

async fn assignments(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let lines = shared.change(|state| {
        if query != Some(format!("session={}", state.session)) {
            return None;
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let executions = state.desired.len() as u64;
        let snapshot = state.desired.values().cloned();
        let lines = std::iter::once(AssignmentLine::Snapshot { executions })
            .chain(snapshot.map(|assignment| AssignmentLine::Assignment(Box::new(assignment))));
        for line in lines {
            sender.send(line).expect("the receiver is here");
        }
        state.streams.push(sender);
        Some(receiver)
    });
    let Some(receiver) = lines else { return stale() };
    let lines = futures_util::stream::unfold(receiver, |mut receiver| async {
        let line = receiver.recv().await?;
        let mut bytes = serde_json::to_vec(&line).expect("JSON");
        bytes.push(b'\n');
        Some((Ok::<_, std::convert::Infallible>(bytes), receiver))
    });
    Body::from_stream(lines.boxed()).into_response()
}

async fn credentials(State(shared): State<Arc<Shared>>) -> Response {
    let credentials = shared.change(|state| state.credentials.clone());
    json(&CredentialsAnswer { credentials })
}

async fn report(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let ReportBatch { session, reports } = read(&body);
    if shared.change(|state| state.refuses_outputs)
        && reports.iter().any(|report| report.run_output.is_some())
    {
        let error = ApiError::new(Code::MalformedBody, "it says too much");
        return (StatusCode::BAD_REQUEST, serde_json::to_vec(&error).expect("JSON"))
            .into_response();
    }
    let acknowledged = shared.change(|state| {
        if state.session != session {
            return None;
        }
        let acknowledged = match state.keeps_reports_unacknowledged {
            true => Vec::new(),
            false => reports.iter().map(acknowledgement).collect(),
        };
        for report in &reports {
            if !acknowledged.is_empty() && report.compute_state.is_terminal() {
                state.desired.remove(&report.execution_id);
            }
        }
        state.came.extend(reports);
        Some(acknowledged)
    });
    acknowledged.map_or_else(stale, |acknowledged| json(&ReportAnswer { acknowledged }))
}

fn acknowledgement(report: &Report) -> Acknowledgement {
    Acknowledgement { execution_id: report.execution_id, sequence: report.sequence }
}

#[expect(clippy::disallowed_methods, reason = "this stands for the orchestrator, which mints ids")]
pub(crate) fn new_id() -> ExecutionId {
    ExecutionId::from_uuid(Uuid::new_v4())
}
