//! Graphs: jobs that are recorded together and begin with the next ticks.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use api_types::JobId;
use api_types::job::JobStateType;

use crate::change::NewGraphRow;
use crate::input::{Answer, SubmitGraph};
use crate::rules::submission::{self, Begins};
use crate::rules::{group, job_end, quota, rerun};
use crate::state::State;
use crate::turn::Turn;

// === Graphs ===

/// Records all jobs, or none if one of them depends on a job, or names a group, that is gone.
pub(crate) fn submit(state: &mut State, turn: &mut Turn<'_>, graph: SubmitGraph) -> Answer {
    let SubmitGraph { id, name, namespace, jobs } = graph;
    let all = jobs.iter().map(|(_, submit)| submit);
    if let Some(refusal) = quota::refuses(state, &namespace, all) {
        return Answer::Refused(refusal);
    }
    let members: BTreeSet<JobId> = jobs.iter().map(|(_, submit)| submit.id).collect();
    let (mut checked, mut ranges) = (Vec::with_capacity(jobs.len()), 0);
    for (_, submit) in &jobs {
        if let Some(refusal) = group::refuses(state, &submit.spec) {
            return Answer::Refused(refusal);
        }
        if let Some(again) = &submit.rerun {
            let plan = submission::plan_of(&submit.spec);
            if let Err(refusal) = rerun::check_among(state, &plan, again, &mut ranges) {
                return Answer::Refused(refusal);
            }
        }
        match submission::named_jobs(state, turn, &submit.spec, &submit.named, &members) {
            Ok(named) => checked.push(named),
            Err(refusal) => return Answer::Refused(refusal),
        }
    }
    let named = jobs.iter().map(|(name, submit)| (name.clone(), submit.id)).collect();
    let row = NewGraphRow { id, name, namespace, create_time: turn.wall, jobs: named };
    turn.out.changes.new_graphs.push(row);
    for ((_, submit), named) in jobs.into_iter().zip(checked) {
        // The slots of an ops job that runs again belong to nodes, which are told now.
        let is_bound = submit.rerun.as_ref().is_some_and(|rerun| !rerun.nodes.is_empty());
        let begins = if is_bound { Begins::Now } else { Begins::Later };
        submission::record(state, turn, submit, named, begins);
    }
    Answer::Done
}

/// Stops those of the jobs that go on, all in one turn: what depends on them finds them all stopped.
pub(crate) fn stop(
    state: &mut State,
    turn: &mut Turn<'_>,
    jobs: Vec<JobId>,
    reason: &str,
) -> Answer {
    let message = job_end::stop_message(reason);
    let mut stopped = 0;
    for id in jobs {
        if state.jobs.get(&id).is_some_and(|job| !job.is_terminal()) {
            stopped += 1;
            job_end::end_job(state, turn, id, JobStateType::Stopped, message.clone());
        }
    }
    Answer::StoppedJobs(stopped)
}
