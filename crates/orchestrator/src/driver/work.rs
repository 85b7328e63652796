//! The driver's loop: it feeds the step, and carries out what the step asks for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_plane::batch::{Content, NumberedCommit};
use control_plane::clock::{Reading, ServiceClock, Stamp};
use control_plane::step::{
    Action, Delivery, Envelope, Event, Lookups, Reason, Release, Step, TakeError, TermState,
};
use control_plane::store::{Hold, LookupResults, Outcome, Retention, Store, StoreError};
use daemon::Pulse;
use failpoint::Fault;
use ring::rand::SecureRandom;
use scheduler::Settings;
use scheduler::mint::Mint;
use scheduler::silence::HeartbeatArrival;
use scheduler::time::Now;
use tokio::sync::mpsc;

use super::audit_log;
use super::caller::{Caller, Message, Queued};
use super::error::DriverError;
use super::lead::Lead;
use super::load_watch::{HANGS_AFTER, LoadWatch};
use super::presence::{LATE, PresenceUpdate};
use super::streams::Streams;
use super::vitals::Vitals;
use super::writer::Writer;
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
    lead: Arc<Lead>,
    /// Where the lead can be lost.
    load_watch: Option<LoadWatch>,
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
    pub(super) fn open(
        writer: Writer,
        lead: Arc<Lead>,
        view: Arc<View>,
        (settings, retention): (Settings, Retention),
        observer: Observer,
        vitals: &Vitals,
    ) -> Result<Self, DriverError> {
        let reading = Reading::now();
        let mut clock = ServiceClock::resume(None, &reading);
        let now = clock.now(&reading).moment;
        let (step, actions) = Step::start(retention, writer.trust(), now);
        let Writer { store, hold } = writer;
        let watch = |beat| LoadWatch::start(beat, HANGS_AFTER, vitals.clone());
        let load_watch = match hold {
            Hold::Lock => None,
            Hold::Lease(beat) => Some(watch(beat).map_err(DriverError::Thread)?),
        };
        let spans = Spans::new(observer.tracer.clone());
        let streams = Streams::default();
        let mut work =
            Self { step, store, lead, load_watch, view, settings, clock, streams, observer, spans };
        work.perform(actions)?;
        if work.lead.can_be_lost() {
            // The load may have taken longer than what came before it is trusted.
            let now = work.read_clocks();
            work.on(Event::Tick, now)?;
        }
        work.observer.metrics.lead().leads(true);
        // Until the listener stands, no heartbeat can arrive.
        work.view.presence().tick(Reading::now().boot);
        Ok(work)
    }

    /// Runs until the last handle is dropped, or the lead is given up.
    pub(super) async fn run(
        mut self,
        messages: mpsc::Receiver<Queued>,
        pulse: &Pulse,
    ) -> Result<(), DriverError> {
        let lead = Arc::clone(&self.lead);
        let ended = tokio::select! {
            biased;
            () = lead.is_resigned() => Ok(()),
            ended = self.serve(messages, pulse) => ended,
        };
        lead.end();
        self.observer.metrics.lead().leads(false);
        if ended.is_ok() {
            self.resign();
        }
        ended
    }

    async fn serve(
        &mut self,
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

    fn resign(&mut self) {
        if failpoint::reach_blocking("lead.resign") == Some(Fault::Error) {
            return;
        }
        if let Err(error) = self.store.resign() {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot give the lead up; another orchestrator takes over later");
        }
    }

    fn read_clocks(&mut self) -> Stamp {
        self.clock.stamp(&Reading::now())
    }

    fn on(&mut self, event: Event<Caller>, now: Stamp) -> Result<(), DriverError> {
        let actions = self.act(event, now);
        self.perform(actions)
    }

    /// Publishes until when the outcome is trusted before anything leaves because of it.
    fn act(&mut self, event: Event<Caller>, now: Stamp) -> Vec<Action<Caller>> {
        let actions = self.step.on(event, now);
        if let Some(until) = self.step.trusted_until() {
            self.lead.trust_until(self.clock.boot_of(until));
        }
        actions
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
            actions.extend(self.act(event, now));
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
        self.view.begin(progress.term);
        let reading = Reading::now();
        self.clock.catch_up(progress.stamp, &reading);
        let mut seed = [0; 32];
        ring::rand::SystemRandom::new()
            .fill(&mut seed)
            .expect("the system's random source does not fail once the system is up");
        let (store, mint) = (self.store.as_mut(), Mint::from_seed(seed));
        // Leases restart once everything is read, which may take longer than one lasts.
        let now = || self.clock.now(&Reading::now()).moment;
        let settings = self.settings;
        let load = |read: &dyn Fn()| TermState::load(store, progress, settings, mint, now, read);
        match &self.load_watch {
            None => load(&|| {}),
            Some(watch) => watch.over(|read| {
                failpoint::reach_blocking("lead.load");
                load(read)
            }),
        }
    }

    fn commit(&mut self, commit: &NumberedCommit) -> Result<Outcome, StoreError> {
        let Content::Batch(batch) = &commit.content else {
            return commit.write_to(self.store.as_mut());
        };
        if self.lead.can_be_lost() && batch.is_empty() {
            failpoint::reach_blocking("lead.renew");
        }
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
        batch.audit.iter().for_each(audit_log::repeat);
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
