//! What one turn commits: requests become changes, and replies that are held back until then.

use std::collections::BTreeSet;

use api_types::JobId;
use api_types::graph::CreateGraph;
use api_types::job::CreateJob;
use scheduler::input::{Answer, Input};
use scheduler::time::{Moment, Now};
use scheduler::{Output, Scheduler};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::event::{
    Delivery, Envelope, GraphSubmission, NotCreated, Reply, Request, Submission, named,
};
use super::schedules::Schedules;
use crate::audit::{Chains, Entries};
use crate::batch::Batch;
use crate::groups::{self, Change};
use crate::quotas;
use crate::records::{RecordKind, RecordWrite, Records};
use crate::store::{IdempotencyRow, LookupResults, RequestKey};

pub(super) struct CommitBuilder<C> {
    batch: Batch,
    /// What the store knew before the turn, and the keys that came in it; none if the store could
    /// not be read.
    known: Option<LookupResults>,
    /// Of the commit that the turn becomes.
    number: u64,
    audit: Entries,
    /// In the order of release.
    held: Vec<Delivery<C>>,
}

// === impl CommitBuilder ===

impl<C> CommitBuilder<C> {
    pub(super) fn new(known: Option<LookupResults>, number: u64) -> Self {
        let (batch, audit, held) = (Batch::default(), Entries::default(), Vec::new());
        Self { batch, known, number, audit, held }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn batch_mut(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The jobs that have ended, of those that changed.
    pub(super) fn ended_jobs(&self) -> Vec<JobId> {
        let jobs = self.batch.output.changes.jobs.values();
        jobs.filter(|row| !row.live).map(|row| row.id).collect()
    }

    /// Hands one input to the scheduler. Its effects are held before the reply to it.
    pub(super) fn handle(&mut self, scheduler: &mut Scheduler, now: Now, input: Input) -> Answer {
        let output: &mut Output = &mut self.batch.output;
        let answer = scheduler.handle(now, input, output);
        self.held.extend(output.effects.drain(..).map(Delivery::Effect));
        answer
    }

    pub(super) fn take(
        &mut self,
        scheduler: &mut Scheduler,
        records: &mut Records,
        schedules: &mut Schedules,
        envelope: Envelope<C>,
        now: Moment,
    ) {
        let Envelope { origin: _, arrived, request, audit, caller } = envelope;
        self.batch.inputs += 1;
        let reply = match request {
            Request::Input(input) => Reply::Answer(self.handle(scheduler, arrived, input)),
            Request::Submit(submission) => {
                Reply::Created(self.submit(scheduler, arrived, *submission))
            }
            Request::SubmitGraph(graph) => {
                Reply::GraphCreated(self.submit_graph(scheduler, arrived, *graph))
            }
            Request::Records(writes) => {
                let checked = groups::check(scheduler, &writes);
                let applied = checked.and_then(|()| records.apply(&writes, self.number));
                Reply::Recorded(applied.map(|rows| {
                    self.batch.records.extend(rows);
                    self.tell(scheduler, arrived, &writes);
                    for key in writes.iter().map(|write| &write.key) {
                        if key.kind == RecordKind::Schedule {
                            schedules.changed(&key.key, records, scheduler);
                        }
                    }
                }))
            }
            Request::Due(run) => {
                self.run_due(scheduler, records, schedules, arrived, *run);
                Reply::Recorded(Ok(()))
            }
            Request::Trigger(trigger) => {
                Reply::Created(self.trigger(scheduler, records, schedules, arrived, *trigger))
            }
            Request::Load(row) => {
                self.batch.loads.push(*row);
                Reply::Recorded(Ok(()))
            }
            Request::Ask => Reply::Asked(now),
            Request::Prove => Reply::Proved,
        };
        if let Some(mut entry) = audit.filter(|_| reply.is_done()) {
            entry.object = reply.made().unwrap_or(entry.object);
            match reply {
                Reply::Created(_) => self.audit.submitted(*entry),
                _ => self.audit.push(*entry),
            }
        }
        self.held.push(Delivery::Reply(caller, reply));
    }

    /// What the scheduler has to know of records that changed.
    fn tell(&mut self, scheduler: &mut Scheduler, arrived: Now, writes: &[RecordWrite]) {
        for namespace in provided(writes) {
            self.handle(scheduler, arrived, Input::Provided { namespace });
        }
        for Change { namespace, name, limit } in groups::changes(writes) {
            self.handle(scheduler, arrived, Input::Group { namespace, name, limit });
        }
        for (namespace, to) in quotas::changes(writes) {
            self.handle(scheduler, arrived, Input::Entitle { namespace, to });
        }
    }

    /// Submits once per idempotency key, whether the first time was in this turn or long ago.
    pub(super) fn submit(
        &mut self,
        scheduler: &mut Scheduler,
        now: Now,
        submission: Submission,
    ) -> Result<CreateJob, NotCreated> {
        let request_key = submission.request_key();
        let Submission { mut submit, id_given, warnings, key } = submission;
        let known = match &self.known {
            Some(known) => known,
            None if request_key.is_none() && !id_given && submit.spec.depends_on.is_empty() => {
                &LookupResults::default()
            }
            None => return Err(NotCreated::Unreadable),
        };
        let body_hash = key.map(|key| key.body_hash);
        if let Some(first) = request_key.as_ref().and_then(|key| known.keys.get(key)) {
            return repeated(first, body_hash);
        }
        if id_given && known.jobs.contains(&submit.id) {
            return Err(NotCreated::Refused(scheduler::input::Refusal::JobExists(submit.id)));
        }
        submit.named =
            named(&submit).filter_map(|other| known.named.get(&other.job_id).cloned()).collect();
        let id = submit.id;
        let submit = Input::Submit(Box::new(submit));
        let created = match self.handle(scheduler, now, submit) {
            Answer::Submitted { job, evaluation } => {
                CreateJob { job_id: job, evaluation_id: evaluation, warnings }
            }
            Answer::Refused(refusal) => return Err(NotCreated::Refused(refusal)),
            other => panic!("a submission was answered with {other:?}"),
        };
        if id_given && let Some(known) = &mut self.known {
            // It may be over and gone from the scheduler within this turn.
            known.jobs.insert(id);
        }
        if let (Some(key), Some(body_hash)) = (request_key, body_hash) {
            self.remember(key, body_hash, &created, now);
        }
        Ok(created)
    }

    /// The same for a graph, whose jobs get IDs that no job has.
    fn submit_graph(
        &mut self,
        scheduler: &mut Scheduler,
        now: Now,
        graph: GraphSubmission,
    ) -> Result<CreateGraph, NotCreated> {
        let request_key = graph.request_key();
        let GraphSubmission { mut submit, warnings, key } = graph;
        let Some(known) = &self.known else { return Err(NotCreated::Unreadable) };
        let body_hash = key.map(|key| key.body_hash);
        if let Some(first) = request_key.as_ref().and_then(|key| known.keys.get(key)) {
            return repeated(first, body_hash);
        }
        for (_, job) in &mut submit.jobs {
            job.named =
                named(job).filter_map(|other| known.named.get(&other.job_id).cloned()).collect();
        }
        let jobs = submit.jobs.iter().map(|(name, job)| (name.clone(), job.id)).collect();
        let created = CreateGraph { graph_id: submit.id, jobs, warnings };
        match self.handle(scheduler, now, Input::SubmitGraph(Box::new(submit))) {
            Answer::Done => {}
            Answer::Refused(refusal) => return Err(NotCreated::Refused(refusal)),
            other => panic!("a graph was answered with {other:?}"),
        }
        if let (Some(key), Some(body_hash)) = (request_key, body_hash) {
            self.remember(key, body_hash, &created, now);
        }
        Ok(created)
    }

    /// A repeat of the request gets the same answer.
    fn remember(
        &mut self,
        key: RequestKey,
        body_hash: [u8; 32],
        answer: &impl Serialize,
        now: Now,
    ) {
        let answer = serde_json::to_string(answer).expect("an answer is plain data");
        let row = IdempotencyRow { key, body_hash, answer, stored_at: now.moment };
        if let Some(known) = &mut self.known {
            known.keys.insert(row.key.clone(), row.clone());
        }
        self.batch.keys.push(row);
    }

    /// What is to be committed, and what waits for it.
    pub(super) fn finish(mut self, chains: &mut Chains) -> (Batch, Vec<Delivery<C>>) {
        self.batch.audit = self.audit.seal(chains);
        (self.batch, self.held)
    }
}

/// The namespaces that get something which their jobs may wait for.
fn provided(writes: &[RecordWrite]) -> BTreeSet<String> {
    let put = writes.iter().filter(|write| write.value.is_some());
    put.filter_map(|write| match write.key.kind {
        // Their names have no '/'.
        RecordKind::Secret | RecordKind::Credential => {
            write.key.key.rsplit_once('/').map(|(namespace, _)| namespace.to_owned())
        }
        RecordKind::Token
        | RecordKind::Session
        | RecordKind::Namespace
        | RecordKind::Group
        | RecordKind::JoinToken
        | RecordKind::NodeIdentity
        | RecordKind::Key
        | RecordKind::Schedule
        | RecordKind::ScheduleState => None,
    })
    .collect()
}

fn repeated<T: DeserializeOwned>(
    first: &IdempotencyRow,
    body_hash: Option<[u8; 32]>,
) -> Result<T, NotCreated> {
    if body_hash != Some(first.body_hash) {
        return Err(NotCreated::KeyConflict);
    }
    serde_json::from_str(&first.answer).map_err(|error| {
        tracing::error!(%error, "the stored answer to an idempotency key cannot be read");
        NotCreated::Unreadable
    })
}
