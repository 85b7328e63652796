//! What the tasks of this node use: sampled while they run, and kept until they are reported.
//!
//! The engines' counters are cumulative, so samples need not be frequent: they give the rate, and a
//! peak where the kernel keeps none. The last sample and the curve are also in a file of the
//! execution's directory, for a task that ends while the agent is down.
//!
//! The agent does not send samples on its own: the orchestrator asks for all of them while a client
//! watches, and the last report of an execution carries its totals.

mod record;
mod recorder;
mod rings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api_types::curve::{MAX_POINTS, NodeCurve, UsageCurve, millis};
use api_types::engine::EngineType;
use api_types::protocol::Work;
use api_types::quantity::{Capacity, Resources};
use api_types::usage::{ExecutionUsage, Usage};
use api_types::{ExecutionId, JobId, Timestamp};
use futures_util::stream::{self, StreamExt};
use tracing::debug;
use uuid::Uuid;

use self::record::{UsageRecord, read, replace, write};
use self::recorder::Recorder;
use self::rings::{NodeSample, Rings, SAMPLE_INTERVAL};

use crate::host::cgroup::Reading;
use crate::host::clock;
use crate::host::data_dir::ExecutionDirs;
use crate::runtime::Executor;
use crate::runtime::registry::Engines;

/// Intervals between samples: the first, and the longest.
const SAMPLE_INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// A rate over less time says little.
const SHORTEST_RATE: Duration = Duration::from_millis(200);

/// A sample this old is current: the orchestrator asks about once a second.
const CURRENT: Duration = Duration::from_millis(500);

/// How long an answer may take; it then has the previous samples.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

/// Tasks measured in parallel for one answer: an Engine that measures them itself only gets slower.
const MEASURED_AT_ONCE: usize = 8;

/// Samples of the node between two writes of its file: two minutes, which a crash may cost.
const SAMPLES_PER_WRITE: u64 = 12;

pub(crate) struct Meters {
    engines: Arc<Engines>,
    dirs: ExecutionDirs,
    tasks: Mutex<HashMap<ExecutionId, Metered>>,
    node: Mutex<Rings>,
}

struct Metered {
    engine: EngineType,
    job_id: JobId,
    namespace: String,
    runs: bool,
    sample: Option<Sample>,
    /// From its first sample on.
    curve: Option<Recorder>,
    /// Whether a sample of it may be in its file.
    is_kept: bool,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    usage: Usage,
    /// None for the sample of an earlier agent.
    taken_at: Option<Instant>,
}

// === impl Meters ===

impl Meters {
    pub(crate) fn new(engines: &Arc<Engines>, dirs: ExecutionDirs) -> Self {
        let (tasks, node) = (Mutex::default(), Mutex::default());
        Self { engines: Arc::clone(engines), dirs, tasks, node }
    }

    /// Samples a running task until this is dropped.
    pub(crate) async fn follow(
        &self,
        id: ExecutionId,
        work: &Work,
        executor: &dyn Executor,
    ) -> Infallible {
        let (mut wait, longest) = SAMPLE_INTERVALS;
        self.begin(id, work).await;
        self.sample(id, executor).await;
        loop {
            tokio::time::sleep(wait).await;
            self.sample(id, executor).await;
            self.write(id).await;
            wait = (2 * wait).min(longest);
        }
    }

    async fn begin(&self, id: ExecutionId, work: &Work) {
        let earlier = self.kept(id).await;
        let is_kept = earlier.is_some();
        let curve = earlier.as_ref().and_then(UsageRecord::recorder);
        let sample = earlier.map(|kept| Sample { usage: kept.usage, taken_at: None });
        self.tasks().entry(id).or_insert_with(|| Metered {
            engine: work.task.engine.engine_type,
            job_id: work.job_id,
            namespace: work.namespace.clone(),
            runs: true,
            sample,
            curve,
            is_kept,
        });
    }

    /// Measures a task. Without an answer of its engine the previous sample stays.
    pub(crate) async fn sample(&self, id: ExecutionId, executor: &dyn Executor) {
        match executor.usage(id).await {
            Ok(Some(reading)) => {
                if let Some(metered) = self.tasks().get_mut(&id) {
                    metered.add(reading, Instant::now(), clock::now());
                }
            }
            Ok(None) => {}
            Err(error) => debug!(execution = %id, %error, "cannot measure a task"),
        }
    }

    /// Takes the last reading of a task whose process has ended.
    pub(crate) async fn ended(&self, id: ExecutionId, executor: &dyn Executor) {
        self.sample(id, executor).await;
        if executor.fills_the_data_directory()
            && let Ok(Some(bytes)) = executor.written_bytes(id).await
        {
            self.wrote(id, bytes);
        }
        let is_kept = self.tasks().get_mut(&id).is_some_and(|metered| {
            metered.runs = false;
            if let Some(Sample { usage, .. }) = &mut metered.sample {
                (usage.cpu, usage.memory) = (0.0, 0);
            }
            metered.is_kept
        });
        // What ended sooner has no file yet, and costs none.
        if is_kept {
            self.write(id).await;
        }
    }

    /// Records what a task has written, which is measured for its limit.
    pub(crate) fn wrote(&self, id: ExecutionId, bytes: u64) {
        if let Some(Metered { sample: Some(sample), .. }) = self.tasks().get_mut(&id) {
            sample.usage.disk = Some(bytes);
        }
    }

    /// The totals of a task that has ended, and its curve; none where nothing measured it.
    pub(crate) async fn totals(&self, id: ExecutionId) -> Option<(Usage, Option<UsageCurve>)> {
        let known = self.tasks().get(&id).map(Metered::kept);
        let UsageRecord { usage, curve } = match known {
            Some(kept) => kept?,
            // An earlier agent saw its end.
            None => self.kept(id).await?,
        };
        Some((Usage { cpu: 0.0, memory: 0, ..usage }, curve))
    }

    /// What an earlier agent has written. Most tasks have no such file, and a thread to read it
    /// would cost more than the shortest of them.
    async fn kept(&self, id: ExecutionId) -> Option<UsageRecord> {
        let dir = self.dirs.for_execution(id);
        if !dir.usage().exists() {
            return None;
        }
        tokio::task::spawn_blocking(move || read(&dir)).await.ok().flatten()
    }

    pub(crate) fn forget(&self, id: ExecutionId) {
        self.tasks().remove(&id);
    }

    /// What every running task uses now, or those of one job with their curves.
    pub(crate) async fn all(&self, job: Option<JobId>) -> Vec<ExecutionUsage> {
        let is_asked =
            |metered: &Metered| metered.runs && job.is_none_or(|job| metered.job_id == job);
        let outdated: Vec<_> = self
            .tasks()
            .iter()
            .filter(|(_, metered)| is_asked(metered) && metered.is_outdated())
            .map(|(id, metered)| (*id, metered.engine))
            .collect();
        let measuring =
            stream::iter(outdated).for_each_concurrent(MEASURED_AT_ONCE, async |(id, engine)| {
                if let Some(executor) = self.engines.get(engine) {
                    self.sample(id, executor).await;
                }
            });
        if tokio::time::timeout(ANSWER_TIMEOUT, measuring).await.is_err() {
            debug!("tasks are slow to measure; the previous samples are sent");
        }
        let tasks = self.tasks();
        let running = tasks.iter().filter(|(_, metered)| is_asked(metered));
        let used = running.filter_map(|(id, metered)| {
            let UsageRecord { usage, curve } = metered.kept()?;
            Some(ExecutionUsage {
                execution_id: *id,
                job_id: metered.job_id,
                namespace: metered.namespace.clone(),
                usage,
                curve: curve.filter(|_| job.is_some()),
            })
        });
        used.collect()
    }

    /// What the node's tasks used in the last hour, and in the last day.
    pub(crate) fn of_node(&self) -> (NodeCurve, NodeCurve) {
        let rings = self.rings();
        (rings.hour(), rings.day())
    }

    /// Samples what all tasks use together, until the agent ends; kept in the file.
    pub(crate) async fn follow_node(
        self: Arc<Self>,
        held: impl Fn() -> Resources + Send + Sync,
        file: PathBuf,
    ) {
        let read = file.clone();
        let kept = tokio::task::spawn_blocking(move || fs::read(read).ok()).await.ok().flatten();
        if let Some(kept) = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            *self.rings() = kept;
        }
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        for number in 1_u64.. {
            ticks.tick().await;
            let sample = self.node_sample(held());
            self.rings().push(clock::now(), sample);
            if number.is_multiple_of(SAMPLES_PER_WRITE) {
                self.write_rings(file.clone()).await;
            }
        }
    }

    fn node_sample(&self, held: Resources) -> NodeSample {
        let tasks = self.tasks();
        let running = tasks.values().filter(|metered| metered.runs);
        let samples = running.filter_map(|metered| metered.sample);
        let (cpu, memory) = samples.fold((0.0, 0_u64), |(cpu, memory), Sample { usage, .. }| {
            (cpu + usage.cpu, memory.saturating_add(usage.memory))
        });
        let held = Capacity::from(held);
        NodeSample {
            cpu: millis(cpu),
            memory,
            allocated_cpu: millis(held.cpu),
            allocated_memory: held.memory,
        }
    }

    async fn write_rings(&self, file: PathBuf) {
        let bytes = serde_json::to_vec(&*self.rings());
        let written = tokio::task::spawn_blocking(move || replace(&file, &bytes?)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            debug!(%error, "cannot keep what the node uses");
        }
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, id: ExecutionId) {
        let kept = self.tasks().get_mut(&id).and_then(|metered| {
            // Before it is: the end of the write may have no waiter.
            metered.is_kept = true;
            metered.kept()
        });
        let Some(kept) = kept else { return };
        let dir = self.dirs.for_execution(id);
        let written = tokio::task::spawn_blocking(move || write(&dir, &kept)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            // It is needed only if this process ends before the task does.
            debug!(execution = %id, %error, "cannot keep a sample");
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<ExecutionId, Metered>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As much as this many measured tasks take whose curves are full.
#[must_use]
pub fn full_curves(tasks: u32) -> impl Sized {
    let mut curve = Recorder::begin(Timestamp::ZERO, 0.0);
    for second in 1..=2 * u32::try_from(MAX_POINTS).unwrap_or(0) {
        curve.add(Duration::from_secs(1), f64::from(second), 1);
    }
    let sample = Sample { usage: Usage::default(), taken_at: Some(Instant::now()) };
    let metered = |number: u32| {
        let uuid = Uuid::from_u128(number.into());
        let metered = Metered {
            engine: EngineType::Docker,
            job_id: JobId::from_uuid(uuid),
            namespace: "default".to_owned(),
            runs: true,
            sample: Some(sample),
            curve: Some(curve.clone()),
            is_kept: true,
        };
        (ExecutionId::from_uuid(uuid), metered)
    };
    (0..tasks).map(metered).collect::<HashMap<_, _>>()
}

// === impl Metered ===

impl Metered {
    fn add(&mut self, reading: Reading, now: Instant, wall: Timestamp) {
        let next = Sample::next(self.sample, reading, now, wall);
        match (&mut self.curve, &self.sample) {
            (Some(curve), Some(before)) => {
                let memory = before.usage.memory.max(next.usage.memory);
                curve.add(before.age(now, wall), next.usage.cpu_seconds, memory);
            }
            _ => self.curve = Some(Recorder::begin(wall, next.usage.cpu_seconds)),
        }
        self.sample = Some(next);
    }

    fn kept(&self) -> Option<UsageRecord> {
        let usage = self.sample?.usage;
        Some(UsageRecord { usage, curve: self.curve.as_ref().and_then(Recorder::curve) })
    }

    fn is_outdated(&self) -> bool {
        let taken_at = self.sample.and_then(|sample| sample.taken_at);
        taken_at.is_none_or(|taken_at| taken_at.elapsed() >= CURRENT)
    }
}

// === impl Sample ===

impl Sample {
    /// How long ago it was taken; by the wall clock if an earlier agent took it.
    fn age(&self, now: Instant, wall: Timestamp) -> Duration {
        match self.taken_at {
            Some(taken_at) => now.saturating_duration_since(taken_at),
            None => wall.since(self.usage.measure_time),
        }
    }

    fn next(before: Option<Self>, reading: Reading, now: Instant, wall: Timestamp) -> Self {
        let earlier = before.map_or_else(Usage::default, |before| before.usage);
        let cpu_seconds = reading.cpu.as_secs_f64().max(earlier.cpu_seconds);
        let taken_at = before.and_then(|before| before.taken_at);
        let elapsed = taken_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let is_rate = elapsed >= SHORTEST_RATE;
        let cpu = match is_rate {
            true => (cpu_seconds - earlier.cpu_seconds) / elapsed.as_secs_f64(),
            false => earlier.cpu,
        };
        let memory = reading.memory_bytes;
        let usage = Usage {
            cpu_seconds,
            cpu,
            memory,
            memory_peak: reading
                .memory_peak_bytes
                .unwrap_or(0)
                .max(memory)
                .max(earlier.memory_peak),
            disk: earlier.disk,
            measure_time: wall,
        };
        Self { usage, taken_at: Some(now) }
    }
}
