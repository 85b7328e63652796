//! The driver's loop: it feeds the step, and carries out what the step asks for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api_types::audit::AuditRecord;
use control_plane::batch::{Content, NumberedCommit};
use control_plane::clock::{Reading, ServiceClock, Stamp};
use control_plane::step::{
    Action, Delivery, Envelope, Event, Lookups, Reason, Release, Step, TakeError, TermState, Trust,
};
use control_plane::store::{LookupResults, Outcome, Retention, Store, StoreError};
use daemon::Pulse;
use failpoint::Fault;
use ring::rand::SecureRandom;
use scheduler::Settings;
use scheduler::mint::Mint;
use scheduler::silence::HeartbeatArrival;
use scheduler::time::Now;
use tokio::sync::mpsc;

use super::caller::{Caller, Message, Queued};
use super::error::DriverError;
use super::presence::{LATE, PresenceUpdate};
use super::streams::Streams;
use crate::observer::Observer;
use crate::spans::Spans;
use crate::view::View;

/// The most inputs that share one commit; more would only delay the first of them.
pub(super) const BATCH: usize = 1024;

/// The longest sleep of the driver; its pulse beats at least this often.
const BEAT_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Work {
    step: Step<Caller>,
    store: Box<dyn Store>,
    view: Arc<View>,
    settings: Settings,
    clock: ServiceClock,
    streams: Streams,
    observer: Observer,
    spans: Spans,
}

// === impl Work ===

impl Work {
    /// Continues from what an earlier process stored.
    pub(super) fn start(
        store: Box<dyn Store>,
        view: Arc<View>,
        settings: Settings,
        retention: Retention,
        observer: Observer,
    ) -> Result<Self, DriverError> {
        let reading = Reading::now();
        let mut clock = ServiceClock::resume(None, &reading);
        let now = clock.now(&reading).moment;
        // The store's lock on its directory keeps other processes out.
        let (step, actions) = Step::start(retention, Trust::Always, now);
        let spans = Spans::new(observer.tracer.clone());
        let streams = Streams::default();
        let mut work = Self { step, store, view, settings, clock, streams, observer, spans };
        work.perform(actions)?;
        // Until the listener stands, no heartbeat can arrive.
        work.view.presence().tick(Reading::now().boot);
        Ok(work)
    }

    /// Runs until the last handle is dropped.
    pub(super) async fn run(
        mut self,
        mut messages: mpsc::Receiver<Queued>,
        pulse: &Pulse,
    ) -> Result<(), DriverError> {
        let (mut queued, mut waiting) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        loop {
            let now = self.read_clocks().moment;
            let wake = self.step.wake().map(|wake| wake.since(now));
            let idle = wake.unwrap_or(BEAT_EVERY).min(BEAT_EVERY);
            pulse.beat();
            if self.step.is_committing() {
                // The outcome of a commit is unknown: requests wait in their queue.
                tokio::time::sleep(idle).await;
            } else {
                let received = messages.recv_many(&mut queued, BATCH);
                if let Ok(0) = tokio::time::timeout(idle, received).await {
                    return Ok(());
                }
                waiting.extend(queued.drain(..).map(|Queued { message, place }| {
                    // It is free for others.
                    drop(place);
                    message
                }));
            }
            self.turn(&mut waiting)?;
        }
    }

    fn turn(&mut self, waiting: &mut Vec<Message>) -> Result<(), DriverError> {
        let now = self.read_clocks();
        self.hear(now)?;
        if !waiting.is_empty() {
            let known = self.look_up(waiting, now);
            let clock = &self.clock;
            let arrived = |reading: Reading| Now {
                moment: clock.moment_of(reading.boot),
                wall: reading.wall,
            };
            let inputs: Vec<_> =
                waiting.drain(..).map(|message: Message| message.arrived_at(arrived)).collect();
            self.on(Event::Inputs { inputs, known }, now)?;
        }
        // Same timestamp: leases are checked against the heartbeats collected so far. The commit in
        // between may have taken long, or the process may have been stopped in it.
        if self.step.wake().is_some_and(|wake| wake <= now.moment) {
            self.on(Event::Tick, now)?;
        }
        Ok(())
    }

    /// Passes on the heartbeats that have arrived.
    fn hear(&mut self, now: Stamp) -> Result<(), DriverError> {
        let PresenceUpdate { gap, arrivals } = self.view.presence().take(now.reading.boot);
        // The rest of a pause comes in small parts, of which each would be a line.
        if gap > LATE {
            tracing::warn!(
                seconds = gap.as_secs_f32(),
                "no heartbeat could be received; no node's silence counts for that time"
            );
        }
        let heard = arrivals.into_iter().map(|(node, arrival)| HeartbeatArrival {
            node,
            session: arrival.session,
            at: self.clock.moment_of(arrival.boot),
            stalled: arrival.stalled,
            granted: arrival.granted,
            kept: arrival.kept,
            probed: arrival.probed,
        });
        let arrivals = heard.collect();
        self.on(Event::Heard { gap, arrivals }, now)
    }

    fn look_up(
        &mut self,
        waiting: &[Envelope<Caller, Reading>],
        now: Stamp,
    ) -> Option<LookupResults> {
        let known = Lookups::for_inputs(waiting).ask(self.store.as_mut(), now.moment);
        known
            .inspect_err(|error| {
                let error: &dyn std::error::Error = error;
                tracing::error!(error, "the state database cannot be read");
            })
            .ok()
    }

    fn read_clocks(&mut self) -> Stamp {
        self.clock.stamp(&Reading::now())
    }

    fn on(&mut self, event: Event<Caller>, now: Stamp) -> Result<(), DriverError> {
        let actions = self.step.on(event, now);
        self.perform(actions)
    }

    /// Carries out these actions, and those that follow from their outcomes.
    fn perform(&mut self, actions: Vec<Action<Caller>>) -> Result<(), DriverError> {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            let event = match action {
                Action::Take(reason) => Event::Took(self.take(reason)),
                Action::Commit(commit) => Event::Committed(commit.id, self.commit(&commit)),
                Action::Release(release) => {
                    self.release(release);
                    continue;
                }
                Action::Due(due) => {
                    self.view.due().push(due);
                    continue;
                }
                Action::Refuse { callers, why } => {
                    let now = self.read_clocks().moment;
                    for caller in callers {
                        caller.refuse(why, self.step.scheduler(), now);
                    }
                    continue;
                }
                Action::CloseStreams => {
                    self.streams.close_all();
                    continue;
                }
                Action::StepDown(failure) => return Err(failure.into()),
            };
            let took = matches!(event, Event::Took(Ok(_)));
            let now = self.read_clocks();
            actions.extend(self.step.on(event, now));
            if took && let Some(scheduler) = self.step.scheduler() {
                self.observer.metrics.recount(&scheduler.census());
            }
        }
        Ok(())
    }

    /// Begins a term and reads the state under it.
    fn take(&mut self, reason: Reason) -> Result<TermState, TakeError> {
        if reason == Reason::Fenced {
            tracing::error!(
                "another process has written to the state database in spite of its lock; \
                 everything is read again"
            );
        }
        self.view.clear();
        let taken = self.load();
        match &taken {
            Ok(TermState { scheduler, records, .. }) => {
                self.view.records().replace(records);
                tracing::info!(
                    jobs = scheduler.live_jobs(),
                    executions = scheduler.live_executions(),
                    "continue from the state database"
                );
                if reason == Reason::Writable {
                    tracing::info!("the disk has room again: requests are accepted");
                }
            }
            Err(error) => {
                let error: &dyn std::error::Error = error;
                tracing::error!(error, "the state database cannot be taken over");
            }
        }
        taken
    }

    fn load(&mut self) -> Result<TermState, TakeError> {
        let progress = self.store.take()?;
        let reading = Reading::now();
        self.clock.catch_up(progress.stamp, &reading);
        let mut seed = [0; 32];
        ring::rand::SystemRandom::new()
            .fill(&mut seed)
            .expect("the system's random source does not fail once the system is up");
        let (store, mint) = (self.store.as_mut(), Mint::from_seed(seed));
        // Leases restart once everything is read, which may take longer than one lasts.
        let now = || self.clock.now(&Reading::now()).moment;
        TermState::load(store, progress, self.settings, mint, now)
    }

    fn commit(&mut self, commit: &NumberedCommit) -> Result<Outcome, StoreError> {
        let Content::Batch(batch) = &commit.content else {
            return commit.write_to(self.store.as_mut());
        };
        let began = Instant::now();
        let outcome = between_failpoints(|| commit.write_to(self.store.as_mut()));
        match &outcome {
            Ok(_) => self.observer.metrics.committed(batch.inputs, began.elapsed()),
            Err(StoreError::Full { path }) => {
                tracing::error!(
                    path = %path.display(),
                    "the disk is full: requests are refused until there is room"
                );
                self.observer.metrics.commit_failed();
            }
            Err(_) => {}
        }
        outcome
    }

    /// Wakes waiting reads after publishing the nodes, and before answering the callers.
    fn release(&mut self, release: Release<Caller>) {
        let Release { nodes, leases, heard, explanations, batch, held, .. } = release;
        self.view.presence().publish(leases);
        let changes = &batch.output.changes;
        self.view.records().update(&batch.records);
        let nodes = self.view.update_nodes(nodes);
        self.view.heard_from(heard);
        let reasons_changed = !explanations.is_empty();
        self.view.update_explanations(explanations);
        self.view.feed().announce(changes);
        self.view.changes().note(changes, &nodes, reasons_changed);
        batch.audit.iter().for_each(log);
        self.observer.metrics.happened(&batch.output);
        self.observer.metrics.ran(&batch.runs);
        self.spans.happened(&batch.output);
        for held in held {
            match held {
                Delivery::Effect(effect) => self.streams.send(effect),
                Delivery::Reply(caller, reply) => {
                    caller.release(reply, self.step.scheduler(), &mut self.streams);
                }
            }
        }
    }
}

/// Repeats the record in the log, out of reach of an attacker who changes the database. Submissions
/// are too many for the default level.
fn log(record: &AuditRecord) {
    let AuditRecord { chain, sequence, user, token_id, address, operation, object, hash, .. } =
        record;
    let (request_id, outcome) = (&record.request_id, record.outcome);
    if operation.starts_with("createJob") {
        tracing::debug!(
            target: "audit",
            %chain, sequence, user, token_id, address, operation, object, request_id, %outcome,
            hash,
            "audited"
        );
    } else {
        tracing::info!(
            target: "audit",
            %chain, sequence, user, token_id, address, operation, object, request_id, %outcome,
            hash,
            "audited"
        );
    }
}

fn between_failpoints(
    mut commit: impl FnMut() -> Result<Outcome, StoreError>,
) -> Result<Outcome, StoreError> {
    match failpoint::reach_blocking("commit.before") {
        None => {}
        Some(Fault::Error) => return Err(full_by_failpoint()),
        Some(Fault::Twice) => drop(commit()?),
    }
    let outcome = commit()?;
    match failpoint::reach_blocking("commit.after") {
        Some(Fault::Error) => Err(full_by_failpoint()),
        None | Some(Fault::Twice) => Ok(outcome),
    }
}

fn full_by_failpoint() -> StoreError {
    StoreError::Full { path: "failpoint".into() }
}
