//! One figure with its target, and the arithmetic of samples.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Told for what it says about the others.
    None,
}

/// One row of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    pub target: Target,
    /// Absolute figures, and the floor or peer.
    pub beside: String,
}

// === impl Measure ===

impl Measure {
    pub(super) fn new(
        what: impl Into<String>,
        (value, unit): (f64, &'static str),
        target: Target,
        beside: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), value, unit, target, beside: beside.into() }
    }

    /// None where there is no target.
    pub fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(least) => Some(self.value >= least),
            Target::AtMost(most) => Some(self.value <= most),
            Target::None => None,
        }
    }

    /// The figure as a person reads it.
    pub fn figure(&self) -> String {
        let digits = match self.value.abs() {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 2,
        };
        format!("{:.digits$} {}", self.value, self.unit).trim_end().to_owned()
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "-",
        };
        write!(f, "{verdict:8} {}: {} ({})", self.what, self.figure(), self.beside)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::None => f.write_str("–"),
        }
    }
}

/// The sample below which this share of all samples lies; sorts them.
pub(super) fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    samples.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a few hundred thousand samples"
    )]
    let index = (samples.len() as f64 * share) as usize;
    samples.get(index.min(samples.len().saturating_sub(1))).copied().unwrap_or_default()
}

pub(super) fn median(samples: &mut [Duration]) -> Duration {
    percentile(samples, 0.5)
}

/// How far the median of these samples may be from that of all there could be: one standard error,
/// as of samples that scatter about it evenly.
pub(super) fn median_error(samples: &mut [Duration]) -> Duration {
    /// Of a normal distribution: the middle half spans 1.349 standard deviations, and the median
    /// of n samples scatters by 1.253 standard deviations, divided by the root of n.
    const MIDDLE_HALF: f64 = 1.349;
    const OF_MEDIAN: f64 = 1.253;
    let middle_half = percentile(samples, 0.75).saturating_sub(percentile(samples, 0.25));
    #[expect(clippy::cast_precision_loss, reason = "a few hundred samples")]
    let root = (samples.len().max(1) as f64).sqrt();
    middle_half.mul_f64(OF_MEDIAN / MIDDLE_HALF / root)
}

/// Rounds in which one figure was set against another: sorts them by the ratio of their first
/// figure to their second, and answers the middle one.
pub(super) fn middle<const N: usize>(rounds: &mut [[f64; N]]) -> [f64; N] {
    rounds.sort_unstable_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    rounds[rounds.len() / 2]
}

/// The first figure of a round over its second.
pub(super) fn ratio<const N: usize>(round: &[f64; N]) -> f64 {
    round[0] / round[1]
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// So many in this time, per second.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(super) fn rate(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(median(&mut samples), Duration::from_millis(51));
        assert_eq!(percentile(&mut samples, 0.99), Duration::from_millis(100));
        assert_eq!(percentile(&mut [], 0.99), Duration::ZERO);
        // The middle half spans 50 ms, and the root of a hundred is ten.
        assert_eq!(median_error(&mut samples).as_micros(), 4644);
    }

    #[test]
    fn the_middle_round_is_that_of_the_middle_ratio() {
        let mut rounds = [[8.0, 2.0, 1.0], [1.0, 1.0, 2.0], [4.0, 2.0, 3.0]];
        assert_eq!(middle(&mut rounds), [4.0, 2.0, 3.0]);
        assert_eq!(rounds.each_ref().map(ratio), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn a_figure_is_held_against_its_target() {
        let of = |value, target| Measure::new("x", (value, "ms"), target, "").is_met();
        assert_eq!(of(1.0, Target::AtLeast(1.0)), Some(true));
        assert_eq!(of(1.1, Target::AtMost(1.0)), Some(false));
        assert_eq!(of(1.1, Target::None), None);
    }
}
