//! What the tasks of this node use: sampled while they run, and kept until they are reported.
//!
//! The engines' counters are cumulative, so samples need not be frequent: they give the rate, and a
//! peak where the kernel keeps none. The last sample is also in a file of the execution's
//! directory, for a task that ends while the agent is down.
//!
//! The agent does not send samples on its own: the orchestrator asks for all of them while somebody
//! watches, and the last report of an execution carries its totals.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api_types::engine::EngineType;
use api_types::protocol::Work;
use api_types::usage::{ExecutionUsage, Usage};
use api_types::{ExecutionId, JobId, Timestamp};
use futures_util::stream::{self, StreamExt};
use tracing::debug;

use crate::host::cgroup::Reading;
use crate::host::clock;
use crate::host::data_dir::{ExecutionDir, ExecutionDirs};
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

/// Tasks measured at once for one answer: an Engine that measures them itself only gets slower.
const MEASURED_AT_ONCE: usize = 8;

pub(crate) struct Meters {
    engines: Arc<Engines>,
    dirs: ExecutionDirs,
    tasks: Mutex<HashMap<ExecutionId, Metered>>,
}

struct Metered {
    engine: EngineType,
    job_id: JobId,
    namespace: String,
    runs: bool,
    sample: Option<Sample>,
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
        Self { engines: Arc::clone(engines), dirs, tasks: Mutex::default() }
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
        let sample = earlier.map(|usage| Sample { usage, taken_at: None });
        self.tasks().entry(id).or_insert_with(|| Metered {
            engine: work.task.engine.engine_type,
            job_id: work.job_id,
            namespace: work.namespace.clone(),
            runs: true,
            sample,
            is_kept,
        });
    }

    /// Measures a task. Without an answer of its engine the previous sample stays.
    pub(crate) async fn sample(&self, id: ExecutionId, executor: &dyn Executor) {
        match executor.usage(id).await {
            Ok(Some(reading)) => {
                if let Some(metered) = self.tasks().get_mut(&id) {
                    metered.sample =
                        Some(Sample::next(metered.sample, reading, Instant::now(), clock::now()));
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

    /// The totals of a task that has ended; none where nothing measured it.
    pub(crate) async fn totals(&self, id: ExecutionId) -> Option<Usage> {
        let known = self.tasks().get(&id).map(|metered| metered.sample);
        let usage = match known {
            Some(sample) => sample?.usage,
            // An earlier agent saw its end.
            None => self.kept(id).await?,
        };
        Some(Usage { cpu: 0.0, memory: 0, ..usage })
    }

    /// What an earlier agent has written. Most tasks have no such file, and a thread to read it
    /// would cost more than the shortest of them.
    async fn kept(&self, id: ExecutionId) -> Option<Usage> {
        let dir = self.dirs.of(id);
        if !dir.usage().exists() {
            return None;
        }
        tokio::task::spawn_blocking(move || read(&dir)).await.ok().flatten()
    }

    pub(crate) fn forget(&self, id: ExecutionId) {
        self.tasks().remove(&id);
    }

    /// What every running task uses now.
    pub(crate) async fn all(&self) -> Vec<ExecutionUsage> {
        let outdated: Vec<_> = self
            .tasks()
            .iter()
            .filter(|(_, metered)| metered.runs && metered.is_outdated())
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
        let running = tasks.iter().filter(|(_, metered)| metered.runs);
        let used = running.filter_map(|(id, metered)| {
            Some(ExecutionUsage {
                execution_id: *id,
                job_id: metered.job_id,
                namespace: metered.namespace.clone(),
                usage: metered.sample?.usage,
            })
        });
        used.collect()
    }

    async fn write(&self, id: ExecutionId) {
        let sample = self.tasks().get_mut(&id).and_then(|metered| {
            // Before it is: nobody may wait for the end of the write.
            metered.is_kept = true;
            metered.sample
        });
        let Some(Sample { usage, .. }) = sample else { return };
        let dir = self.dirs.of(id);
        let written = tokio::task::spawn_blocking(move || write(&dir, &usage)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            // It is needed only if this process ends before the task does.
            debug!(execution = %id, %error, "cannot keep a sample");
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<ExecutionId, Metered>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sample that an earlier agent kept, if it is whole.
fn read(dir: &ExecutionDir) -> Option<Usage> {
    serde_json::from_slice(&fs::read(dir.usage()).ok()?).ok()
}

fn write(dir: &ExecutionDir, usage: &Usage) -> io::Result<()> {
    dir.create()?;
    let beside = dir.usage().with_extension("new");
    fs::write(&beside, serde_json::to_vec(usage)?)?;
    fs::rename(beside, dir.usage())
}

// === impl Metered ===

impl Metered {
    fn is_outdated(&self) -> bool {
        let taken_at = self.sample.and_then(|sample| sample.taken_at);
        taken_at.is_none_or(|taken_at| taken_at.elapsed() >= CURRENT)
    }
}

// === impl Sample ===

impl Sample {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::data_dir::DataDir;
    use crate::testing::execution_id;

    fn reading(cpu_millis: u64, memory_bytes: u64, memory_peak_bytes: Option<u64>) -> Reading {
        Reading { cpu: Duration::from_millis(cpu_millis), memory_bytes, memory_peak_bytes }
    }

    #[test]
    fn the_rate_is_that_since_the_sample_before() {
        let begin = Instant::now();
        let first = Sample::next(None, reading(100, 5, None), begin, Timestamp(1));
        assert_eq!((first.usage.cpu_seconds, first.usage.cpu), (0.1, 0.0));
        let at = begin + Duration::from_secs(2);
        let second = Sample::next(Some(first), reading(1100, 5, None), at, Timestamp(2));
        assert_eq!(second.usage.cpu, 0.5);
        let soon = at + SHORTEST_RATE / 2;
        let third = Sample::next(Some(second), reading(1150, 5, None), soon, Timestamp(3));
        assert_eq!((third.usage.cpu, third.usage.cpu_seconds), (0.5, 1.15));
    }

    #[test]
    fn a_peak_without_the_kernels_help_is_that_of_the_samples() {
        let now = Instant::now();
        let first = Sample::next(None, reading(1, 70, None), now, Timestamp(1));
        let second = Sample::next(Some(first), reading(2, 20, None), now, Timestamp(2));
        assert_eq!((second.usage.memory, second.usage.memory_peak), (20, 70));
        let third = Sample::next(Some(second), reading(2, 20, Some(90)), now, Timestamp(3));
        assert_eq!(third.usage.memory_peak, 90);
    }

    #[test]
    fn nothing_falls_when_an_earlier_agent_has_seen_more() {
        let usage = Usage { cpu_seconds: 9.0, memory_peak: 80, ..Usage::default() };
        let earlier = Sample { usage, taken_at: None };
        let next = Sample::next(Some(earlier), reading(1, 2, None), Instant::now(), Timestamp(1));
        assert_eq!((next.usage.cpu_seconds, next.usage.memory_peak), (9.0, 80));
    }

    #[test]
    fn a_sample_is_read_back_and_a_damaged_one_is_none() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(execution_id(1));
        assert_eq!(read(&dir), None);
        let usage = Usage { cpu_seconds: 1.5, disk: Some(7), ..Usage::default() };
        write(&dir, &usage).unwrap();
        assert_eq!(read(&dir), Some(usage));
        fs::write(dir.usage(), b"{").unwrap();
        assert_eq!(read(&dir), None);
    }
}
