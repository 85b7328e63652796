//! What an execution, a job or a node used over time, in few points; `docs/api.md`, "Usage over
//! time".

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Points of the curve of an execution or a job, however long it runs.
pub const MAX_POINTS: usize = 120;

/// Points of a node's finer curve: one for each ten seconds of an hour.
pub const HOUR_POINTS: usize = 360;

/// Points of a node's coarser curve: one for each two minutes of a day.
pub const DAY_POINTS: usize = 720;

/// More cores than any machine has.
pub(crate) const MOST_CORES: f64 = 1e6;

const SECOND_NS: i64 = 1_000_000_000;

/// CPU and memory over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct UsageCurve {
    /// When the first point begins.
    pub begin_time: Timestamp,
    /// When the last point ends; it may cover less than `Step`.
    pub end_time: Timestamp,
    /// Seconds that each point covers.
    pub step: u32,
    /// Mean cores in use, per point.
    #[serde(rename = "CPU")]
    pub cpu: Vec<f32>,
    /// Most bytes of memory in use, per point.
    pub memory: Vec<u64>,
}

/// What the executions of a node used and held.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NodeCurve {
    pub used: UsageCurve,
    /// Mean cores that executions held, per point.
    #[serde(rename = "AllocatedCPU")]
    pub allocated_cpu: Vec<f32>,
    /// Most bytes of memory that executions held, per point.
    pub allocated_memory: Vec<u64>,
}

// === impl NodeCurve ===

impl NodeCurve {
    /// As [`UsageCurve::is_sound`].
    pub fn is_sound(&self, most: usize) -> bool {
        let points = self.used.cpu.len();
        let is_empty = points == 0 && self.used.memory.is_empty();
        (is_empty || self.used.is_sound(most))
            && self.allocated_cpu.len() == points
            && self.allocated_memory.len() == points
            && self.allocated_cpu.iter().all(|cores| (0.0..MOST_CORES).contains(&f64::from(*cores)))
    }
}

// === impl UsageCurve ===

impl UsageCurve {
    /// The same with at most `most` points, each of several of these.
    #[must_use]
    pub fn reduced(&self, most: usize) -> Self {
        sum(std::slice::from_ref(self), most)
    }

    /// Whether the numbers can be what a node measured; another is not believed.
    pub fn is_sound(&self, most: usize) -> bool {
        let step = i64::from(self.step).saturating_mul(SECOND_NS);
        let covered = self.end_time.0.saturating_sub(self.begin_time.0);
        let points = i64::try_from(self.cpu.len()).unwrap_or(i64::MAX);
        self.cpu.len() == self.memory.len()
            && self.cpu.len() <= most
            && step > 0
            && self.begin_time.0 >= 0
            && covered <= points.saturating_mul(step)
            && covered > points.saturating_sub(1).saturating_mul(step)
            && self.cpu.iter().all(|cores| (0.0..MOST_CORES).contains(&f64::from(*cores)))
    }

    /// The bounds of each point, in nanoseconds since 1970, with its cores and bytes.
    fn points(&self) -> impl Iterator<Item = Point> {
        let step = i64::from(self.step) * SECOND_NS;
        let (begin, end) = (self.begin_time.0, self.end_time.0);
        (0..).zip(self.cpu.iter().zip(&self.memory)).map(move |(at, (cpu, memory))| Point {
            from: begin + at * step,
            to: (begin + (at + 1) * step).min(end),
            cores: f64::from(*cpu),
            memory: *memory,
        })
    }
}

struct Point {
    from: i64,
    to: i64,
    cores: f64,
    memory: u64,
}

/// The curves together, on one grid of at most `most` points: cores and bytes are added up, and a
/// curve counts for nothing before it begins and after it ends.
pub fn sum(curves: &[UsageCurve], most: usize) -> UsageCurve {
    let begin = curves.iter().map(|curve| curve.begin_time.0).min().unwrap_or(0);
    let end = curves.iter().map(|curve| curve.end_time.0).max().unwrap_or(0);
    let finest = curves.iter().map(|curve| curve.step).min().unwrap_or(1).max(1);
    let most = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
    let least_step = (end - begin).div_ceil_by(most.saturating_mul(SECOND_NS));
    let step = u32::try_from(least_step).unwrap_or(u32::MAX).max(finest);
    let step_ns = i64::from(step) * SECOND_NS;
    let count = usize::try_from((end - begin).div_ceil_by(step_ns)).unwrap_or(0);
    let mut core_ns = vec![0.0; count];
    let mut memory = vec![0_u64; count];
    for curve in curves {
        let mut most_memory = vec![0_u64; count];
        for point in curve.points() {
            let mut from = point.from;
            while from < point.to {
                let at = (from - begin) / step_ns;
                let to = point.to.min(begin + (at + 1) * step_ns);
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                if let (Some(cores), Some(most)) = (core_ns.get_mut(at), most_memory.get_mut(at)) {
                    *cores += point.cores * seconds(to - from);
                    *most = point.memory.max(*most);
                }
                from = to;
            }
        }
        for (sum, most) in memory.iter_mut().zip(most_memory) {
            *sum = sum.saturating_add(most);
        }
    }
    let covered = |at: usize| {
        let from = begin + i64::try_from(at).unwrap_or(0) * step_ns;
        seconds((end - from).min(step_ns))
    };
    let cpu = core_ns.iter().enumerate().map(|(at, sum)| millis(sum / covered(at))).collect();
    UsageCurve { begin_time: Timestamp(begin), end_time: Timestamp(end), step, cpu, memory }
}

/// Rounded to millicores.
#[expect(clippy::cast_possible_truncation, reason = "a number of cores has few digits")]
pub fn millis(cores: f64) -> f32 {
    ((cores * 1000.0).round() / 1000.0) as f32
}

#[expect(clippy::cast_precision_loss, reason = "a duration is far below 2^53 ns times its error")]
fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Division that rounds up, of numbers that are not negative.
trait DivCeilBy {
    fn div_ceil_by(self, by: Self) -> Self;
}

impl DivCeilBy for i64 {
    fn div_ceil_by(self, by: Self) -> Self {
        if self <= 0 { 0 } else { (self - 1) / by.max(1) + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(begin: i64, step: u32, cpu: &[f32], memory: &[u64]) -> UsageCurve {
        let points = i64::try_from(cpu.len()).unwrap();
        UsageCurve {
            begin_time: Timestamp(begin * SECOND_NS),
            end_time: Timestamp((begin + points * i64::from(step)) * SECOND_NS),
            step,
            cpu: cpu.to_vec(),
            memory: memory.to_vec(),
        }
    }

    #[test]
    fn a_sum_counts_each_curve_while_it_lasts() {
        let long = curve(100, 2, &[1.0, 1.0, 0.5], &[10, 30, 20]);
        let short = curve(103, 1, &[2.0, 2.0], &[5, 7]);
        let both = sum(&[long.clone(), short], 6);
        assert_eq!(
            (both.begin_time, both.end_time, both.step),
            (long.begin_time, long.end_time, 1)
        );
        assert_eq!(both.cpu, [1.0, 1.0, 1.0, 3.0, 2.5, 0.5]);
        assert_eq!(both.memory, [10, 10, 30, 35, 27, 20]);
        let coarse = both.reduced(2);
        assert_eq!((coarse.step, coarse.cpu.clone()), (3, vec![1.0, 2.0]));
        assert_eq!(coarse.memory, [30, 35]);
        assert!(both.is_sound(6) && coarse.is_sound(2) && !both.is_sound(5));
    }

    #[test]
    fn a_last_point_that_covers_less_keeps_its_mean() {
        let mut half = curve(0, 4, &[1.0, 1.0], &[1, 2]);
        half.end_time = Timestamp(5 * SECOND_NS);
        assert!(half.is_sound(2));
        assert_eq!(half.reduced(1).cpu, [1.0]);
        assert_eq!(sum(&[half.clone(), half], 9).cpu, [2.0, 2.0]);
        assert_eq!(sum(&[], 9).cpu, Vec::<f32>::new());
    }

    #[test]
    fn what_no_node_measured_is_not_believed() {
        let sound = curve(5, 1, &[0.5], &[1]);
        assert!(sound.is_sound(MAX_POINTS));
        for lie in [
            UsageCurve { cpu: vec![f32::NAN], ..sound.clone() },
            UsageCurve { cpu: vec![-1.0], ..sound.clone() },
            UsageCurve { memory: Vec::new(), ..sound.clone() },
            UsageCurve { step: 0, ..sound.clone() },
            UsageCurve { end_time: Timestamp(i64::MAX), ..sound.clone() },
            UsageCurve { begin_time: Timestamp(i64::MIN), ..sound },
        ] {
            assert!(!lie.is_sound(MAX_POINTS), "{lie:?}");
        }
    }
}
