//! Dependencies: what a start loads of them, and that retention keeps what live jobs depend on.

use api_types::dependency::{Condition, Dependency};
use api_types::job::JobStateType;
use scheduler::change::{Changes, NamedJob};
use scheduler::time::Moment;

use super::samples::{Put, Random, Sample};
use super::{Backend, load};
use crate::store::{Removed, Retention};

const EVERYTHING: Retention = Retention { age: None, count: Some(0) };

pub(in crate::store) fn what_live_jobs_depend_on_is_kept_and_loaded(backend: &impl Backend) {
    let mut random = Random(41);
    let [mut first, mut second, mut waits] = [(); 3].map(|()| Sample::job(&mut random));
    let (mut store, _) = backend.open();
    let mut changes = first.changes();
    second.add_to(&mut changes);
    store.put(1, &changes, &[]).unwrap();
    end(&mut first);
    let named = |job: &Sample, condition| Dependency {
        job_id: job.id(),
        job: "other".to_owned(),
        condition,
    };
    waits.new.depends_on =
        vec![named(&first, Condition::Completed), named(&second, Condition::Ended)];
    // One ends in the commit that stores what depends on it, the other later.
    let mut changes = waits.changes();
    changes.jobs.insert(first.id(), first.row.clone());
    store.put(2, &changes, &[]).unwrap();
    let over = |job: &Sample| NamedJob {
        id: job.id(),
        state: JobStateType::Completed,
        ended_at: Some(Moment(7)),
    };
    assert_eq!(load(store.as_mut()).1.named, [over(&first)]);
    assert_eq!(store.named(&[first.id(), random.job_id()]).unwrap(), [over(&first)]);
    end(&mut second);
    let mut changes = Changes::default();
    changes.jobs.insert(second.id(), second.row.clone());
    store.put(3, &changes, &[]).unwrap();
    let nothing = Removed { count: 0, more: false };
    assert_eq!(store.prune(Moment(100), &EVERYTHING, 1000).unwrap(), nothing);
    drop(store);

    let (mut store, _) = backend.open();
    assert_eq!(load(store.as_mut()).1.named.len(), 2);
    end(&mut waits);
    let mut changes = Changes { released: vec![waits.id()], ..Changes::default() };
    changes.jobs.insert(waits.id(), waits.row.clone());
    let last = store.last_commit().unwrap();
    store.put(last + 1, &changes, &[]).unwrap();
    assert_eq!(load(store.as_mut()).1.named, []);
    let all = Removed { count: 3, more: false };
    assert_eq!(store.prune(Moment(100), &EVERYTHING, 1000).unwrap(), all);
}

fn end(job: &mut Sample) {
    (job.row.state, job.row.live) = (JobStateType::Completed, false);
    job.row.ended_at = Some(Moment(7));
}
