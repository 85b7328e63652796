//! Nothing leaves before it is on disk; finished work is forgotten in time; nothing is run twice.

use std::path::PathBuf;

use agent_core::node_state::{Input, Usage};
use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{Acknowledgement, Assignment, Report, Work};
use rusqlite::Connection;
use telemetry::traces::Tracer;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::host::data_dir::DataDir;
use crate::host::gpu::Inventory;
use crate::host::settings::Settings;
use crate::node::probe::Probes;
use crate::node::reserve::Reserve;
use crate::node::tasks::Tasks;
use crate::node::usage::Meters;
use crate::observer::Observer;
use crate::runtime::Executor;
use crate::runtime::noop::Noop;
use crate::runtime::registry::Engines;
use crate::testing::{execution_id, plain_work, without_secrets};
use api_types::Timestamp;

/// No wait here takes longer on a working supervisor.
const PATIENCE: Duration = Duration::from_secs(30);

struct Fixture {
    mailbox: Mailbox,
    outbox: Arc<Outbox>,
    running: JoinHandle<()>,
    ledger: PathBuf,
    root: TempDir,
}

fn start(root: TempDir, retain: Duration) -> Fixture {
    let data_dir = DataDir::open(root.path()).unwrap();
    let path = data_dir.ledger();
    let ledger = Ledger::open(&path).unwrap();
    let contents = ledger.load(&path).unwrap();
    let settings = Settings { engines: vec![EngineType::Noop], ..Settings::default() };
    let engines =
        Engines::new([(EngineType::Noop, Box::new(Noop::default()) as Box<dyn Executor>)]);
    let tasks = Tasks::new(tokio::runtime::Handle::current());
    let runner = Arc::new(EffectRunner {
        node_id: ledger.node_id(),
        probes: Probes::new(Arc::clone(&engines), &data_dir, None, false, tasks.clone()),
        meters: Arc::new(Meters::new(&engines, data_dir.executions())),
        reserve: Reserve::new(&engines, &Arc::default(), data_dir.root(), &settings),
        engines,
        gpus: Inventory::default(),
        observer: Observer::new(Tracer::default()),
        stop_grace: Duration::ZERO,
        tasks,
        files: Files::new(&settings, &data_dir, settings.listen, without_secrets()),
    });
    let (mailbox, messages) = Mailbox::new();
    let outbox = Arc::new(Outbox::default());
    let capacity = Resources { cpu_millis: 4000, memory_bytes: 1 << 40, ..Resources::ZERO };
    let mailbox_of_runner = mailbox.clone();
    let limits = Limits { capacity, retain, retain_bytes: u64::MAX };
    let (outbox_of_it, vitals) = (outbox.clone(), Arc::default());
    let parts = Parts { limits, outbox: outbox_of_it, runner, mailbox: mailbox_of_runner, vitals };
    let supervisor = Supervisor::new(ledger, contents, parts);
    let running = tokio::task::spawn_blocking(move || {
        let _data_dir = data_dir;
        supervisor.run(messages);
    });
    Fixture { mailbox, outbox, running, ledger: path, root }
}

impl Fixture {
    async fn offer(&self, number: u128, state: DesiredState) {
        self.offer_work(number, state, plain_work()).await;
    }

    async fn offer_work(&self, number: u128, desired_state: DesiredState, work: Work) {
        let assignment = Assignment {
            execution_id: execution_id(number),
            desired_state,
            compute_state: ComputeState::AskForBid,
            message: String::new(),
            work: Some(work),
        };
        self.mailbox.send(Message::Input(Input::Change(Box::new(assignment)))).await;
    }

    /// The pending reports, once there are enough.
    async fn reports(&self, count: usize) -> Vec<Report> {
        let enough = async {
            loop {
                let batch = self.outbox.next_batch().await;
                if batch.len() >= count {
                    return batch;
                }
                // The supervisor handles messages in order, so this does not spin.
                self.mailbox.usage().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, enough).await.expect("the reports come")
    }

    async fn acknowledge(&self, reports: &[Report]) {
        let acknowledged: Vec<_> = reports
            .iter()
            .map(|report| Acknowledgement {
                execution_id: report.execution_id,
                sequence: report.sequence,
            })
            .collect();
        let answered = self.outbox.answered(reports, acknowledged);
        self.mailbox.send(Message::Input(Input::Acknowledged(answered.acknowledged))).await;
    }

    async fn held(&self) -> usize {
        self.mailbox.list().await.unwrap().len()
    }

    async fn restart(self, retain: Duration) -> Self {
        self.mailbox.send(Message::Stop).await;
        self.running.await.unwrap();
        start(self.root, retain)
    }
}

fn states(reports: &[Report]) -> Vec<ComputeState> {
    reports.iter().map(|report| report.compute_state).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_reported_before_it_is_durable() {
    let fixture = start(tempfile::tempdir().unwrap(), PATIENCE);
    let blocker = Connection::open(&fixture.ledger).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    fixture.offer(1, DesiredState::Pending).await;
    let early = tokio::time::timeout(Duration::from_millis(300), fixture.outbox.next_batch()).await;
    assert!(early.is_err(), "{early:?}");
    blocker.execute_batch("ROLLBACK").unwrap();
    assert_eq!(states(&fixture.reports(1).await), [ComputeState::AskForBidAccepted]);
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_executions_and_their_reports_survive_a_restart() {
    let fixture = start(tempfile::tempdir().unwrap(), PATIENCE);
    fixture.offer(1, DesiredState::Pending).await;
    let first = fixture.reports(1).await;
    let fixture = fixture.restart(PATIENCE).await;
    assert_eq!(fixture.reports(1).await, first);
    fixture.acknowledge(&first).await;
    // Offered again, as a snapshot does: it is known.
    fixture.offer(1, DesiredState::Running).await;
    let rest = fixture.reports(2).await;
    assert_eq!(states(&rest), [ComputeState::BidAccepted, ComputeState::Completed]);
    assert_eq!(rest.iter().map(|report| report.sequence).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_execution_is_forgotten_once_acknowledged_and_expired() {
    let fixture = start(tempfile::tempdir().unwrap(), Duration::ZERO);
    fixture.offer(1, DesiredState::Running).await;
    let reports = fixture.reports(3).await;
    fixture.mailbox.send(Message::Tick).await;
    assert_eq!(fixture.held().await, 1);
    fixture.acknowledge(&reports[..2]).await;
    assert_eq!(fixture.held().await, 1);
    fixture.acknowledge(&reports[2..]).await;
    fixture.mailbox.send(Message::Tick).await;
    let forgotten = async { while fixture.held().await > 0 {} };
    tokio::time::timeout(PATIENCE, forgotten).await.expect("it is forgotten");
    let fixture = fixture.restart(Duration::ZERO).await;
    assert_eq!(fixture.held().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_lists_a_finished_execution_gets_its_report_again() {
    let fixture = start(tempfile::tempdir().unwrap(), PATIENCE);
    fixture.offer(1, DesiredState::Running).await;
    let reports = fixture.reports(3).await;
    fixture.acknowledge(&reports).await;
    let assignment = Assignment {
        execution_id: execution_id(1),
        desired_state: DesiredState::Running,
        compute_state: ComputeState::BidAccepted,
        message: String::new(),
        work: Some(plain_work()),
    };
    // Requested before the acknowledgement came: the snapshot that lists the execution is stale.
    let early = Message::Input(Input::Snapshot(Timestamp(1), vec![assignment.clone()]));
    fixture.mailbox.send(early).await;
    fixture.mailbox.usage().await.unwrap();
    let late = Input::Snapshot(clock::steady(), vec![assignment]);
    fixture.mailbox.send(Message::Input(late)).await;
    let again = fixture.reports(1).await;
    assert_eq!(states(&again), [ComputeState::Completed]);
    assert_eq!(again[0].sequence, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_is_written_with_the_next_commit_and_at_the_next_tick() {
    let fixture = start(tempfile::tempdir().unwrap(), PATIENCE);
    let ledger = Connection::open(&fixture.ledger).unwrap();
    // The supervisor handles messages in order.
    let stored = async || {
        fixture.held().await;
        let count =
            ledger.query_row("SELECT count(*) FROM reports", [], |row| row.get::<_, u32>(0));
        count.unwrap()
    };
    fixture.offer(1, DesiredState::Pending).await;
    fixture.acknowledge(&fixture.reports(1).await).await;
    assert_eq!(stored().await, 1);
    fixture.mailbox.send(Message::Tick).await;
    assert_eq!(stored().await, 0);

    fixture.offer(2, DesiredState::Pending).await;
    fixture.acknowledge(&fixture.reports(1).await).await;
    assert_eq!(stored().await, 1);
    fixture.offer(3, DesiredState::Pending).await;
    let third = fixture.reports(1).await;
    assert_eq!(stored().await, 1);
    fixture.acknowledge(&third).await;
    let fixture = fixture.restart(PATIENCE).await;
    assert!(fixture.outbox.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn held_resources_count_as_used_until_the_execution_is_done() {
    let fixture = start(tempfile::tempdir().unwrap(), PATIENCE);
    fixture.offer(1, DesiredState::Pending).await;
    fixture.offer(2, DesiredState::Pending).await;
    let usage = fixture.mailbox.usage().await.unwrap();
    assert_eq!((usage.enqueued_executions, usage.running_executions), (2, 0));
    assert_eq!((usage.used.cpu_millis, usage.used.memory_bytes), (1000, 128_000_000));
    fixture.offer(1, DesiredState::Running).await;
    fixture.offer(2, DesiredState::Stopped).await;
    fixture.reports(5).await;
    assert_eq!(fixture.mailbox.usage().await.unwrap(), Usage::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_execution_is_reported_once_until_acknowledged() {
    let fixture = start(tempfile::tempdir().unwrap(), PATIENCE);
    for _ in 0..3 {
        fixture.offer(1, DesiredState::Stopped).await;
    }
    let reports = fixture.reports(1).await;
    assert_eq!(states(&reports), [ComputeState::Cancelled]);
    let fixture = fixture.restart(PATIENCE).await;
    fixture.offer(1, DesiredState::Stopped).await;
    assert_eq!(fixture.held().await, 0);
    assert_eq!(fixture.reports(1).await, reports);
}
