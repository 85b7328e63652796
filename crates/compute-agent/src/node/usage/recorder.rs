//! The curve of one execution, recorded in bounded memory.
//!
//! A point has eight bytes. When the points are full, pairs are merged, so that a curve always
//! covers the whole life of its execution, in coarser and coarser steps. CPU comes from a counter:
//! what was used between two samples is spread evenly over the time between them, however long the
//! agent was away.

use std::time::Duration;

use api_types::Timestamp;
use api_types::curve::{MAX_POINTS, UsageCurve, millis};

/// The first step; the shortest interval between samples is as long.
const FIRST_STEP: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    begin: Timestamp,
    step: Duration,
    covered: Duration,
    /// The counter at the end of what is covered.
    cpu_seconds: f64,
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Point {
    cpu_seconds: f32,
    memory_bytes: f32,
}

// === impl Recorder ===

impl Recorder {
    /// Begins with the first sample.
    pub(crate) fn begin(begin: Timestamp, cpu_seconds: f64) -> Self {
        let (step, covered) = (FIRST_STEP, Duration::ZERO);
        Self { begin, step, covered, cpu_seconds, points: Vec::new() }
    }

    /// Continues what an earlier agent recorded until the counter was at `cpu_seconds`; none if
    /// that is damaged.
    pub(crate) fn resume(curve: &UsageCurve, cpu_seconds: f64) -> Option<Self> {
        if !curve.is_sound(MAX_POINTS) {
            return None;
        }
        let step = Duration::from_secs(u64::from(curve.step));
        let covered = curve.end_time.since(curve.begin_time);
        let mut recorder =
            Self { begin: curve.begin_time, step, covered, cpu_seconds, points: Vec::new() };
        recorder.points = (0..)
            .zip(curve.cpu.iter().zip(&curve.memory))
            .map(|(at, (cores, memory))| Point {
                cpu_seconds: cores * recorder.covered_of(at).as_secs_f32(),
                memory_bytes: approximate(*memory),
            })
            .collect();
        Some(recorder)
    }

    /// Adds what was used since the sample before, `elapsed` ago.
    pub(crate) fn add(&mut self, elapsed: Duration, cpu_seconds: f64, memory_bytes: u64) {
        // In whole milliseconds, so that many short samples do not leave gaps.
        let elapsed = Duration::from_millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        let end = self.covered.saturating_add(elapsed);
        if elapsed.is_zero() || end.as_millis() > u128::from(u32::MAX) * 1000 {
            return;
        }
        while end > self.step * LENGTH {
            self.merge_pairs();
        }
        let used = (cpu_seconds - self.cpu_seconds).max(0.0);
        self.cpu_seconds = cpu_seconds.max(self.cpu_seconds);
        let memory_bytes = approximate(memory_bytes);
        let mut from = self.covered;
        while from < end {
            let at = index(from, self.step);
            let to = end.min(self.step * u32::try_from(at + 1).unwrap_or(u32::MAX));
            if self.points.len() <= at {
                self.points.resize(at + 1, Point::default());
            }
            let point = &mut self.points[at];
            let share = (to - from).div_duration_f64(elapsed);
            point.cpu_seconds += narrow(used * share);
            point.memory_bytes = point.memory_bytes.max(memory_bytes);
            from = to;
        }
        self.covered = end;
    }

    fn merge_pairs(&mut self) {
        let merged = self.points.chunks(2).map(|pair| Point {
            cpu_seconds: pair.iter().map(|point| point.cpu_seconds).sum(),
            memory_bytes: pair.iter().map(|point| point.memory_bytes).fold(0.0, f32::max),
        });
        self.points = merged.collect();
        self.step *= 2;
    }

    /// How much of the point's step is covered.
    fn covered_of(&self, at: u32) -> Duration {
        self.covered.saturating_sub(self.step * at).min(self.step)
    }

    /// The curve; none before anything is covered.
    pub(crate) fn curve(&self) -> Option<UsageCurve> {
        if self.points.is_empty() {
            return None;
        }
        let cores = (0..).zip(&self.points).map(|(at, point)| {
            millis(f64::from(point.cpu_seconds) / self.covered_of(at).as_secs_f64())
        });
        let memory = self.points.iter().map(|point| whole(point.memory_bytes));
        Some(UsageCurve {
            begin_time: self.begin,
            end_time: self.begin + self.covered,
            step: u32::try_from(self.step.as_secs()).unwrap_or(u32::MAX),
            cpu: cores.collect(),
            memory: memory.collect(),
        })
    }
}

/// As many, for products with a duration.
const LENGTH: u32 = 120;
const _: () = assert!(LENGTH as usize == MAX_POINTS);

fn index(at: Duration, step: Duration) -> usize {
    usize::try_from(at.as_millis() / step.as_millis()).unwrap_or(usize::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "seven digits suffice for a chart")]
fn narrow(number: f64) -> f32 {
    number as f32
}

#[expect(clippy::cast_precision_loss, reason = "seven digits suffice for a chart")]
fn approximate(bytes: u64) -> f32 {
    bytes as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was made from a number of bytes"
)]
fn whole(bytes: f32) -> u64 {
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Timestamp = Timestamp(1_700_000_000_000_000_000);

    fn recorded(samples: &[(f64, f64, u64)]) -> Recorder {
        let mut recorder = Recorder::begin(BEGIN, 0.0);
        for (elapsed, cpu_seconds, memory) in samples {
            recorder.add(Duration::from_secs_f64(*elapsed), *cpu_seconds, *memory);
        }
        recorder
    }

    #[test]
    fn what_was_used_between_samples_is_spread_over_their_time() {
        assert_eq!(Recorder::begin(BEGIN, 3.0).curve(), None);
        let curve = recorded(&[(1.0, 0.5, 7), (2.5, 1.75, 9)]).curve().unwrap();
        assert_eq!(curve.cpu, [0.5, 0.5, 0.5, 0.5]);
        assert_eq!(curve.memory, [7, 9, 9, 9]);
        assert_eq!((curve.step, curve.end_time), (1, BEGIN + Duration::from_millis(3500)));
        assert!(curve.is_sound(MAX_POINTS));
    }

    #[test]
    fn a_full_curve_gets_coarser_and_keeps_what_was_used() {
        let mut recorder = Recorder::begin(BEGIN, 0.0);
        let mut used = 0.0;
        for second in 0..10_000_u32 {
            let cores = if second < 5000 { 0.25 } else { 0.75 };
            used += cores;
            recorder.add(Duration::from_secs(1), used, 50_000_000);
        }
        let curve = recorder.curve().unwrap();
        assert!(curve.is_sound(MAX_POINTS) && curve.cpu.len() > MAX_POINTS / 2);
        assert_eq!(curve.step, 128);
        let total: f64 = (0..)
            .zip(&curve.cpu)
            .map(|(at, cores)| f64::from(*cores) * recorder.covered_of(at).as_secs_f64())
            .sum();
        assert!((total - used).abs() < used / 1000.0, "{total} of {used}");
        assert_eq!((curve.cpu[0], *curve.cpu.last().unwrap()), (0.25, 0.75));
        assert!(curve.memory.iter().all(|bytes| *bytes == 50_000_000));
    }

    #[test]
    fn another_agent_continues_over_the_gap() {
        let before = recorded(&[(10.0, 5.0, 100)]);
        let mut after = Recorder::resume(&before.curve().unwrap(), 5.0).unwrap();
        after.add(Duration::from_secs(30), 20.0, 200);
        let curve = after.curve().unwrap();
        assert_eq!(curve.cpu, [0.5; 40]);
        assert_eq!((curve.begin_time, curve.end_time), (BEGIN, BEGIN + Duration::from_secs(40)));
        let damaged = UsageCurve { step: 0, ..curve };
        assert!(Recorder::resume(&damaged, 1.0).is_none());
    }

    #[test]
    fn a_thousand_curves_take_less_than_two_megabytes() {
        let mut recorder = Recorder::begin(BEGIN, 0.0);
        for second in 0..500_u32 {
            recorder.add(Duration::from_secs(1), f64::from(second), 1);
        }
        let bytes = size_of::<Recorder>() + recorder.points.capacity() * size_of::<Point>();
        assert_eq!(size_of::<Point>(), 8);
        assert!(1000 * bytes <= 2_000_000, "{bytes}");
    }
}
