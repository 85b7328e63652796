//! The driver's loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api_types::job::CreateJob;
use control_plane::clock::{Reading, ServiceClock, Stamp};
use control_plane::pruning::Pruning;
use control_plane::store::{IdempotencyRow, RequestKey, Retention, Store, StoreError};
use daemon::Pulse;
use failpoint::Fault;
use ring::rand::SecureRandom;
use scheduler::input::{Answer, Input};
use scheduler::mint::Mint;
use scheduler::silence::Heard;
use scheduler::time::{Moment, Now};
use scheduler::{Restore, Scheduler, Settings};
use tokio::sync::mpsc;

use super::batch::{self, Batch, Reply};
use super::presence::Noted;
use super::streams::Streams;
use super::{BATCH, CallError, DriverError, IdempotencyKey, Message, Submission};
use crate::observer::Observer;
use crate::spans::Spans;
use crate::view::View;

/// Interval between updates of the explanations of waiting jobs: short enough for a person, and one
/// scan of a thousand nodes takes well below a millisecond.
const EXPLAIN_EVERY: Duration = Duration::from_millis(250);

/// Interval between write probes of a store that is out of space.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The longest sleep of the driver; its pulse beats at least this often.
const BEAT_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Work {
    store: Box<dyn Store>,
    view: Arc<View>,
    settings: Settings,
    scheduler: Scheduler,
    clock: ServiceClock,
    streams: Streams,
    last_commit: u64,
    /// When the explanations are next updated.
    explain_due: Moment,
    pruning: Pruning,
    observer: Observer,
    spans: Spans,
}

/// What the store holds, and the clock that continues from it.
pub(super) struct Restored {
    scheduler: Scheduler,
    clock: ServiceClock,
    last_commit: u64,
}

/// Continues from what an earlier process stored.
pub(super) fn resume(store: &mut dyn Store, settings: Settings) -> Result<Restored, DriverError> {
    let stamp = store.last_stamp().map_err(DriverError::Load)?;
    let reading = Reading::now();
    let mut clock = ServiceClock::resume(stamp, &reading);
    let (scheduler, last_commit) = restore(store, settings, clock.now(&reading).moment)?;
    Ok(Restored { scheduler, clock, last_commit })
}

/// The scheduler as stored, and the number of the last commit.
fn restore(
    store: &mut dyn Store,
    settings: Settings,
    now: Moment,
) -> Result<(Scheduler, u64), DriverError> {
    let last_commit = store.last_commit().map_err(DriverError::Load)?;
    let mut seed = [0; 32];
    ring::rand::SystemRandom::new()
        .fill(&mut seed)
        .expect("the system's random source does not fail once the system is up");
    let mut restore = Restore::new(settings, Mint::from_seed(seed));
    let live = store.load(&mut |job| restore.job(job)).map_err(DriverError::Load)?;
    let scheduler = restore.finish(live, now)?;
    tracing::info!(
        jobs = scheduler.live_jobs(),
        executions = scheduler.live_executions(),
        "continue from the state database"
    );
    Ok((scheduler, last_commit))
}

// === impl Work ===

impl Work {
    pub(super) fn new(
        store: Box<dyn Store>,
        view: Arc<View>,
        settings: Settings,
        Restored { scheduler, clock, last_commit }: Restored,
        retention: Retention,
        observer: Observer,
    ) -> Self {
        observer.metrics.recount(&scheduler.census());
        Self {
            store,
            view,
            settings,
            scheduler,
            clock,
            streams: Streams::default(),
            last_commit,
            explain_due: Moment::ZERO,
            pruning: Pruning::new(retention),
            spans: Spans::new(observer.tracer.clone()),
            observer,
        }
    }

    /// Runs until the last handle is dropped.
    pub(super) async fn run(
        mut self,
        mut messages: mpsc::Receiver<Message>,
        pulse: &Pulse,
    ) -> Result<(), DriverError> {
        self.show();
        let mut waiting = Vec::with_capacity(BATCH);
        loop {
            let now = self.read_clocks().moment;
            let wake = self.scheduler.next_wake(now);
            let received = messages.recv_many(&mut waiting, BATCH);
            let idle = wake.min(self.pruning.due()).since(now).min(BEAT_EVERY);
            pulse.beat();
            if let Ok(0) = tokio::time::timeout(idle, received).await {
                return Ok(());
            }
            let mut batch = Batch::default();
            let inputs = waiting.len();
            for message in waiting.drain(..) {
                self.take(&mut batch, message);
            }
            let stamp = self.read_clocks();
            self.hear(&mut batch, stamp);
            if stamp.moment >= wake {
                batch.handle(&mut self.scheduler, stamp.now(), Input::Tick);
            }
            match self.commit(&batch, stamp, inputs) {
                Ok(()) => {
                    // Wake waiting reads after publishing the nodes, and before answering the
                    // callers.
                    self.show();
                    self.view.feed().announce(&batch.output.changes);
                    self.observer.metrics.happened(&batch.output);
                    self.spans.happened(&batch.output);
                    batch::release(batch, &self.scheduler, &mut self.streams);
                }
                Err(StoreError::Full { path }) => {
                    tracing::error!(
                        path = %path.display(),
                        "the disk is full: requests are refused until there is room"
                    );
                    self.observer.metrics.commit_failed();
                    batch::refuse(batch, &self.scheduler);
                    self.wait_for_room(&mut messages, pulse).await?;
                }
                Err(error) => return Err(DriverError::Commit(error)),
            }
            let clock = || self.clock.now(&Reading::now()).moment;
            self.pruning.step(self.store.as_mut(), clock).map_err(DriverError::Commit)?;
        }
    }

    /// Passes on the heartbeats that have arrived, before any lease is checked.
    fn hear(&mut self, batch: &mut Batch, stamp: Stamp) {
        let Noted { deaf, arrivals } = self.view.presence().take(stamp.reading.boot);
        if !deaf.is_zero() {
            tracing::warn!(
                seconds = deaf.as_secs_f32(),
                "the orchestrator was paused; no node's silence counts for that time"
            );
            batch.handle(&mut self.scheduler, stamp.now(), Input::WasDeaf(deaf));
        }
        if arrivals.is_empty() {
            return;
        }
        let heard = arrivals.into_iter().map(|(node, arrival)| Heard {
            node,
            session: arrival.session,
            at: self.clock.moment_of(arrival.boot),
            stalled: arrival.stalled,
        });
        let heard = Input::Heard(heard.collect());
        batch.handle(&mut self.scheduler, stamp.now(), heard);
    }

    fn read_clocks(&mut self) -> Stamp {
        self.clock.stamp(&Reading::now())
    }

    fn take(&mut self, batch: &mut Batch, message: Message) {
        let now = self.read_clocks().now();
        match message {
            Message::Input { input, reply } => {
                let answer = batch.handle(&mut self.scheduler, now, input);
                batch.hold(Reply::Answer(answer, reply));
            }
            Message::Submit { submission, reply } => {
                let created = self.submit(now, batch, *submission);
                batch.hold(Reply::Created(created, reply));
            }
            Message::OpenAssignments { node, session, stream, reply } => {
                let input = Input::OpenAssignments { node, session };
                let opened = match batch.handle(&mut self.scheduler, now, input) {
                    Answer::Assignments(snapshot) => Ok(snapshot),
                    Answer::Refused(refusal) => Err(refusal.into()),
                    other => panic!("opening a stream was answered with {other:?}"),
                };
                batch.hold(Reply::Stream { node, stream, opened, reply });
            }
            Message::Question(question) => batch.hold(Reply::Question(question, now.moment)),
        }
    }

    /// Submits once per idempotency key, whether the first request is in this batch or long past.
    fn submit(
        &mut self,
        now: Now,
        batch: &mut Batch,
        submission: Submission,
    ) -> Result<CreateJob, CallError> {
        let Submission { submit, id_given, warnings, key } = submission;
        let key = key.map(|IdempotencyKey { key, body_hash }| {
            (RequestKey { namespace: submit.spec.namespace.clone(), key }, body_hash)
        });
        if let Some((key, body_hash)) = &key {
            let first = batch.first_answer(self.store.as_mut(), key, now.moment);
            if let Some(row) = first.map_err(unreadable)? {
                if row.body_hash != *body_hash {
                    return Err(CallError::IdempotencyConflict);
                }
                return serde_json::from_str(&row.answer).map_err(|error| {
                    unreadable(StoreError::Record { detail: format!("idempotency key: {error}") })
                });
            }
        }
        if id_given && self.store.has_job(submit.id).map_err(unreadable)? {
            return Err(scheduler::input::Refusal::JobExists(submit.id).into());
        }
        let submit = Input::Submit(Box::new(submit));
        let created = match batch.handle(&mut self.scheduler, now, submit) {
            Answer::Submitted { job, evaluation } => {
                CreateJob { job_id: job, evaluation_id: evaluation, warnings }
            }
            Answer::Refused(refusal) => return Err(refusal.into()),
            other => panic!("a submission was answered with {other:?}"),
        };
        if let Some((key, body_hash)) = key {
            batch.remember(IdempotencyRow {
                key,
                body_hash,
                answer: serde_json::to_string(&created).expect("an answer is plain data"),
                stored_at: now.moment,
            });
        }
        Ok(created)
    }

    fn commit(&mut self, batch: &Batch, stamp: Stamp, inputs: usize) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let number = self.last_commit + 1;
        let began = Instant::now();
        match failpoint::reach_blocking("commit.before") {
            None => {}
            Some(Fault::Error) => return Err(full_by_failpoint()),
            Some(Fault::Twice) => batch.commit(self.store.as_mut(), number, stamp)?,
        }
        batch.commit(self.store.as_mut(), number, stamp)?;
        if failpoint::reach_blocking("commit.after") == Some(Fault::Error) {
            return Err(full_by_failpoint());
        }
        self.last_commit = number;
        self.pruning.stored_keys(batch.keys());
        self.observer.metrics.committed(inputs, began.elapsed());
        Ok(())
    }

    /// Refuses all inputs until the store is writable, then continues from the last commit.
    async fn wait_for_room(
        &mut self,
        messages: &mut mpsc::Receiver<Message>,
        pulse: &Pulse,
    ) -> Result<(), DriverError> {
        self.streams.close_all();
        loop {
            let pause = tokio::time::sleep(PROBE_EVERY);
            tokio::pin!(pause);
            pulse.beat();
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    message = messages.recv() => match message {
                        Some(message) => {
                            let now = self.read_clocks().moment;
                            message.refuse(&self.scheduler, now);
                        }
                        // The next receive in the main loop ends it.
                        None => break,
                    },
                }
            }
            match self.store.probe() {
                Ok(()) => break,
                Err(StoreError::Full { .. }) if !messages.is_closed() => {}
                Err(error) => return Err(DriverError::Commit(error)),
            }
        }
        let now = self.read_clocks().moment;
        let (scheduler, last_commit) = restore(self.store.as_mut(), self.settings, now)?;
        self.scheduler = scheduler;
        self.last_commit = last_commit;
        self.observer.metrics.recount(&self.scheduler.census());
        self.view.clear();
        self.show();
        tracing::info!("the disk has room again: requests are accepted");
        Ok(())
    }

    /// Publishes changes to readers.
    fn show(&mut self) {
        let touched = self.scheduler.take_touched_nodes();
        let sessions = touched.iter().map(|(id, _)| (*id, self.scheduler.session_of(*id)));
        self.view.presence().publish(sessions, self.scheduler.lease());
        self.view.update_nodes(touched);
        let now = self.read_clocks().moment;
        if now >= self.explain_due {
            self.explain_due = now + EXPLAIN_EVERY;
            self.view.update_explanations(self.scheduler.refresh_explanations());
        }
    }
}

impl Message {
    /// Refuses an input while the store is not writable; read-only queries are still answered.
    fn refuse(self, scheduler: &Scheduler, now: Moment) {
        match self {
            Self::Input { reply, .. } => drop(reply.send(Err(CallError::StoreUnavailable))),
            Self::Submit { reply, .. } => drop(reply.send(Err(CallError::StoreUnavailable))),
            Self::OpenAssignments { reply, .. } => {
                drop(reply.send(Err(CallError::StoreUnavailable)));
            }
            Self::Question(question) => question(scheduler, now),
        }
    }
}

fn full_by_failpoint() -> StoreError {
    StoreError::Full { path: "failpoint".into() }
}

/// Logs why the store could not be read; the caller learns only that it could not.
fn unreadable(error: StoreError) -> CallError {
    tracing::error!(error = &error as &dyn std::error::Error, "the state database cannot be read");
    CallError::StoreUnavailable
}
