//! Figures with targets, and statistics of samples.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// The target of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Informational.
    None,
}

/// One row of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    pub target: Target,
    /// Context: absolute figures, and those of the floor or peer.
    pub context: String,
}

/// Difference between the durations of paired runs, in milliseconds.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) median: f64,
    /// Standard error of the median, assuming a normal distribution.
    pub(super) error: f64,
}

/// For a normal distribution, the interquartile range is 1.349 standard deviations, and the standard
/// error of the median of n samples is 1.253 standard deviations divided by the root of n.
const MIDDLE_HALF: f64 = 1.349;
const OF_MEDIAN: f64 = 1.253;

// === impl Measure ===

impl Measure {
    pub(super) fn new(
        what: impl Into<String>,
        (value, unit): (f64, &'static str),
        target: Target,
        context: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), value, unit, target, context: context.into() }
    }

    /// Whether the target is met; `None` without a target.
    pub fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(least) => Some(self.value >= least),
            Target::AtMost(most) => Some(self.value <= most),
            Target::None => None,
        }
    }

    /// The value with its unit, rounded for display.
    pub fn figure(&self) -> String {
        let digits = match self.value.abs() {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 2,
        };
        format!("{:.digits$} {}", self.value, self.unit).trim_end().to_owned()
    }
}

// === impl Difference ===

impl Difference {
    pub(super) fn from_pairs(pairs: &[[Duration; 2]]) -> Self {
        let mut found: Vec<_> =
            pairs.iter().map(|[one, other]| millis(*one) - millis(*other)).collect();
        found.sort_unstable_by(f64::total_cmp);
        let at = |quarters: usize| found.get(found.len() * quarters / 4).copied().unwrap_or(0.0);
        let middle_half = at(3) - at(1);
        #[expect(clippy::cast_precision_loss, reason = "a few hundred pairs")]
        let root = (found.len().max(1) as f64).sqrt();
        Self { median: at(2), error: middle_half * OF_MEDIAN / MIDDLE_HALF / root }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = match self.is_met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "-",
        };
        write!(f, "{status:8} {}: {} ({})", self.what, self.figure(), self.context)
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

/// The sample at this quantile; sorts the samples.
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

/// The round with the median ratio of its first two figures; sorts the rounds by this ratio.
pub(super) fn median_round<const N: usize>(rounds: &mut [[f64; N]]) -> [f64; N] {
    rounds.sort_unstable_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    rounds[rounds.len() / 2]
}

/// The ratio of the first figure of a round to the second.
pub(super) fn ratio<const N: usize>(round: &[f64; N]) -> f64 {
    round[0] / round[1]
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Events per second.
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
    }

    #[test]
    fn a_difference_compares_pairs() {
        // Common drift cancels out: the machine slows down by a second per pair.
        let pairs: Vec<_> = (0..100)
            .map(|pair| [1000 * pair + 500 + pair, 1000 * pair + 500].map(Duration::from_millis))
            .collect();
        let Difference { median, error } = Difference::from_pairs(&pairs);
        // The middle half spans 50 ms, and the root of a hundred is ten.
        assert!((median - 50.0).abs() < 1e-6, "{median}");
        assert!((error - 4.644).abs() < 1e-3, "{error}");
        assert_eq!(Difference::from_pairs(&[]), Difference { median: 0.0, error: 0.0 });
    }

    #[test]
    fn the_median_round_has_the_median_ratio() {
        let mut rounds = [[8.0, 2.0, 1.0], [1.0, 1.0, 2.0], [4.0, 2.0, 3.0]];
        assert_eq!(median_round(&mut rounds), [4.0, 2.0, 3.0]);
        assert_eq!(rounds.each_ref().map(ratio), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn a_figure_is_compared_to_its_target() {
        let of = |value, target| Measure::new("x", (value, "ms"), target, "").is_met();
        assert_eq!(of(1.0, Target::AtLeast(1.0)), Some(true));
        assert_eq!(of(1.1, Target::AtMost(1.0)), Some(false));
        assert_eq!(of(1.1, Target::None), None);
    }
}
