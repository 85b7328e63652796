//! After the faults: Docker on one node fails everything immediately, or can pull nothing, while
//! the other nodes work.

use std::time::Duration;

use api_types::NodeId;
use api_types::job::JobStateType;
use scheduler::health::Health;

use super::World;
use super::epilogue::SOON;
use crate::docker::NO_REGISTRY;
use crate::network::RequestBody;
use crate::workload::{self, ExpectedEnd};

/// A backlog that such a node could eat, with one execution each.
pub(super) const JOBS: usize = 40;

/// Seconds that a job runs.
pub(super) const RUN: u64 = 2;

/// Seconds that one runs which is to be a probe: some requests are answered in the meantime.
const PROBE: u64 = 8;

/// What nodes of one CPU each may take to work off some hundred of these.
const BACKLOG: Duration = Duration::from_mins(10);

/// Failures in a row after which a node takes no work for a while.
const FAILURES: usize = 3;

/// The first time without work; each probe that fails doubles it.
const FIRST_BACK_OFF: Duration = Duration::from_secs(10);

pub(super) const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);

/// After this time an agent has not answered.
const NO_ANSWER: Duration = Duration::from_mins(2);

/// For how long a slot avoids a node after its first failure there; each further one doubles it.
const FIRST_EXCLUSION: Duration = Duration::from_secs(30);

impl World {
    /// No job fails by the broken node, which gets hardly more than a probe at a time.
    pub(super) fn broken_node(&mut self) -> Result<(), String> {
        let Some(broken) = self.one_of_several() else { return Ok(()) };
        self.summary.broken_nodes += 1;
        let begin = self.now;
        self.agents[broken].docker.is_broken = true;
        let requests: Vec<_> = (0..JOBS).map(|_| self.submit_once(RUN)).collect();
        self.settle()?;
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
        let time = self.now.since(begin);
        let most = self.most_eaten(broken, time);
        if eaten > most {
            let what = format!("ate {eaten} executions in {time:?}, more than {most}");
            return Err(format!("the broken node {node} {what}"));
        }
        self.mended_node(broken)
    }

    /// A daemon that comes while the node is being probed runs there once that has succeeded.
    fn mended_node(&mut self, agent: usize) -> Result<(), String> {
        let node = self.agents[agent].id;
        let health = |world: &Self| world.row_of(node).map(|row| row.health.clone());
        self.agents[agent].docker.is_broken = false;
        if health(self).is_some_and(|health| health.is_well()) {
            return Ok(());
        }
        if self.agents[agent].record.probes {
            return self.recovers(agent);
        }
        self.wait_for(LONGEST_BACK_OFF + SOON, "the end of the back-off", |world| {
            matches!(health(world), Some(Health::Probing { .. })).then_some(())
        })?;
        // Once every other node is full, one of them is the probe.
        let end = self.now + SOON;
        while !self.runs_something(node) {
            if self.now > end {
                return Err(format!("node {node} is not probed"));
            }
            for _ in 0..JOBS {
                self.submit_once(PROBE);
            }
            self.run_for(Duration::from_secs(1));
        }
        let daemon = workload::daemon(&mut self.random);
        // It is stopped below.
        let request = self.submit(daemon, ExpectedEnd::Ends, Duration::ZERO);
        self.wait_for(SOON, "the probe to succeed", |world| {
            health(world).is_some_and(|health| health.is_well()).then_some(())
        })?;
        let job = self.wait_for(BACKLOG, "the daemon", |world| {
            world.job_of(request).filter(|job| world.live_on(*job, node).is_some())
        })?;
        self.add_request(RequestBody::Stop { job }, Duration::ZERO);
        Ok(())
    }

    fn runs_something(&self, node: NodeId) -> bool {
        let rows = &self.orchestrator.disk.store.executions;
        rows.values().any(|row| row.node == node && !row.compute.is_terminal())
    }

    /// No job fails because one node can pull nothing, nor tries it again and again.
    pub(super) fn lost_registry(&mut self) -> Result<(), String> {
        let Some(agent) = self.one_of_several() else { return Ok(()) };
        self.summary.lost_registries += 1;
        let begin = self.now;
        self.agents[agent].docker.has_no_registry = true;
        self.agents[agent].trouble.fails();
        let requests: Vec<_> = (0..JOBS).map(|_| self.submit_once(RUN)).collect();
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

    /// The agent is asked, and says that the node is mended; no job is needed for that.
    pub(super) fn recovers(&mut self, agent: usize) -> Result<(), String> {
        let node = self.agents[agent].id;
        self.wait_for(LONGEST_BACK_OFF + NO_ANSWER + SOON, "a probe to pass", |world| {
            world.row_of(node).is_some_and(|row| row.health.is_well()).then_some(())
        })
    }

    /// One of the nodes that stay, if another stays with it.
    pub(super) fn one_of_several(&mut self) -> Option<usize> {
        let staying: Vec<_> =
            (0..self.agents.len()).filter(|agent| !self.agents[*agent].gone).collect();
        (staying.len() > 1).then(|| self.random.one_of(&staying))
    }

    /// Submits a job of this many seconds that must not fail once, with a whole CPU.
    fn submit_once(&mut self, seconds: u64) -> usize {
        let mut spec = workload::plain(&mut self.random, "1", 50);
        spec.name = workload::sleep(seconds);
        spec.retry_policy.attempts = 1;
        self.submit(spec, ExpectedEnd::Ends, Duration::ZERO)
    }

    /// What a node can fail in this time: what it has room for when it breaks, what replaces the
    /// first failures, and the probes.
    fn most_eaten(&self, agent: usize, time: Duration) -> usize {
        self.most_eaten_once(agent) + back_offs(time)
    }

    /// What a node can fail before it backs off.
    pub(super) fn most_eaten_once(&self, agent: usize) -> usize {
        let cpus = self.agents[agent].record.compute_node_info.max_capacity.cpu;
        let room = (1..).find(|cpu| f64::from(*cpu) >= cpus).expect("a few CPUs");
        let room = usize::try_from(room).expect("a few CPUs");
        room + FAILURES - 1
    }
}

/// How many back-offs of one node end in this time, each twice as long as the one before.
pub(super) fn back_offs(time: Duration) -> usize {
    let (mut ended, mut back_off, mut next) = (0, FIRST_BACK_OFF, FIRST_BACK_OFF);
    while next <= time {
        (ended, back_off) = (ended + 1, (back_off * 2).min(LONGEST_BACK_OFF));
        next += back_off;
    }
    ended
}

/// How often a slot can try a node on which it fails immediately, which it then avoids for ever
/// longer.
fn most_tried(time: Duration) -> usize {
    let (mut tries, mut avoided, mut next) = (1, FIRST_EXCLUSION, FIRST_EXCLUSION);
    while next <= time {
        (tries, avoided) = (tries + 1, avoided * 2);
        next += avoided;
    }
    tries
}
