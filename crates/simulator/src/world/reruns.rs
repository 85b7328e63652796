//! After the faults: jobs that ended run again, as far as they did not complete, while the orchestrator
//! crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobType};
use api_types::rerun::{EXECUTION_COUNT, Only};
use control_plane::store::memory::{MemoryStore, spec_json};
use scheduler::change::EventSubject;
use scheduler::input::Submit;
use scheduler::rerun::{Rerun, select};

use super::World;
use crate::network::RequestBody;
use crate::summary::Sabotage;
use crate::workload::{Again, ExpectedEnd};

/// Jobs of a run that run again.
const MOST: usize = 3;

impl World {
    /// Runs again what did not complete of the first jobs.
    pub(super) fn rerun_some(&mut self) -> Result<(), String> {
        let store = &self.orchestrator.disk.store;
        let ended: Vec<JobId> = store
            .jobs
            .values()
            .filter(|row| !row.live && row.slots.len() > row.completed)
            .filter(|row| self.ends_by_itself(row.id) && nodes_are_known(store, row.id))
            .map(|row| row.id)
            .take(MOST)
            .collect();
        for of in ended {
            self.rerun_what_did_not_complete(of)?;
        }
        if !self.reruns.is_empty() {
            self.summary.reruns += 1;
            self.run_for(Duration::from_millis(700));
            self.crash_orchestrator_briefly();
        }
        Ok(())
    }

    fn ends_by_itself(&self, job: JobId) -> bool {
        let mut requests = self.expected_ends.iter();
        requests
            .any(|(request, end)| *end == ExpectedEnd::Ends && self.job_of(*request) == Some(job))
    }

    fn rerun_what_did_not_complete(&mut self, of: JobId) -> Result<(), String> {
        let store = &self.orchestrator.disk.store;
        let (row, job_type) = (&store.jobs[&of], store.new_jobs[&of].job_type);
        let completed = completed_before_the_end(store, of);
        let expected = row.slots.iter().filter(|index| !completed.contains(index)).collect();
        let mut only = Only::NotCompleted;
        if self.sabotage == Some(Sabotage::CompleteCancelled) {
            only = Only::Failed;
        }
        let outcomes = match row.slots.len() {
            1 => scheduler::outcomes::Outcomes::of_one(&row.slots, row.completed, row.failed_slots),
            _ => store.outcomes_of(of),
        };
        let slots = select(&row.slots, &outcomes, only, None);
        let nodes = match job_type {
            JobType::Ops => store.slot_nodes(of),
            JobType::Batch | JobType::Service | JobType::Daemon => BTreeMap::new(),
        };
        let nodes = nodes.into_iter().filter(|(index, _)| slots.contains(*index)).collect();
        let mut spec: JobSpec = serde_json::from_str(&store.new_jobs[&of].spec_json)
            .map_err(|error| format!("the specification of job {of}: {error}"))?;
        spec.meta.insert(EXECUTION_COUNT.to_owned(), row.slots.len().to_string());
        // As the service does: what the first job waited for is decided.
        spec.depends_on.clear();
        let request = (!slots.is_empty()).then_some(self.requests.len());
        self.reruns.push(Again { request, of, expected });
        if let Some(request) = request {
            let id = JobId::from_uuid(self.uuid());
            let rerun = Some(Arc::new(Rerun::new(slots, nodes)));
            let submit = Submit {
                id,
                spec_json: spec_json(&spec),
                spec: spec.into(),
                named: Vec::new(),
                rerun,
            };
            let body = RequestBody::Submit { key: request.to_string(), submit: Box::new(submit) };
            self.expected_ends.insert(request, ExpectedEnd::Ends);
            self.add_request(body, Duration::ZERO);
        }
        Ok(())
    }

    /// A rerun has exactly the slots that did not complete. None but these ran, and all of them if it
    /// completed.
    pub(crate) fn reruns_ran_what_they_name(&self) -> Result<(), String> {
        let store = &self.orchestrator.disk.store;
        for Again { request, of, expected } in &self.reruns {
            let Some(job) = request.and_then(|request| self.job_of(request)) else {
                return Err(format!("nothing of job {of} ran again, instead of {expected:?}"));
            };
            let row = &store.jobs[&job];
            let slots: BTreeSet<u32> = row.slots.iter().collect();
            if slots != *expected {
                return Err(format!("job {job} runs {slots:?} of {of}, not {expected:?}"));
            }
            let ran: BTreeSet<u32> =
                store.executions_of(job).into_iter().map(|row| row.index).collect();
            let is_complete = row.completed == row.slots.len();
            if !ran.is_subset(expected) || is_complete && ran != *expected {
                return Err(format!("job {job} ran {ran:?} of {of}, not {expected:?}"));
            }
        }
        Ok(())
    }
}

/// Whether each node of an ops job can be offered work some day.
fn nodes_are_known(store: &MemoryStore, job: JobId) -> bool {
    let is_ops = store.new_jobs[&job].job_type == JobType::Ops;
    let nodes = store.slot_nodes(job);
    let is_known = |node| store.nodes.get(node).is_some_and(|row| !row.is_forgotten);
    match is_ops {
        true => {
            let has_node = |index: u32| nodes.get(&index).is_some_and(is_known);
            store.jobs[&job].slots.iter().all(has_node)
        }
        false => store.new_jobs[&job].job_type == JobType::Batch,
    }
}

/// As the history says.
fn completed_before_the_end(store: &MemoryStore, of: JobId) -> BTreeSet<u32> {
    let mut completed = BTreeSet::new();
    for event in &store.events {
        match event.subject {
            EventSubject::Job { job, new, .. } if job == of && new.is_terminal() => break,
            EventSubject::Execution { job, id, new: ComputeState::Completed, .. } if job == of => {
                completed.insert(store.executions[&id].index);
            }
            EventSubject::Job { .. }
            | EventSubject::Execution { .. }
            | EventSubject::Node { .. } => {}
        }
    }
    completed
}
