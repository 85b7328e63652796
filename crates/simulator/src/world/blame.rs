//! After the faults: what fails on one node, or for one namespace, is the fault of that alone.

use std::time::Duration;

use api_types::history::NodeStateType;
use api_types::job::JobStateType;
use api_types::{NodeId, Timestamp};
use scheduler::change::EventSubject;

use super::World;
use super::broken_node::{JOBS, RUN, back_offs};
use crate::docker::{Answers, DAMAGED, Defect, IMPOSSIBLE, NO_NETWORK};
use crate::network::RequestBody;
use crate::workload::{self, ExpectedEnd, Kind};

/// Executions of an array that no node can run.
const ARRAY: u32 = 30;

/// Seconds in which hostile jobs come; a job of another namespace runs for longer.
const ATTACK: u64 = 30;

/// Seconds in which the last jobs have been placed, and have failed.
const AFTERMATH: u64 = 30;

/// When an epilogue begins.
#[derive(Clone, Copy)]
struct Beginning {
    time: Timestamp,
    /// The last event before it. The times of events are those of a wall clock that may be wrong.
    seq: u64,
}

impl World {
    /// Only the network of one node is broken, or only one image that is there.
    pub(super) fn half_broken_node(&mut self) -> Result<(), String> {
        let Some(agent) = self.one_of_several() else { return Ok(()) };
        if !self.agents[agent].record.probes {
            return Ok(());
        }
        match self.random.chance(500) {
            true => self.lost_network(agent),
            false => self.damaged_image(agent),
        }
    }

    /// No job fails, the node backs off, and it takes work again once it is mended.
    fn lost_network(&mut self, agent: usize) -> Result<(), String> {
        self.summary.lost_networks += 1;
        let answers = [Answers::Truly, Answers::Truly, Answers::Falsely, Answers::Never];
        let answers = self.random.one_of(&answers);
        self.agents[agent].answers = answers;
        self.agents[agent].docker.defect = Some(Defect::Network);
        let begin = self.now;
        self.all_complete(Kind::Networked)?;
        let node = self.agents[agent].id;
        let rows = self.orchestrator.disk.store.executions.values();
        let eaten = rows.filter(|row| row.node == node && &*row.compute_message == NO_NETWORK);
        let (eaten, time) = (eaten.count(), self.now.since(begin));
        let rounds = match answers {
            Answers::Truly | Answers::Never => 1,
            Answers::Falsely => 1 + back_offs(time),
        };
        let most = self.most_eaten_once(agent) * rounds;
        if eaten > most {
            return Err(format!("{node} ate {eaten} executions in {time:?}, more than {most}"));
        }
        self.agents[agent].docker.defect = None;
        self.agents[agent].answers = Answers::Truly;
        self.recovers(agent)
    }

    /// No job fails, and the node does not back off.
    fn damaged_image(&mut self, agent: usize) -> Result<(), String> {
        self.summary.damaged_images += 1;
        self.agents[agent].docker.defect = Some(Defect::Damage);
        let (begin, node) = (self.here(), self.agents[agent].id);
        self.all_complete(Kind::Layered)?;
        self.agents[agent].docker.defect = None;
        self.no_refusal_is_charged()?;
        self.backs_off_since(begin, |blamed| blamed == node)
    }

    /// The tries of an execution are those before it. So they may contain another failure, such as
    /// an offer to a silent node, and what follows from a refusal is in those of the next execution.
    fn no_refusal_is_charged(&self) -> Result<(), String> {
        let rows = &self.orchestrator.disk.store.executions;
        for next in rows.values() {
            let Some(refused) = next.previous.and_then(|id| rows.get(&id)) else { continue };
            let (before, after) = (refused.tries.infra_failures, next.tries.infra_failures);
            if &*refused.compute_message == DAMAGED && after > before {
                let id = refused.id;
                return Err(format!("the refusal of {id} is charged as a failure of the node"));
            }
        }
        Ok(())
    }

    fn all_complete(&mut self, kind: Kind) -> Result<(), String> {
        let requests: Vec<_> = (0..JOBS).map(|_| self.submit_as(kind)).collect();
        self.settle()?;
        for request in requests {
            let job = self.job_of(request).ok_or("a job of the end was not submitted")?;
            if self.orchestrator.disk.store.state(job) != Some(JobStateType::Completed) {
                return Err(format!("job {job} failed: {:?}", self.history_of(request)));
            }
        }
        Ok(())
    }

    /// The array fails after two executions of one slot, and no node backs off.
    pub(super) fn refused_array(&mut self) -> Result<(), String> {
        self.summary.refused_arrays += 1;
        let begin = self.here();
        let mut spec = workload::plain(&mut self.random, "0.25", 50);
        spec.name = workload::sleep_as(RUN, Kind::Impossible);
        (spec.count, spec.retry_policy.attempts) = (ARRAY, 1);
        let request = self.submit(spec, ExpectedEnd::Ends, Duration::ZERO);
        self.settle()?;
        let job = self.job_of(request).ok_or("a job of the end was not submitted")?;
        let store = &self.orchestrator.disk.store;
        if store.state(job) != Some(JobStateType::Failed) {
            return Err(format!("job {job} cannot run: {:?}", self.history_of(request)));
        }
        let rows = store.executions_of(job);
        for slot in 0..ARRAY {
            let refused =
                rows.iter().filter(|row| row.index == slot && *row.compute_message == *IMPOSSIBLE);
            let tries = refused.count();
            if tries > 2 {
                return Err(format!("slot {slot} of job {job} was refused {tries} times"));
            }
        }
        self.backs_off_since(begin, |_| true)
    }

    /// No node backs off because of a namespace whose every execution fails, and which is not alone.
    pub(super) fn hostile_namespace(&mut self) -> Result<(), String> {
        self.summary.hostile_namespaces += 1;
        let mut spec = workload::plain(&mut self.random, "0.25", 100);
        spec.name = workload::sleep(ATTACK + AFTERMATH * 2);
        "other".clone_into(&mut spec.namespace);
        let witness = self.submit(spec, ExpectedEnd::Ends, Duration::ZERO);
        self.wait_for_start(witness)?;
        let begin = self.here();
        let mut hostile = Vec::new();
        for _ in 0..ATTACK {
            hostile.push(self.submit_as(Kind::Hostile));
            self.run_for(Duration::from_secs(1));
        }
        self.run_for(Duration::from_secs(AFTERMATH));
        self.backs_off_since(begin, |_| true)?;
        for request in hostile {
            let job = self.job_of(request).ok_or("a job of the end was not submitted")?;
            self.add_request(RequestBody::Stop { job }, Duration::ZERO);
        }
        Ok(())
    }

    fn submit_as(&mut self, kind: Kind) -> usize {
        let mut spec = workload::plain(&mut self.random, "1", 50);
        spec.name = workload::sleep_as(RUN, kind);
        spec.retry_policy.attempts = 1;
        self.submit(spec, ExpectedEnd::Ends, Duration::ZERO)
    }

    fn here(&self) -> Beginning {
        let last = self.orchestrator.disk.store.events.last();
        Beginning { time: self.now, seq: last.map_or(0, |event| event.seq) }
    }

    /// An error if one of these nodes has begun to back off, though it answered all that time.
    fn backs_off_since(
        &self,
        begin: Beginning,
        is_meant: impl Fn(NodeId) -> bool,
    ) -> Result<(), String> {
        let is_away = |node| {
            let agent = self.agents.iter().find(|agent| agent.id == node);
            agent.is_none_or(|agent| agent.trouble.was_away(begin.time))
        };
        let events = self.orchestrator.disk.store.events.iter();
        for event in events.filter(|event| event.seq > begin.seq) {
            if let EventSubject::Node { node, new: NodeStateType::BackingOff, previous } =
                event.subject
                && previous == NodeStateType::Healthy
                && is_meant(node)
                && !is_away(node)
            {
                return Err(format!("node {node} backs off: {}", event.comment));
            }
        }
        Ok(())
    }
}
