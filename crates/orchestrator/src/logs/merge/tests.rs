//! The executions of a wide job are found a few at a time.

use std::collections::BTreeMap;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::{EvaluationId, Timestamp};
use control_plane::clock::{Reading, ServiceClock};
use control_plane::store::sqlite::{self, SqliteStore};
use control_plane::store::{Commit, CommitId, Store, Write};
use scheduler::change::{Changes, EventRow, EventSubject, JobRow, NewJobRow};
use scheduler::slots::Slots;
use scheduler::text::Text;
use scheduler::time::Moment;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::search::EVENTS_AT_ONCE;
use super::*;
use crate::reads::Reader;
use crate::shares::Refusals;
use crate::view::View;

const JOB: JobId = JobId::from_uuid(Uuid::from_u128(1));

const EVENTS_OF_EACH: u64 = 3;

struct Stored {
    store: SqliteStore,
    service: Arc<LogService>,
    commits: u64,
    _directory: TempDir,
}

impl Stored {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (store, reads) = sqlite::open(directory.path()).unwrap();
        let view = Arc::new(View::default());
        let refusals = Refusals::default();
        let reader = Reader::new(reads, &refusals);
        let service = LogService::new(reader, view, &refusals, CancellationToken::new());
        Self { store, service: Arc::new(service), commits: 0, _directory: directory }
    }

    fn commit(&mut self, changes: &Changes) {
        let term = self.store.take().unwrap().term;
        self.commits += 1;
        let reading = Reading::now();
        let stamp = ServiceClock::resume(None, &reading).stamp(&reading);
        let id = CommitId { term, number: self.commits };
        let write = Write::Batch { changes, keys: &[], records: &[], audit: &[], loads: &[] };
        self.store.commit(&Commit { id, stamp, write }).unwrap();
        self.service.view.feed().announce(changes);
    }

    fn merge(&self, tail: u64) -> Merge {
        let options = LogOptions { follow: true, tail: Some(tail), ..LogOptions::default() };
        Merge::new(&self.service, Which::Together(JOB), options, Resumed::new())
    }
}

fn execution(number: u64) -> ExecutionId {
    ExecutionId::from_uuid(Uuid::from_u128(number.into()))
}

/// Several events of each of these executions.
fn events(numbers: std::ops::Range<u64>) -> Vec<EventRow> {
    let event = |number, revision| EventRow {
        seq: number * EVENTS_OF_EACH + revision,
        time: Timestamp(1),
        revision,
        comment: Text::Constant(""),
        subject: EventSubject::Execution {
            job: JOB,
            id: execution(number),
            node: NodeId::from_uuid(Uuid::nil()),
            previous: ComputeState::AskForBid,
            new: ComputeState::AskForBid,
        },
    };
    numbers.flat_map(|number| (1..=EVENTS_OF_EACH).map(move |it| event(number, it))).collect()
}

fn job(state: JobStateType) -> JobRow {
    JobRow {
        id: JOB,
        state,
        message: Text::Constant(""),
        version: 1,
        revision: 1,
        modify_time: Timestamp(1),
        last_event_time: Timestamp(1),
        waiting_since: None,
        ended_at: None,
        start_time: None,
        running: 0,
        failed: 0,
        slots: Slots::below(1),
        fresh: 0,
        completed: 0,
        failed_slots: 0,
        evaluation: EvaluationId::from_uuid(Uuid::nil()),
        live: !state.is_terminal(),
    }
}

/// A job with this many executions.
fn wide(executions: u64) -> Changes {
    let new = NewJobRow {
        id: JOB,
        namespace: "default".to_owned(),
        name: "wide".to_owned(),
        job_type: JobType::Batch,
        priority: 50,
        labels: BTreeMap::new(),
        create_time: Timestamp(1),
        created_at: Moment(1),
        spec_json: "{}".into(),
        depends_on: Vec::new(),
        plan: "{}".into(),
    };
    let jobs = BTreeMap::from([(JOB, job(JobStateType::Running))]);
    Changes { new_jobs: vec![new], jobs, events: events(0..executions), ..Changes::default() }
}

#[tokio::test]
async fn a_wide_job_is_listed_in_bounded_reads_and_in_order() {
    let executions = 5 * u64::from(EVENTS_AT_ONCE) / EVENTS_OF_EACH;
    let mut stored = Stored::new();
    stored.commit(&wide(executions));
    let mut merge = stored.merge(9);
    let mut found = Vec::new();
    while !matches!(merge.search, Search::Of { due: Due::AfterCommit(_), .. }) {
        merge.scan().await.unwrap();
        assert!(merge.waiting.len() <= EVENTS_AT_ONCE as usize, "{}", merge.waiting.len());
        found.extend(merge.waiting.drain(..));
    }
    assert!(found.iter().all(|waiting| waiting.options.tail == Some(9)));
    let found: Vec<_> = found.into_iter().map(|waiting| waiting.id).collect();
    let expected: Vec<_> = (0..executions).map(execution).collect();
    assert_eq!(found, expected);

    // Only what follows is examined again; who joins in is complete.
    let last = executions * EVENTS_OF_EACH;
    assert!(matches!(merge.search, Search::Of { after, .. } if after == last));
    let mut ended = job(JobStateType::Completed);
    ended.revision = 2;
    let jobs = BTreeMap::from([(JOB, ended)]);
    let changes =
        Changes { jobs, events: events(executions..executions + 1), ..Changes::default() };
    stored.commit(&changes);
    merge.scan().await.unwrap();
    let Waiting { id, options, .. } = merge.waiting.pop_front().unwrap();
    assert_eq!((id, options.tail), (execution(executions), None));
    assert!(merge.waiting.is_empty() && matches!(merge.search, Search::Over));
}

#[tokio::test]
async fn no_further_executions_are_looked_up_while_some_wait() {
    let executions = 5 * u64::from(EVENTS_AT_ONCE) / EVENTS_OF_EACH;
    let mut stored = Stored::new();
    stored.commit(&wide(executions));
    let mut merge = stored.merge(9);
    let Some(Event::Item(label, Item::Remark(_))) = merge.next().await else { panic!("no remark") };
    assert_eq!(label.id, execution(MAX_AT_ONCE as u64), "the first that waits");
    // None of them has a record, so each ends immediately.
    for _ in 0..executions {
        while let Some(Event::Item(..)) = merge.next().await {}
        assert!(merge.waiting.len() <= EVENTS_AT_ONCE as usize, "{}", merge.waiting.len());
    }
}
