//! Outcomes of slots: what a start loads, what readers see, and what goes with a job.

use api_types::job::{JobStateType, JobType};
use scheduler::change::{Changes, JobOutcomes};
use scheduler::outcomes::{Outcomes, SlotOutcome, Tally};
use scheduler::slots::Slots;
use scheduler::time::Moment;

use super::samples::{Put, Random, Sample};
use super::{Backend, load};
use crate::store::{Retention, StoredOutcomes};

/// Records the ends of these slots, and returns the changes that store them.
fn end(sample: &mut Sample, outcomes: &mut Outcomes, slots: &[u32], to: SlotOutcome) -> Changes {
    let mut changes = Changes::default();
    for index in slots {
        let (number, chunk) = outcomes.record(&sample.row.slots, *index, to);
        changes.outcomes.insert((sample.new.id, number), chunk.clone());
    }
    let tally = outcomes.tally(&sample.row.slots);
    (sample.row.completed, sample.row.failed_slots) = (tally.completed, tally.failed);
    changes.jobs.insert(sample.new.id, sample.row.clone());
    changes
}

pub(in crate::store) fn outcomes_of_slots_read_back_chunk_by_chunk(backend: &impl Backend) {
    let mut random = Random(33);
    let mut sample = Sample::of_type(&mut random, JobType::Batch, 10_000);
    let other = Sample::of_type(&mut random, JobType::Batch, 2);
    let mut changes = sample.changes();
    other.add_to(&mut changes);
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    assert_eq!(load(store.as_mut()).1.outcomes, [], "no slot has ended");

    let mut outcomes = Outcomes::default();
    let changes = end(&mut sample, &mut outcomes, &[0, 1, 9999], SlotOutcome::Completed);
    store.put(2, &changes, &[]).unwrap();
    let mut changes = end(&mut sample, &mut outcomes, &[2, 5000], SlotOutcome::Failed);
    changes.first_failures.push((sample.id(), "[2] on node-a: exit code 1".into()));
    store.put(3, &changes, &[]).unwrap();
    drop((store, reads));

    let (mut store, reads) = backend.open();
    let first_failure = Some("[2] on node-a: exit code 1".into());
    let expected = JobOutcomes { job: sample.id(), outcomes: outcomes.clone(), first_failure };
    assert_eq!(load(store.as_mut()).1.outcomes, [expected]);
    let stored = reads.outcomes(sample.id()).unwrap().unwrap();
    assert_eq!(
        stored.outcomes.tally(&stored.slots),
        Tally { total: 10_000, completed: 3, failed: 2 }
    );
    assert_eq!(
        stored,
        StoredOutcomes {
            state: JobStateType::Pending,
            slots: sample.row.slots.clone(),
            running: 0,
            completed: 3,
            failed: 2,
            outcomes,
        }
    );
    assert_eq!(reads.outcomes(other.id()).unwrap().unwrap().outcomes, Outcomes::default());
    assert_eq!(reads.outcomes(random.job_id()).unwrap(), None);

    // Those of a job that is over are kept until the job is removed.
    (sample.row.state, sample.row.live) = (JobStateType::Failed, false);
    sample.row.ended_at = Some(Moment(7));
    let mut changes = Changes::default();
    changes.jobs.insert(sample.id(), sample.row.clone());
    store.put(4, &changes, &[]).unwrap();
    assert_eq!(load(store.as_mut()).1.outcomes, []);
    assert_eq!(reads.outcomes(sample.id()).unwrap().unwrap().outcomes, stored.outcomes);
    let none = Retention { age: None, count: Some(0) };
    while store.prune(Moment(100), &none, 1).unwrap().more {}
    assert_eq!(reads.outcomes(sample.id()).unwrap(), None);
}

pub(in crate::store) fn scattered_indexes_and_unplaced_slots_read_back(backend: &impl Backend) {
    let mut random = Random(35);
    let mut sample = Sample::of_type(&mut random, JobType::Ops, 1);
    let odd: Slots = (0..9000).filter(|index| index % 2 == 1).collect();
    sample.row.slots = odd.clone();
    let mut changes = sample.changes();
    for (number, chunk) in Outcomes::to_do(&odd).chunks() {
        changes.outcomes.insert((sample.id(), number), chunk.clone());
    }
    let (node, last) = (random.node_id(), odd.end() - 1);
    changes.unplaced.push((sample.id(), last, node));
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    drop((store, reads));

    let (mut store, reads) = backend.open();
    let (jobs, live) = load(store.as_mut());
    assert_eq!((&jobs[0].row.slots, live.outcomes), (&odd, vec![]));
    let stored = reads.outcomes(sample.id()).unwrap().unwrap();
    assert_eq!((&stored.slots, stored.outcomes.slots()), (&odd, odd.clone()));
    assert_eq!(reads.slot_nodes(sample.id()).unwrap(), [(last, node)]);

    (sample.row.state, sample.row.live) = (JobStateType::Stopped, false);
    sample.row.ended_at = Some(Moment(7));
    let mut changes = Changes::default();
    changes.jobs.insert(sample.id(), sample.row.clone());
    store.put(2, &changes, &[]).unwrap();
    let none = Retention { age: None, count: Some(0) };
    while store.prune(Moment(100), &none, 1).unwrap().more {}
    assert_eq!(reads.outcomes(sample.id()).unwrap(), None);
    assert_eq!(reads.slot_nodes(sample.id()).unwrap(), []);
}

pub(in crate::store) fn a_job_of_one_slot_stores_no_outcomes(backend: &impl Backend) {
    let mut random = Random(34);
    let mut sample = Sample::job(&mut random);
    (sample.row.state, sample.row.failed_slots) = (JobStateType::Failed, 1);
    let (mut store, reads) = backend.open();
    store.put(1, &sample.changes(), &[]).unwrap();
    assert_eq!(load(store.as_mut()).1.outcomes, []);
    let stored = reads.outcomes(sample.id()).unwrap().unwrap();
    assert_eq!(stored.outcomes.failed_text(100), "0");
}
