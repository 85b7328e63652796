//! After the faults: Docker on one node fails everything at once, or can pull nothing, while the
//! other nodes work.

use std::time::Duration;

use api_types::job::JobStateType;

use super::World;
use crate::docker::NO_REGISTRY;
use crate::workload::{self, ExpectedEnd};

/// A backlog that such a node could eat, with one execution each.
const JOBS: usize = 40;

/// Seconds that a job runs.
const RUN: u64 = 2;

/// Failures in a row after which a node takes no work for a while, unless they are of one job.
const FAILURES: usize = 3;

/// The first time without work; each probe that fails doubles it.
const FIRST_BACK_OFF: Duration = Duration::from_secs(10);

/// For how long a slot avoids a node after its first failure there; each further one doubles it.
const FIRST_EXCLUSION: Duration = Duration::from_secs(30);

impl World {
    /// No job fails by the broken node, which gets hardly more than a probe at a time.
    pub(super) fn broken_node(&mut self) -> Result<(), String> {
        let Some(broken) = self.one_of_several() else { return Ok(()) };
        self.summary.broken_nodes += 1;
        let begin = self.now;
        self.agents[broken].docker.is_broken = true;
        let requests: Vec<_> = (0..JOBS).map(|_| self.submit_once()).collect();
        self.settle()?;
        self.agents[broken].docker.is_broken = false;
        let (store, node) = (&self.orchestrator.disk.store, self.agents[broken].id);
        let mut eaten = 0;
        for request in requests {
            let job = self.job_of(request).ok_or("a job of the end was not submitted")?;
            if store.state(job) != Some(JobStateType::Completed) {
                let history = self.history_of(request);
                return Err(format!("the broken node {node} failed job {job}: {history:?}"));
            }
            // An offer that the node never accepted is no failure of its Docker: a paused agent is
            // silent when its node breaks.
            let rows = store.executions_of(job);
            let accepted = rows.iter().filter(|row| row.accepted_at.is_some());
            eaten += accepted.filter(|row| row.node == node).count();
        }
        let most = self.most_eaten(broken, self.now.since(begin));
        match eaten {
            eaten if eaten > most => Err(format!(
                "the broken node {node} ate {eaten} executions in {:?}, more than {most}",
                self.now.since(begin)
            )),
            _ => Ok(()),
        }
    }

    /// No job fails because one node can pull nothing, nor tries it again and again.
    pub(super) fn lost_registry(&mut self) -> Result<(), String> {
        let Some(agent) = self.one_of_several() else { return Ok(()) };
        self.summary.lost_registries += 1;
        let begin = self.now;
        self.agents[agent].docker.has_no_registry = true;
        self.agents[agent].trouble.fails();
        let requests: Vec<_> = (0..JOBS).map(|_| self.submit_once()).collect();
        self.settle()?;
        self.agents[agent].docker.has_no_registry = false;
        let (store, node) = (&self.orchestrator.disk.store, self.agents[agent].id);
        for request in requests {
            let job = self.job_of(request).ok_or("a job of the end was not submitted")?;
            if store.state(job) != Some(JobStateType::Completed) {
                let history = self.history_of(request);
                return Err(format!("node {node} without images failed job {job}: {history:?}"));
            }
            let rows = store.executions_of(job);
            let tries = rows.iter().filter(|row| &*row.compute_message == NO_REGISTRY).count();
            let most = most_tried(self.now.since(begin));
            if tries > most {
                return Err(format!("job {job} tried node {node} {tries} times, not {most}"));
            }
        }
        Ok(())
    }

    /// One of the nodes that stay, if another stays with it.
    fn one_of_several(&mut self) -> Option<usize> {
        let staying: Vec<_> =
            (0..self.agents.len()).filter(|agent| !self.agents[*agent].gone).collect();
        (staying.len() > 1).then(|| self.random.one_of(&staying))
    }

    /// Submits a job that must not fail once, with a whole CPU.
    fn submit_once(&mut self) -> usize {
        let mut spec = workload::plain(&mut self.random, "1", 50);
        spec.name = workload::sleep(RUN);
        spec.retry_policy.attempts = 1;
        self.submit(spec, ExpectedEnd::Ends, Duration::ZERO)
    }

    /// What a node can fail in this time: what it has room for when it breaks, what replaces the
    /// first failures, and the probes.
    fn most_eaten(&self, agent: usize, time: Duration) -> usize {
        let cpus = self.agents[agent].record.compute_node_info.max_capacity.cpu;
        let room = (1..).find(|cpu| f64::from(*cpu) >= cpus).expect("a few CPUs");
        let room = usize::try_from(room).expect("a few CPUs");
        let (mut probes, mut back_off, mut next) = (0, FIRST_BACK_OFF, FIRST_BACK_OFF);
        while next <= time {
            (probes, back_off) = (probes + 1, back_off * 2);
            next += back_off;
        }
        room + FAILURES - 1 + probes
    }
}

/// How often a slot can try a node on which it fails at once, which it then avoids for ever longer.
fn most_tried(time: Duration) -> usize {
    let (mut tries, mut avoided, mut next) = (1, FIRST_EXCLUSION, FIRST_EXCLUSION);
    while next <= time {
        (tries, avoided) = (tries + 1, avoided * 2);
        next += avoided;
    }
    tries
}
