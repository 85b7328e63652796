//! A small scriptable orchestrator that speaks the agent protocol over real sockets.

mod serving;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api_types::ExecutionId;
use api_types::credential::CredentialValue;
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{Assignment, AssignmentLine, Heartbeat, Report, SessionRequest, Work};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
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
    state: Mutex<State>,
    /// Counts changes, so that a wait sees each.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    session: u64,
    node: Option<SessionRequest>,
    heartbeats: Vec<Heartbeat>,
    /// The desired state, with the work.
    desired: BTreeMap<ExecutionId, Assignment>,
    /// Every report that came, repeats included.
    came: Vec<Report>,
    keeps_reports_unacknowledged: bool,
    refuses_outputs: bool,
    /// The next batch is never answered, as on a connection that is dead without a word.
    loses_a_batch: bool,
    /// What every execution gets that asks for credentials.
    credentials: Vec<CredentialValue>,
    /// Whether it is of a release that knows no cause beyond the original ones.
    is_old: bool,
    /// The probe that it requests.
    probe: Option<u64>,
    /// Of the orchestrator that leads.
    term: String,
    streams: Vec<mpsc::UnboundedSender<AssignmentLine>>,
    /// Streams of a former leader.
    silent: Vec<mpsc::UnboundedSender<AssignmentLine>>,
}

impl Orchestrator {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
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
        self.server = Some(tokio::spawn(serving::serve(listener, Arc::clone(&self.shared))));
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

    /// Never answers the next batch of reports.
    pub(crate) fn lose_a_batch(&self) {
        self.change(|state| state.loses_a_batch = true);
    }

    /// Returns once such a batch has come.
    pub(crate) async fn lost_a_batch(&self) {
        self.wait("a batch is lost", |state| (!state.loses_a_batch).then_some(())).await;
    }

    /// Gives these to executions from now on.
    pub(crate) fn grant(&self, credentials: Vec<CredentialValue>) {
        self.change(|state| state.credentials = credentials);
    }

    /// Is of an earlier release, from the node's next session on.
    pub(crate) fn grows_old(&self) {
        self.change(|state| (state.is_old, state.session) = (true, state.session + 1));
    }

    /// Leads under this term; the streams of the former leader stay open and say nothing.
    pub(crate) fn leads_under(&self, term: &str) {
        self.change(|state| {
            state.term = term.to_owned();
            let streams = std::mem::take(&mut state.streams);
            state.silent.extend(streams);
        });
    }

    /// Requests this probe in every answer to a heartbeat.
    pub(crate) fn request_probe(&self, probe: Option<u64>) {
        self.change(|state| state.probe = probe);
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

    /// Lost what it had learned of this execution after a state; the node learns it with the next
    /// stream.
    pub(crate) fn forgets_reports(&self, id: ExecutionId, known: ComputeState) {
        self.change(|state| {
            state.desired.get_mut(&id).expect("an execution").compute_state = known;
            state.streams.clear();
        });
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

    /// The report about it that comes after this many.
    pub(crate) async fn report_after(&self, id: ExecutionId, number: usize) -> Report {
        self.wait(&format!("another report about {id}"), |state| {
            let mut of_it = state.came.iter().filter(|report| report.execution_id == id);
            of_it.nth(number).cloned()
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

    /// The first heartbeat from now on that is so.
    pub(crate) async fn later_heartbeat(&self, wanted: impl Fn(&Heartbeat) -> bool) -> Heartbeat {
        let count = self.state().heartbeats.len();
        self.wait("a later heartbeat", |state| {
            state.heartbeats.iter().skip(count).find(|heartbeat| wanted(heartbeat)).cloned()
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

    async fn wait<T>(&self, what: &str, look: impl Fn(&State) -> Option<T>) -> T {
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

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.shared.change(change);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("no test thread panicked inside")
    }
}

impl Shared {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let answer = change(&mut self.state.lock().expect("no handler panicked inside"));
        self.changed.send_modify(|count| *count += 1);
        answer
    }
}

#[expect(clippy::disallowed_methods, reason = "this stands for the orchestrator, which mints ids")]
pub(crate) fn new_id() -> ExecutionId {
    ExecutionId::from_uuid(Uuid::new_v4())
}
