//! What the executions of this node used and held: an hour in steps of ten seconds, and a day in
//! steps of two minutes.

use std::collections::VecDeque;
use std::time::Duration;

use api_types::Timestamp;
use api_types::curve::{DAY_POINTS, HOUR_POINTS, NodeCurve, UsageCurve, millis};
use serde::{Deserialize, Serialize};

/// Interval between samples, and the step of the hour.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// Samples that make a step of the day.
const SAMPLES_PER_STEP: u32 = 12;

/// A gap that is longer, or a clock that was set back, starts the rings anew: their points have no
/// times of their own.
const LONGEST_GAP_STEPS: u32 = 720;

/// What the executions of the node use and hold at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct NodeSample {
    pub(crate) cpu: f32,
    pub(crate) memory: u64,
    pub(crate) allocated_cpu: f32,
    pub(crate) allocated_memory: u64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Rings {
    hour: VecDeque<NodeSample>,
    day: VecDeque<NodeSample>,
    /// When the last point of each ends.
    hour_end: Timestamp,
    day_end: Timestamp,
    /// The samples of a step of the day that has not ended.
    open: Vec<NodeSample>,
}

// === impl Rings ===

impl Rings {
    /// Adds a sample; empty ones fill the time in which there was no agent.
    pub(crate) fn push(&mut self, now: Timestamp, sample: NodeSample) {
        let interval = SAMPLE_INTERVAL.as_secs();
        // To the nearest step: no sample comes exactly in time.
        let steps = (now.since(self.hour_end).as_secs() + interval / 2) / interval;
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if now < self.hour_end || steps > LONGEST_GAP_STEPS {
            *self = Self { hour_end: now, day_end: now, ..Self::default() };
        } else {
            for _ in 1..steps {
                self.add(NodeSample::default());
            }
        }
        self.add(sample);
        self.hour_end = now;
    }

    fn add(&mut self, sample: NodeSample) {
        bounded(&mut self.hour, sample, HOUR_POINTS);
        self.hour_end = self.hour_end + SAMPLE_INTERVAL;
        self.open.push(sample);
        if self.open.len() >= SAMPLES_PER_STEP as usize {
            bounded(&mut self.day, NodeSample::of_step(&self.open), DAY_POINTS);
            self.open.clear();
            self.day_end = self.hour_end;
        }
    }

    pub(crate) fn hour(&self) -> NodeCurve {
        curve(&self.hour, self.hour_end, SAMPLE_INTERVAL)
    }

    pub(crate) fn day(&self) -> NodeCurve {
        curve(&self.day, self.day_end, SAMPLE_INTERVAL * SAMPLES_PER_STEP)
    }
}

fn bounded(ring: &mut VecDeque<NodeSample>, sample: NodeSample, most: usize) {
    while ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(sample);
}

fn curve(ring: &VecDeque<NodeSample>, end: Timestamp, step: Duration) -> NodeCurve {
    let covered = step * u32::try_from(ring.len()).unwrap_or(u32::MAX);
    NodeCurve {
        used: UsageCurve {
            begin_time: end - covered,
            end_time: end,
            step: u32::try_from(step.as_secs()).unwrap_or(u32::MAX),
            cpu: ring.iter().map(|sample| sample.cpu).collect(),
            memory: ring.iter().map(|sample| sample.memory).collect(),
        },
        allocated_cpu: ring.iter().map(|sample| sample.allocated_cpu).collect(),
        allocated_memory: ring.iter().map(|sample| sample.allocated_memory).collect(),
    }
}

// === impl NodeSample ===

impl NodeSample {
    /// The mean of the cores, and the most memory.
    fn of_step(samples: &[Self]) -> Self {
        let count = f64::from(u32::try_from(samples.len().max(1)).unwrap_or(u32::MAX));
        let mean = |part: fn(&Self) -> f32| {
            millis(samples.iter().map(|sample| f64::from(part(sample))).sum::<f64>() / count)
        };
        let most = |part: fn(&Self) -> u64| samples.iter().map(part).max().unwrap_or(0);
        Self {
            cpu: mean(|sample| sample.cpu),
            memory: most(|sample| sample.memory),
            allocated_cpu: mean(|sample| sample.allocated_cpu),
            allocated_memory: most(|sample| sample.allocated_memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Timestamp = Timestamp(1_700_000_000_000_000_000);

    fn sample(cpu: f32) -> NodeSample {
        NodeSample { cpu, memory: 5, allocated_cpu: 2.0, allocated_memory: 9 }
    }

    #[test]
    fn an_hour_and_a_day_are_kept() {
        let mut rings = Rings::default();
        for number in 1..=20_000 {
            let cpu = if number <= 19_990 { 1.0 } else { 3.0 };
            rings.push(BEGIN + SAMPLE_INTERVAL * number, sample(cpu));
        }
        let (hour, day) = (rings.hour(), rings.day());
        assert!(hour.used.is_sound(HOUR_POINTS) && day.used.is_sound(DAY_POINTS));
        assert_eq!((hour.used.cpu.len(), hour.used.step), (HOUR_POINTS, 10));
        assert_eq!((day.used.cpu.len(), day.used.step), (DAY_POINTS, 120));
        assert_eq!((hour.used.cpu[349], hour.used.cpu[350]), (1.0, 3.0));
        assert_eq!(hour.used.end_time, BEGIN + SAMPLE_INTERVAL * 20_000);
        assert_eq!((day.allocated_cpu[0], day.allocated_memory[0]), (2.0, 9));
    }

    #[test]
    fn the_time_without_an_agent_is_empty() {
        let mut rings = Rings::default();
        rings.push(BEGIN, sample(1.0));
        rings.push(BEGIN + SAMPLE_INTERVAL, sample(1.0));
        rings.push(BEGIN + SAMPLE_INTERVAL * 5, sample(1.0));
        assert_eq!(rings.hour().used.cpu, [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        rings.push(BEGIN - SAMPLE_INTERVAL, sample(1.0));
        assert_eq!(rings.hour().used.cpu, [1.0], "the clock was set back");
    }
}
