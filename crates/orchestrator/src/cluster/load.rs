//! The load of the last hour: a ring of samples, and what a chart is made of. The store has a week,
//! with a row for every two minutes.

use std::collections::VecDeque;

use api_types::Timestamp;
use api_types::cluster::{ClusterLoad, LoadSample};
use api_types::quantity::{Capacity, Resources};
use control_plane::store::LoadRow;

use super::Fleet;
use crate::metrics::Counts;

/// Seconds between two samples.
pub(super) const SAMPLE_SECONDS: u64 = 10;

/// Samples kept: those of an hour. Beyond it the oldest goes.
const KEPT: usize = 360;

/// Samples that make a row of the store: two minutes.
pub(super) const SAMPLES_PER_ROW: u64 = 12;

/// Steps that a chart has if its reader names none: enough for the pixels of a wide screen.
const USUAL_STEPS: u64 = 360;

/// Steps that an answer has at most; with a smaller step it covers more time with each.
const MOST_STEPS: u64 = 1000;

const SECOND_NS: i64 = 1_000_000_000;

/// In units that fit half the bytes: a cluster of four million cores and four exabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Amounts {
    cpu_millis: u32,
    memory_mib: u32,
    disk_mib: u32,
    gpus: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    time: Timestamp,
    capacity: Amounts,
    allocated: Amounts,
    nodes: u32,
    queued: u32,
    running: u32,
    /// Jobs that completed and failed since the sample before.
    completed: u32,
    failed: u32,
}

/// Samples, the oldest first.
pub(super) struct Ring {
    samples: VecDeque<Sample>,
    /// How many jobs had completed and failed at the last sample.
    ended: (u64, u64),
}

/// The samples of one step.
#[derive(Default)]
struct Sum {
    samples: u64,
    capacity: [u64; 4],
    allocated: [u64; 4],
    nodes: u64,
    queued: u64,
    running: u64,
    completed: u64,
    failed: u64,
}

// === impl Ring ===

impl Ring {
    pub(super) fn beginning_with(counts: &Counts) -> Self {
        Self { samples: VecDeque::new(), ended: (counts.jobs.completed, counts.jobs.failed) }
    }

    pub(super) fn push(&mut self, time: Timestamp, fleet: &Fleet, counts: &Counts) {
        let ended = (counts.jobs.completed, counts.jobs.failed);
        let before = std::mem::replace(&mut self.ended, ended);
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            time,
            capacity: Amounts::from_resources(&fleet.capacity),
            allocated: Amounts::from_resources(&fleet.allocated),
            nodes: narrow(fleet.nodes.connected),
            queued: narrow(counts.jobs.queued),
            running: narrow(counts.executions.running),
            completed: narrow(ended.0.saturating_sub(before.0)),
            failed: narrow(ended.1.saturating_sub(before.1)),
        });
    }

    /// When the oldest sample was taken; none if there is none.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.samples.front().map(|sample| sample.time)
    }

    /// The last samples as one, for the store; none before there are as many.
    pub(super) fn row(&self) -> Option<LoadRow> {
        let count = usize::try_from(SAMPLES_PER_ROW).unwrap_or(usize::MAX);
        let first = self.samples.len().checked_sub(count)?;
        let mut sum = Sum::default();
        self.samples.range(first..).for_each(|sample| sum.add(sample));
        let time = self.samples.get(first)?.time;
        Some(LoadRow { time, sample: sum.mean(time) })
    }

    /// The samples from this time on, one for each step, in seconds; `rows` are of the time before
    /// those in memory.
    pub(super) fn load(
        &self,
        rows: &[LoadRow],
        since: Timestamp,
        now: Timestamp,
        step: Option<u64>,
    ) -> ClusterLoad {
        let rows: Vec<Sample> = rows.iter().map(Sample::of_row).collect();
        let all = || rows.iter().chain(&self.samples);
        let oldest = all().next().map_or(now, |sample| sample.time);
        let span = now.since(since.max(oldest)).as_secs();
        let step = step_seconds(span, step);
        let length = i64::try_from(step).unwrap_or(i64::MAX).saturating_mul(SECOND_NS);
        let mut samples: Vec<(i64, Sum)> = Vec::new();
        for sample in all().filter(|sample| sample.time >= since) {
            let begin = sample.time.0.div_euclid(length).saturating_mul(length);
            match samples.last_mut() {
                Some((last, sum)) if *last == begin => sum.add(sample),
                _ => {
                    let mut sum = Sum::default();
                    sum.add(sample);
                    samples.push((begin, sum));
                }
            }
        }
        let samples = samples.iter().map(|(begin, sum)| sum.mean(Timestamp(*begin))).collect();
        ClusterLoad { step, samples }
    }
}

/// A multiple of the time between two samples, such that the answer is not too long.
fn step_seconds(span: u64, asked: Option<u64>) -> u64 {
    let of = |steps: u64| span.div_ceil(steps).max(1);
    let step = asked.unwrap_or_else(|| of(USUAL_STEPS)).max(of(MOST_STEPS));
    step.div_ceil(SAMPLE_SECONDS).saturating_mul(SAMPLE_SECONDS)
}

// === impl Sample ===

impl Sample {
    fn of_row(LoadRow { time, sample }: &LoadRow) -> Self {
        Self {
            time: *time,
            capacity: Amounts::from_resources(&sample.capacity.into()),
            allocated: Amounts::from_resources(&sample.allocated.into()),
            nodes: narrow(sample.nodes),
            queued: narrow(sample.queued),
            running: narrow(sample.running),
            completed: narrow(sample.completed),
            failed: narrow(sample.failed),
        }
    }
}

// === impl Amounts ===

impl Amounts {
    fn from_resources(resources: &Resources) -> Self {
        Self {
            cpu_millis: narrow(resources.cpu_millis),
            memory_mib: narrow(resources.memory_bytes >> 20),
            disk_mib: narrow(resources.disk_bytes >> 20),
            gpus: narrow(resources.gpus),
        }
    }

    fn parts(self) -> [u32; 4] {
        [self.cpu_millis, self.memory_mib, self.disk_mib, self.gpus]
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

// === impl Sum ===

impl Sum {
    fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        for (sum, part) in self.capacity.iter_mut().zip(sample.capacity.parts()) {
            *sum += u64::from(part);
        }
        for (sum, part) in self.allocated.iter_mut().zip(sample.allocated.parts()) {
            *sum += u64::from(part);
        }
        self.nodes += u64::from(sample.nodes);
        self.queued += u64::from(sample.queued);
        self.running += u64::from(sample.running);
        self.completed += u64::from(sample.completed);
        self.failed += u64::from(sample.failed);
    }

    /// Means, rounded to the nearest; what happened is added up.
    fn mean(&self, time: Timestamp) -> LoadSample {
        let mean = |sum: u64| (sum + self.samples / 2) / self.samples.max(1);
        let amounts = |sums: [u64; 4]| -> Capacity {
            let [cpu_millis, memory_mib, disk_mib, gpus] = sums.map(mean);
            let (memory_bytes, disk_bytes) = (memory_mib << 20, disk_mib << 20);
            Resources { cpu_millis, memory_bytes, disk_bytes, gpus }.into()
        };
        LoadSample {
            capacity: amounts(self.capacity),
            allocated: amounts(self.allocated),
            nodes: mean(self.nodes),
            queued: mean(self.queued),
            running: mean(self.running),
            completed: self.completed,
            failed: self.failed,
            ..LoadSample::empty(time)
        }
    }
}

#[cfg(test)]
mod tests {
    use api_types::cluster::{JobCounts, LiveExecutions, NodeCounts};

    use super::*;

    const BEGIN: i64 = 1_700_000_000 * SECOND_NS;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(BEGIN + seconds * SECOND_NS)
    }

    fn fleet(nodes: u64, allocated_millis: u64) -> Fleet {
        let resources = |cpu_millis| Resources {
            cpu_millis,
            memory_bytes: cpu_millis << 20,
            disk_bytes: 0,
            gpus: nodes,
        };
        Fleet {
            nodes: NodeCounts { total: nodes, connected: nodes, ..NodeCounts::default() },
            capacity: resources(4000 * nodes),
            allocated: resources(allocated_millis),
        }
    }

    fn counts(running: u64, completed: u64, failed: u64) -> Counts {
        Counts {
            jobs: JobCounts { queued: 1, completed, failed, ..JobCounts::default() },
            executions: LiveExecutions { starting: 0, running },
        }
    }

    #[test]
    fn a_step_has_the_means_of_its_samples_and_the_sum_of_what_ended() {
        let mut ring = Ring::beginning_with(&counts(0, 100, 7));
        ring.push(at(0), &fleet(1, 1000), &counts(1, 103, 7));
        ring.push(at(10), &fleet(1, 2000), &counts(2, 104, 9));
        ring.push(at(20), &fleet(2, 3000), &counts(4, 104, 9));
        let load = ring.load(&[], at(0), at(25), Some(20));
        assert_eq!(load.step, 20);
        let shown: Vec<_> = load
            .samples
            .iter()
            .map(|s| (s.capacity.cpu, s.allocated.cpu, s.nodes, s.queued, s.running))
            .collect();
        assert_eq!(shown, [(4.0, 1.5, 1, 1, 2), (8.0, 3.0, 2, 1, 4)]);
        let ended: Vec<_> = load.samples.iter().map(|s| (s.completed, s.failed)).collect();
        assert_eq!(ended, [(4, 2), (0, 0)]);
        assert_eq!(load.samples[0].time, at(0).rfc3339());
        assert_eq!(load.samples[0].allocated.memory, 1500 << 20);
        let late = ring.load(&[], at(15), at(25), Some(1));
        assert_eq!((late.step, late.samples.len()), (10, 1));
    }

    #[test]
    fn the_oldest_sample_goes_and_an_answer_stays_short() {
        let mut ring = Ring::beginning_with(&counts(0, 0, 0));
        let samples = i64::try_from(KEPT).unwrap() + 5;
        for n in 0..samples {
            ring.push(at(10 * n), &fleet(1, 0), &counts(0, 0, 0));
        }
        assert_eq!(ring.samples.len(), KEPT);
        let now = at(10 * samples);
        assert_eq!(std::mem::size_of::<Sample>() * KEPT / 1000, 23);
        let hour = ring.load(&[], now - std::time::Duration::from_secs(3600), now, None);
        assert_eq!((hour.step, hour.samples.len()), (10, 360));
        // A week of the store before it.
        let week: Vec<_> = (1..=5040)
            .rev()
            .map(|n| at(-120 * n))
            .map(|time| LoadRow {
                time,
                sample: LoadSample { queued: 7, ..LoadSample::empty(time) },
            })
            .collect();
        let finest = ring.load(&week, Timestamp::ZERO, now, Some(0));
        assert!(finest.samples.len() <= 1001 && finest.step >= 600, "{}", finest.step);
        let last = finest.samples.last().unwrap();
        assert_eq!((finest.samples[0].queued, last.queued), (7, 1));
        let row = ring.row().unwrap();
        assert_eq!((row.time, row.sample.queued), (now - std::time::Duration::from_secs(120), 1));
    }

    #[test]
    fn an_empty_ring_has_no_samples() {
        let ring = Ring::beginning_with(&counts(0, 0, 0));
        let load = ring.load(&[], Timestamp::ZERO, at(0), None);
        assert_eq!((load.step, load.samples.len()), (10, 0));
    }
}
