//! What a start loads: every live record, as of the last commit.

use api_types::Timestamp;
use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::node::{Connection, Eligibility, Membership};
use scheduler::change::{Changes, EventSubject, ExecutionRow, LoadedPlan, SlotNode};
use scheduler::text::Text;
use scheduler::time::Moment;

use super::samples::{Put, Random, Sample, exclusions, node, plan, stamp};
use super::{Backend, load};
use crate::store::StoredJob;

pub(in crate::store) fn every_record_reads_back(backend: &impl Backend) {
    let mut random = Random(10);
    let mut sample = Sample::job(&mut random);
    sample.row.version = u64::MAX;
    sample.row.start_time = Some(Timestamp(17));
    (sample.row.running, sample.row.failed) = (3, 4);
    sample.row.fresh = u32::MAX;
    sample.row.slots = "3,7-9,4294967290".parse().unwrap();
    (sample.row.completed, sample.row.failed_slots) = (3, 2);
    sample.row.waiting_since = Some(Moment(6));
    let execution = sample.execution(&mut random, 0);
    let slot = sample.pending_slot(&mut random, 1);
    let mut bare = sample.pending_slot(&mut random, 2);
    (bare.pinned, bare.due, bare.previous) = (None, None, None);
    let node = node(&mut random);
    let mut event = sample.event(1);
    event.subject = EventSubject::Execution {
        job: sample.id(),
        id: execution.id,
        node: node.id,
        previous: ComputeState::New,
        new: ComputeState::AskForBid,
    };
    let mut changes = sample.changes();
    changes.executions.insert(execution.id, execution.clone());
    changes.pending_slots.insert((sample.id(), 1), Some(slot.clone()));
    changes.pending_slots.insert((sample.id(), 2), Some(bare.clone()));
    changes.nodes.insert(node.id, Some(node.clone()));
    changes.events.push(event.clone());

    let (mut store, _) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    drop(store);
    let (mut store, reads) = backend.open();
    let (jobs, live) = load(store.as_mut());
    let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert_eq!(job.row, sample.row);
    let LoadedPlan::Stored(stored) = &job.plan else { panic!("{:?}", job.plan) };
    assert_eq!(*stored, plan(&sample.id().to_string()));
    assert_eq!((job.job_type, job.priority), (JobType::Batch, 50));
    assert_eq!((job.create_time, job.created_at), (sample.new.create_time, sample.new.created_at));
    assert_eq!(live.executions, [execution]);
    assert_eq!(live.pending_slots, [slot, bare]);
    assert_eq!(live.nodes, [node]);
    assert_eq!(live.last_seq, 1);
    assert_eq!(store.last_commit().unwrap(), 1);
    assert!(store.has_job(sample.id()).unwrap());
    let stored = StoredJob {
        id: sample.id(),
        name: sample.new.name.clone(),
        namespace: sample.new.namespace.clone(),
        job_type: JobType::Batch,
        priority: 50,
        spec_json: sample.new.spec_json.clone(),
        state: sample.row.state,
        message: sample.row.message.to_string(),
        version: sample.row.version,
        revision: sample.row.revision,
        create_time: sample.new.create_time,
        modify_time: sample.row.modify_time,
        failed_slots: 2,
        waits: sample.row.waiting_since.is_some(),
    };
    assert_eq!(reads.job(sample.id()).unwrap(), Some(stored));
    assert_eq!(
        reads.specification(sample.id(), sample.row.version).unwrap(),
        Some(sample.new.spec_json.clone())
    );
    assert_eq!(reads.specification(sample.id(), 1).unwrap(), None);
}

pub(in crate::store) fn the_last_of_several_changes_wins(backend: &impl Backend) {
    let mut random = Random(11);
    let mut sample = Sample::job(&mut random);
    let mut execution = sample.execution(&mut random, 0);
    let mut node = node(&mut random);
    let mut slot = sample.pending_slot(&mut random, 1);
    let (mut store, reads) = backend.open();
    store.put(1, &sample.changes(), &[]).unwrap();
    for commit in 2..5 {
        sample.row.revision = commit;
        sample.row.state = JobStateType::ALL[usize::try_from(commit).unwrap() - 2];
        sample.row.message = Text::from(format!("commit {commit}"));
        sample.row.modify_time = Timestamp(i64::try_from(commit).unwrap());
        execution.revision = commit;
        execution.compute = ComputeState::BidAccepted;
        execution.node = random.node_id();
        execution.accepted_at = Some(Moment(commit));
        execution.started_at = Some(Moment(commit + 1));
        sample.row.last_event_time = sample.row.modify_time;
        sample.row.slots.extend();
        sample.row.waiting_since = Some(Moment(commit));
        execution.tries.exclusions = exclusions(&[execution.node]);
        execution.followup = None;
        node.session = commit;
        node.membership = Membership::Rejected;
        node.connection = Connection::Disconnected;
        node.eligibility = Eligibility::Eligible;
        node.drain_deadline = None;
        node.silent_since = None;
        slot.due = Some(Moment(commit));
        let mut changes = Changes::default();
        changes.jobs.insert(sample.id(), sample.row.clone());
        changes.executions.insert(execution.id, execution.clone());
        changes.nodes.insert(node.id, Some(node.clone()));
        changes.pending_slots.insert((sample.id(), 1), Some(slot.clone()));
        store.put(commit, &changes, &[]).unwrap();
    }
    let (jobs, live) = load(store.as_mut());
    assert_eq!(jobs.iter().map(|job| &job.row).collect::<Vec<_>>(), [&sample.row]);
    assert_eq!(live.executions, [execution.clone()]);
    assert_eq!(live.nodes, [node.clone()]);
    assert_eq!(live.pending_slots, [slot]);
    assert_eq!(reads.execution(execution.id).unwrap().unwrap().row, execution);
    assert_eq!(reads.job(sample.id()).unwrap().unwrap().message, "commit 4");

    let mut changes = Changes::default();
    changes.nodes.insert(node.id, None);
    changes.pending_slots.insert((sample.id(), 1), None);
    changes.pending_slots.insert((sample.id(), 77), None);
    store.put(5, &changes, &[]).unwrap();
    let live = load(store.as_mut()).1;
    assert_eq!((live.nodes, live.pending_slots), (vec![], vec![]));
}

pub(in crate::store) fn only_what_is_live_is_loaded(backend: &impl Backend) {
    let mut random = Random(12);
    let mut ended = Sample::job(&mut random);
    (ended.row.state, ended.row.live) = (JobStateType::Completed, false);
    let mut stopping = Sample::job(&mut random);
    (stopping.row.state, stopping.row.live) = (JobStateType::Stopped, true);
    let mut changes = Changes::default();
    ended.add_to(&mut changes);
    stopping.add_to(&mut changes);
    let mut expected = Vec::new();
    for (index, compute) in (0..).zip(ComputeState::ALL) {
        let mut execution = stopping.execution(&mut random, index);
        execution.compute = compute;
        if !compute.is_terminal() {
            expected.push(execution.id);
        }
        changes.executions.insert(execution.id, execution);
    }
    let mut last = ended.execution(&mut random, 0);
    last.compute = ComputeState::Completed;
    changes.executions.insert(last.id, last);

    let (mut store, _) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    let (jobs, live) = load(store.as_mut());
    assert_eq!(jobs.iter().map(|job| job.row.id).collect::<Vec<_>>(), [stopping.id()]);
    let mut loaded: Vec<_> = live.executions.iter().map(|execution| execution.id).collect();
    loaded.sort_unstable();
    expected.sort_unstable();
    assert_eq!(loaded, expected);

    // The live job ends.
    let mut changes = Changes::default();
    for mut execution in live.executions {
        execution.compute = ComputeState::Cancelled;
        changes.executions.insert(execution.id, execution);
    }
    stopping.row.live = false;
    changes.jobs.insert(stopping.id(), stopping.row.clone());
    store.put(2, &changes, &[]).unwrap();
    let (jobs, live) = load(store.as_mut());
    assert_eq!((jobs.len(), live.executions), (0, vec![]));
}

pub(in crate::store) fn slots_of_ops_and_daemon_jobs_keep_their_nodes(backend: &impl Backend) {
    let mut random = Random(13);
    let mut changes = Changes::default();
    let mut expected = Vec::new();
    for job_type in [JobType::Batch, JobType::Ops, JobType::Service, JobType::Daemon] {
        let sample = Sample::of_type(&mut random, job_type, 3);
        sample.add_to(&mut changes);
        let mut ended = sample.execution(&mut random, 0);
        ended.compute = ComputeState::Failed;
        let running = sample.execution(&mut random, 1);
        let waiting = sample.pending_slot(&mut random, 2);
        if !matches!(job_type, JobType::Batch | JobType::Service) {
            let job = sample.id();
            let at = |row: &ExecutionRow| Some(row.offered_at);
            let (first, second) = ((ended.node, at(&ended)), (running.node, at(&running)));
            let nodes = [first, second, (waiting.pinned.unwrap(), None)];
            let slots = (0..).zip(nodes);
            expected.extend(slots.map(|(index, (node, at))| SlotNode { job, index, node, at }));
        }
        changes.executions.insert(ended.id, ended);
        changes.executions.insert(running.id, running);
        changes.pending_slots.insert((sample.id(), 2), Some(waiting));
    }
    let mut over = Sample::of_type(&mut random, JobType::Ops, 1);
    (over.row.state, over.row.live) = (JobStateType::Completed, false);
    over.add_to(&mut changes);
    let mut execution = over.execution(&mut random, 0);
    execution.compute = ComputeState::Completed;
    changes.executions.insert(execution.id, execution);

    let (mut store, _) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    let mut covered = load(store.as_mut()).1.covered;
    covered.sort_unstable();
    expected.sort_unstable();
    assert_eq!(covered, expected);
}

pub(in crate::store) fn the_last_sequence_is_kept(backend: &impl Backend) {
    let sample = Sample::job(&mut Random(14));
    let (mut store, _) = backend.open();
    assert_eq!(load(store.as_mut()).1.last_seq, 0);
    let mut changes = sample.changes();
    changes.events.extend([sample.event(1), sample.event(2)]);
    store.put(1, &changes, &[]).unwrap();
    store.put(2, &Changes::default(), &[]).unwrap();
    drop(store);
    let (mut store, _) = backend.open();
    assert_eq!(load(store.as_mut()).1.last_seq, 2);
}

pub(in crate::store) fn the_stamp_of_the_last_commit_is_kept(backend: &impl Backend) {
    let (mut store, _) = backend.open();
    assert_eq!(store.progress().unwrap().stamp, None);
    for number in [1, 2, 2, 1] {
        store.put(number, &Changes::default(), &[]).unwrap();
    }
    drop(store);
    let (mut store, _) = backend.open();
    assert_eq!(store.progress().unwrap().stamp, Some(stamp(2)));
}
