//! The guarantees of the service, checked after all faults are healed and the world has settled.

use std::collections::{BTreeMap, BTreeSet};

use api_types::execution::ComputeState;
use api_types::history::NodeStateType;
use api_types::job::{JobStateType, JobType};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use scheduler::change::{EventSubject, ExecutionRow};
use scheduler::outcomes::SlotOutcome;

use super::docker::{KILLED, REFUSED};
use super::inspection;
use super::orchestrator::SKIPPED;
use super::schedule;
use super::workload::RequestState;
use super::world::World;

pub(super) fn check(world: &World) -> Result<(), String> {
    every_accepted_job_is_stored_once(world)?;
    every_job_has_one_outcome(world)?;
    histories_have_no_gap(world)?;
    histories_of_nodes_are_whole(world)?;
    times_of_a_history_never_go_back(world)?;
    no_slot_completed_twice(world)?;
    outcomes_are_those_of_executions(world)?;
    what_did_not_run_could_not(world)?;
    world.reruns_ran_what_they_name()?;
    nothing_started_twice(world)?;
    let disk = &world.orchestrator.disk;
    schedule::each_due_time_has_one_job(&disk.store, disk.was_set_back)?;
    unpublished_runs_are_not_repeated(world)?;
    an_outage_is_no_failure_of_a_task(world)
}

fn every_accepted_job_is_stored_once(world: &World) -> Result<(), String> {
    let store = &world.orchestrator.disk.store;
    let mut accepted = 0;
    for request in world.expected_ends.keys() {
        let RequestState::Answered { job } = world.requests[*request].state else { continue };
        let job = job.ok_or_else(|| format!("submission {request} was refused"))?;
        accepted += 1;
        if !store.jobs.contains_key(&job) {
            return Err(format!("job {job} was accepted and is not stored"));
        }
    }
    let submitted = store.jobs.len() - schedule::jobs(store);
    if submitted != accepted {
        return Err(format!("{accepted} jobs were accepted, {submitted} are stored"));
    }
    Ok(())
}

fn every_job_has_one_outcome(world: &World) -> Result<(), String> {
    let store = &world.orchestrator.disk.store;
    let mut outcomes: BTreeMap<JobId, JobStateType> = BTreeMap::new();
    for event in &store.events {
        let EventSubject::Job { job, new, .. } = event.subject else { continue };
        if let Some(outcome) = outcomes.get(&job) {
            return Err(format!("job {job} became {new} after {outcome}"));
        }
        if new.is_terminal() {
            outcomes.insert(job, new);
        }
    }
    for (id, row) in &store.jobs {
        let outcome = outcomes.get(id).copied();
        if outcome != Some(row.state) {
            return Err(format!("job {id} is {}, its history says {outcome:?}", row.state));
        }
    }
    Ok(())
}

/// A job that ends without a run because of others says so only if its conditions cannot hold.
fn what_did_not_run_could_not(world: &World) -> Result<(), String> {
    let disk = &world.orchestrator.disk;
    for (id, row) in &disk.store.jobs {
        let not_run = ["not run: ", "skipped: "].iter().any(|word| row.message.starts_with(word));
        let conditions = disk.specs[id].depends_on.iter();
        let mut broken = conditions.map(|named| (named, disk.store.jobs[&named.job_id].state));
        let is_broken = broken.any(|(named, state)| !inspection::holds(named.condition, state));
        let is_whole = disk.specs[id].depends_on.iter().all(|named| named.indexes.is_all());
        if not_run && (!is_broken || is_whole && !disk.store.executions_of(*id).is_empty()) {
            return Err(format!("job {id} says '{}', and could run", &*row.message));
        }
    }
    Ok(())
}

fn histories_have_no_gap(world: &World) -> Result<(), String> {
    let store = &world.orchestrator.disk.store;
    let mut executions: BTreeMap<ExecutionId, (u64, ComputeState)> = BTreeMap::new();
    let mut jobs: BTreeMap<JobId, u64> = BTreeMap::new();
    let (mut last_seq, mut skips) = (0, 0);
    for event in &store.events {
        let seq = event.seq;
        let skipped = seq.saturating_sub(last_seq + 1);
        skips += skipped / SKIPPED;
        if seq <= last_seq || skipped % SKIPPED > 0 || skips > world.orchestrator.disk.replica.skips
        {
            return Err(format!("event {seq} follows event {last_seq}"));
        }
        last_seq = seq;
        let revision = match event.subject {
            EventSubject::Node { .. } => continue,
            EventSubject::Job { job, .. } => jobs.entry(job).or_default(),
            EventSubject::Execution { id, previous, new, .. } => {
                let (revision, state) = executions.entry(id).or_insert((0, ComputeState::New));
                if previous != *state || new < previous {
                    return Err(format!(
                        "execution {id} was {state:?} and went from {previous:?} to {new:?}"
                    ));
                }
                *state = new;
                revision
            }
        };
        *revision += 1;
        if event.revision != *revision {
            return Err(format!("event {seq} has revision {}, not {revision}", event.revision));
        }
    }
    for (id, row) in &store.executions {
        let (revision, state) = executions.get(id).copied().unwrap_or((0, ComputeState::Undefined));
        if (row.revision, row.compute) != (revision, state) {
            return Err(format!("execution {id} differs from its history"));
        }
        if !row.compute.is_terminal() {
            return Err(format!("execution {id} never ended"));
        }
    }
    Ok(())
}

/// Their events are numbered from 1, each field begins as it ended in the event before, and the
/// last events say what the record says.
fn histories_of_nodes_are_whole(world: &World) -> Result<(), String> {
    let store = &world.orchestrator.disk.store;
    let mut nodes: BTreeMap<NodeId, (u64, NodeStateType)> = BTreeMap::new();
    for event in &store.events {
        let EventSubject::Node { node, previous, new } = event.subject else { continue };
        let (revision, connection) = nodes.entry(node).or_insert((0, NodeStateType::Unknown));
        *revision += 1;
        if event.revision != *revision {
            let found = event.revision;
            return Err(format!("an event of node {node} has revision {found}, not {revision}"));
        }
        match new {
            NodeStateType::Unknown => drop(nodes.remove(&node)),
            NodeStateType::Connected | NodeStateType::Disconnected => {
                if previous != *connection {
                    return Err(format!("node {node} was {connection} and is not {previous}"));
                }
                *connection = new;
            }
            _ => {}
        }
    }
    for (id, row) in &store.nodes {
        let said = (row.history.revision, row.history.standing.connection);
        if nodes.get(id) != Some(&said) || said.1.as_str() != row.connection.as_str() {
            return Err(format!("node {id} is {}, its history says {said:?}", row.connection));
        }
    }
    Ok(())
}

fn times_of_a_history_never_go_back(world: &World) -> Result<(), String> {
    let mut last: BTreeMap<(Option<JobId>, Option<NodeId>), Timestamp> = BTreeMap::new();
    for event in &world.orchestrator.disk.store.events {
        let node = match event.subject {
            // One that is forgotten and joins again begins anew.
            EventSubject::Node { node, .. } if event.revision > 1 => Some(node),
            EventSubject::Node { node, .. } => {
                last.remove(&(None, Some(node)));
                Some(node)
            }
            EventSubject::Job { .. } | EventSubject::Execution { .. } => None,
        };
        let of = (event.job(), node);
        let last = last.entry(of).or_insert(event.time);
        if event.time < *last {
            let seq = event.seq;
            return Err(format!("event {seq} of {of:?} is of {:?}, after {last:?}", event.time));
        }
        *last = event.time;
    }
    Ok(())
}

fn no_slot_completed_twice(world: &World) -> Result<(), String> {
    let store = &world.orchestrator.disk.store;
    let mut completed: BTreeMap<(JobId, u32), u32> = BTreeMap::new();
    for row in store.executions.values() {
        let finite = matches!(store.new_jobs[&row.job].job_type, JobType::Batch | JobType::Ops);
        if finite && row.compute == ComputeState::Completed {
            *completed.entry((row.job, row.index)).or_default() += 1;
        }
    }
    if let Some(((job, index), times)) = completed.iter().find(|(_, times)| **times > 1) {
        return Err(format!("slot {index} of job {job} completed {times} times"));
    }
    for (id, row) in store.jobs.iter().filter(|(_, row)| row.state == JobStateType::Completed) {
        let slots = completed.range((*id, 0)..=(*id, u32::MAX)).count();
        if u32::try_from(slots) != Ok(row.slots.len()) {
            return Err(format!("job {id} is completed with {slots} of {} slots", row.slots.len()));
        }
    }
    Ok(())
}

/// The stored outcomes are as many as the row counts. A slot that completed has an execution that
/// did, and one that failed has none. A job in which a slot failed is not completed.
fn outcomes_are_those_of_executions(world: &World) -> Result<(), String> {
    let store = &world.orchestrator.disk.store;
    for (id, row) in store.jobs.iter().filter(|(_, row)| row.slots.len() > 1) {
        let outcomes = store.outcomes_of(*id);
        let tally = outcomes.tally(&row.slots);
        if (tally.completed, tally.failed) != (row.completed, row.failed_slots) {
            return Err(format!("job {id} counts other outcomes than {tally:?}"));
        }
        if row.state == JobStateType::Completed && tally.failed > 0 {
            return Err(format!("job {id} is completed, and {} slots failed", tally.failed));
        }
        let completed: BTreeSet<u32> = store
            .executions_of(*id)
            .into_iter()
            .filter(|row| row.compute == ComputeState::Completed)
            .map(|row| row.index)
            .collect();
        for index in row.slots.iter() {
            let has_completed = completed.contains(&index);
            let agrees = match outcomes.get(index) {
                SlotOutcome::Completed => has_completed,
                SlotOutcome::Failed => !has_completed,
                SlotOutcome::Absent => false,
                SlotOutcome::ToDo => true,
            };
            if !agrees && store.new_jobs[id].job_type.is_finite() {
                let outcome = outcomes.get(index);
                return Err(format!("slot {index} of job {id} is {outcome:?}"));
            }
        }
    }
    Ok(())
}

fn nothing_started_twice(world: &World) -> Result<(), String> {
    for agent in &world.agents {
        for (id, times) in &agent.docker.starts {
            if *times > 1 {
                return Err(format!("execution {id} was started {times} times"));
            }
            let row = world.orchestrator.disk.store.executions.get(id);
            if row.is_none_or(|row| row.node != agent.id) {
                return Err(format!("execution {id} was started on a node it was not placed on"));
            }
        }
        // An execution can complete only if its process was started.
        for row in world.orchestrator.disk.store.executions.values() {
            let completed = row.node == agent.id && row.compute == ComputeState::Completed;
            if completed && !agent.docker.starts.contains_key(&row.id) {
                return Err(format!("execution {} completed and was never started", row.id));
            }
        }
    }
    Ok(())
}

/// A task that ran runs no more because its results cannot be published.
fn unpublished_runs_are_not_repeated(world: &World) -> Result<(), String> {
    let store = &world.orchestrator.disk.store;
    // A task that also failed says that first.
    let unpublished = format!("the results could not be published: {REFUSED}");
    let unpublished = store.executions.values().filter(|row| {
        store.new_jobs[&row.job].job_type.is_finite() && *row.compute_message == *unpublished
    });
    for row in unpublished {
        let is_later =
            |other: &&ExecutionRow| other.index == row.index && other.offered_at > row.offered_at;
        if let Some(later) = store.executions_of(row.job).into_iter().find(is_later) {
            let (id, job, later) = (row.id, row.job, later.id);
            return Err(format!("{later} repeats execution {id} of job {job}, which had run"));
        }
    }
    Ok(())
}

/// A task with one attempt does not fail because its machine restarted.
fn an_outage_is_no_failure_of_a_task(world: &World) -> Result<(), String> {
    let charged = format!("exit code {KILLED}");
    let store = &world.orchestrator.disk.store;
    match store.executions.values().find(|row| row.compute_message.starts_with(&charged)) {
        None => Ok(()),
        Some(row) => Err(format!(
            "execution {} of job {} ended with its machine, which counts as its own failure",
            row.id, row.job
        )),
    }
}
