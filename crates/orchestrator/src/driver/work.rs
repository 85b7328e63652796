//! The driver's loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api_types::Timestamp;
use api_types::job::CreateJob;
use daemon::Pulse;
use failpoint::Fault;
use ring::rand::SecureRandom;
use tokio::sync::mpsc;

use super::batch::Batch;
use super::pruning::Pruning;
use super::streams::Streams;
use super::{BATCH, CallError, DriverError, Message, Submission};
use crate::clock;
use crate::engine::input::{Answer, Input};
use crate::engine::mint::Mint;
use crate::engine::{Engine, Restore, Settings};
use crate::observer::Observer;
use crate::spans::Spans;
use crate::store::{IDEMPOTENCY_HOURS, IdempotencyRow, Retention, Store, StoreError};
use crate::view::View;

/// How often explanations of waiting jobs are brought up to date: often enough for a person, and
/// each look at a thousand nodes is well below a millisecond.
const EXPLAIN_EVERY: Duration = Duration::from_millis(250);

/// How often a store that cannot be written to is tried again.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// How often old idempotency keys are removed, and how many at a time: a thousand every ten
/// seconds keeps up with a hundred submissions per second, and costs a commit.
const FORGET_KEYS_EVERY: Duration = Duration::from_secs(10);
const KEYS_FORGOTTEN_AT_ONCE: u32 = 1000;

/// The longest that the driver sleeps: whoever watches its pulse sees a beat this often.
const BEAT_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Work {
    store: Box<dyn Store>,
    view: Arc<View>,
    settings: Settings,
    engine: Engine,
    streams: Streams,
    last_commit: u64,
    explained: Timestamp,
    forgot_keys: Timestamp,
    pruning: Pruning,
    observer: Observer,
    spans: Spans,
}

/// The engine as the store holds it, and the number of the last commit.
pub(super) fn restore(
    store: &mut dyn Store,
    settings: Settings,
) -> Result<(Engine, u64), DriverError> {
    let last_commit = store.last_commit().map_err(DriverError::Load)?;
    let mut seed = [0; 32];
    ring::rand::SystemRandom::new()
        .fill(&mut seed)
        .expect("the system's random source does not fail once the system is up");
    let mut restore = Restore::new(settings, Mint::from_seed(seed));
    let live = store.load(&mut |job| restore.job(job)).map_err(DriverError::Load)?;
    let engine = restore.finish(live, clock::now())?;
    tracing::info!(
        jobs = engine.live_jobs(),
        executions = engine.live_executions(),
        "continue from the state database"
    );
    Ok((engine, last_commit))
}

// === impl Work ===

impl Work {
    pub(super) fn new(
        store: Box<dyn Store>,
        view: Arc<View>,
        settings: Settings,
        (engine, last_commit): (Engine, u64),
        retention: Retention,
        observer: Observer,
    ) -> Self {
        observer.metrics.recount(&engine.census());
        Self {
            store,
            view,
            settings,
            engine,
            streams: Streams::default(),
            last_commit,
            explained: Timestamp::ZERO,
            forgot_keys: Timestamp::ZERO,
            pruning: Pruning::new(retention),
            spans: Spans::new(observer.tracer.clone()),
            observer,
        }
    }

    /// Until the last handle is dropped.
    pub(super) async fn run(
        mut self,
        mut messages: mpsc::Receiver<Message>,
        pulse: &Pulse,
    ) -> Result<(), DriverError> {
        self.show();
        let mut waiting = Vec::with_capacity(BATCH);
        loop {
            let now = clock::now();
            let wake = self.engine.next_wake(now);
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
            let now = clock::now();
            if now >= wake {
                self.engine.handle(now, Input::Tick, &mut batch.output);
                batch.take_effects();
            }
            match self.commit(&batch, inputs) {
                Ok(()) => {
                    // Reads that wait are woken after the nodes are shown, and before the callers.
                    self.show();
                    self.view.feed().announce(&batch.output.changes);
                    self.observer.metrics.happened(&batch.output);
                    self.spans.happened(&batch.output);
                    batch.release(&self.engine, &mut self.streams);
                }
                Err(StoreError::Full { path }) => {
                    tracing::error!(
                        path = %path.display(),
                        "the disk is full: requests are refused until there is room"
                    );
                    self.observer.metrics.commit_failed();
                    batch.refuse(&self.engine);
                    self.wait_for_room(&mut messages, pulse).await?;
                }
                Err(error) => return Err(DriverError::Commit(error)),
            }
            self.forget_keys()?;
            self.pruning.step(self.store.as_mut(), clock::now).map_err(DriverError::Commit)?;
        }
    }

    fn take(&mut self, batch: &mut Batch, message: Message) {
        let now = clock::now();
        match message {
            Message::Input { input, reply } => {
                let answer = self.engine.handle(now, input, &mut batch.output);
                batch.take_effects();
                batch.answer(answer, reply);
            }
            Message::Submit { submission, reply } => {
                let created = self.submit(now, batch, *submission);
                batch.created(created, reply);
            }
            Message::OpenAssignments { node, session, stream, reply } => {
                let input = Input::OpenAssignments { node, session };
                let opened = match self.engine.handle(now, input, &mut batch.output) {
                    Answer::Assignments(snapshot) => Ok(snapshot),
                    Answer::Refused(refusal) => Err(refusal.into()),
                    other => panic!("opening a stream was answered with {other:?}"),
                };
                batch.take_effects();
                batch.stream(node, stream, opened, reply);
            }
            Message::Question(question) => batch.question(question),
        }
    }

    /// Submits once per idempotency key, whether the first time was in this batch or long ago.
    fn submit(
        &mut self,
        now: Timestamp,
        batch: &mut Batch,
        submission: Submission,
    ) -> Result<CreateJob, CallError> {
        let Submission { submit, id_given, warnings, key } = submission;
        if let Some(key) = &key {
            let first = match batch.keys.get(&key.key) {
                Some(row) => Some(row.clone()),
                None => {
                    let oldest = now - Duration::from_secs(IDEMPOTENCY_HOURS * 3600);
                    self.store.idempotency(&key.key, oldest).map_err(unreadable)?
                }
            };
            if let Some(row) = first {
                if row.body_hash != key.body_hash {
                    return Err(CallError::IdempotencyConflict);
                }
                return serde_json::from_str(&row.answer).map_err(|error| {
                    unreadable(StoreError::Record { detail: format!("idempotency key: {error}") })
                });
            }
        }
        if id_given && self.store.has_job(submit.id).map_err(unreadable)? {
            return Err(crate::engine::input::Refusal::JobExists(submit.id).into());
        }
        let answer = self.engine.handle(now, Input::Submit(Box::new(submit)), &mut batch.output);
        batch.take_effects();
        let created = match answer {
            Answer::Submitted { job, evaluation } => {
                CreateJob { job_id: job, evaluation_id: evaluation, warnings }
            }
            Answer::Refused(refusal) => return Err(refusal.into()),
            other => panic!("a submission was answered with {other:?}"),
        };
        if let Some(key) = key {
            let row = IdempotencyRow {
                key: key.key.clone(),
                body_hash: key.body_hash,
                answer: serde_json::to_string(&created).expect("an answer is plain data"),
                create_time: now,
            };
            batch.keys.insert(key.key, row);
        }
        Ok(created)
    }

    fn commit(&mut self, batch: &Batch, inputs: usize) -> Result<(), StoreError> {
        if batch.output.changes.is_empty() && batch.keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = batch.keys.values().cloned().collect();
        let number = self.last_commit + 1;
        let began = Instant::now();
        match failpoint::reach_blocking("commit.before") {
            None => {}
            Some(Fault::Error) => return Err(full_by_failpoint()),
            Some(Fault::Twice) => self.store.commit(number, &batch.output.changes, &keys)?,
        }
        self.store.commit(number, &batch.output.changes, &keys)?;
        if failpoint::reach_blocking("commit.after") == Some(Fault::Error) {
            return Err(full_by_failpoint());
        }
        self.last_commit = number;
        self.observer.metrics.committed(inputs, began.elapsed());
        Ok(())
    }

    /// Refuses everything until the store can be written to, then goes on from the last commit.
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
                        Some(message) => message.refuse(&self.engine),
                        // The next receive of the loop above ends it.
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
        let (engine, last_commit) = restore(self.store.as_mut(), self.settings)?;
        self.engine = engine;
        self.last_commit = last_commit;
        self.observer.metrics.recount(&self.engine.census());
        self.view.clear();
        self.show();
        tracing::info!("the disk has room again: requests are accepted");
        Ok(())
    }

    /// Lets reads see what changed.
    fn show(&mut self) {
        self.view.update_nodes(self.engine.take_touched_nodes());
        let now = clock::now();
        if now.since(self.explained) >= EXPLAIN_EVERY {
            self.explained = now;
            self.view.update_explanations(self.engine.refresh_explanations());
        }
    }

    fn forget_keys(&mut self) -> Result<(), DriverError> {
        let now = clock::now();
        if now.since(self.forgot_keys) < FORGET_KEYS_EVERY {
            return Ok(());
        }
        self.forgot_keys = now;
        let oldest = now - Duration::from_secs(IDEMPOTENCY_HOURS * 3600);
        match self.store.forget_keys(oldest, KEYS_FORGOTTEN_AT_ONCE) {
            // A full disk is met, and waited for, by the next commit.
            Ok(_) | Err(StoreError::Full { .. }) => Ok(()),
            Err(error) => Err(DriverError::Commit(error)),
        }
    }
}

impl Message {
    /// The store cannot be written to; questions change nothing and are answered.
    fn refuse(self, engine: &Engine) {
        match self {
            Self::Input { reply, .. } => drop(reply.send(Err(CallError::StoreUnavailable))),
            Self::Submit { reply, .. } => drop(reply.send(Err(CallError::StoreUnavailable))),
            Self::OpenAssignments { reply, .. } => {
                drop(reply.send(Err(CallError::StoreUnavailable)));
            }
            Self::Question(question) => question(engine),
        }
    }
}

fn full_by_failpoint() -> StoreError {
    StoreError::Full { path: "failpoint".into() }
}

/// Logs why the store could not be read, and says only that it could not.
fn unreadable(error: StoreError) -> CallError {
    tracing::error!(error = &error as &dyn std::error::Error, "the state database cannot be read");
    CallError::StoreUnavailable
}
