//! Timestamps: Unix nanoseconds, UTC.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// Unix nanoseconds, UTC; 19 digits until the year 2286.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub const ZERO: Self = Self(0);

    /// RFC 3339, UTC, with nine fractional digits and `Z`.
    pub fn rfc3339(self) -> String {
        let format = format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:9]Z"
        );
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0))
            .ok()
            .and_then(|moment| moment.format(&format).ok())
            .unwrap_or_else(|| String::from("1970-01-01T00:00:00.000000000Z"))
    }

    /// RFC 3339, UTC, whole seconds, `Z`: for messages.
    pub fn rfc3339_seconds(self) -> String {
        let mut text = self.rfc3339();
        if let Some(dot) = text.find('.') {
            text.replace_range(dot.., "Z");
        }
        text
    }

    /// Parses Unix seconds (optionally with a fraction) or RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(seconds) = text.parse::<i64>() {
            return seconds.checked_mul(1_000_000_000).map(Self);
        }
        if let Some((whole, fraction)) = text.split_once('.')
            && let Ok(seconds) = whole.parse::<i64>()
            && !fraction.is_empty()
            && fraction.len() <= 9
            && fraction.bytes().all(|byte| byte.is_ascii_digit())
        {
            let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
            return seconds.checked_mul(1_000_000_000)?.checked_add(nanos).map(Self);
        }
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        i64::try_from(moment.unix_timestamp_nanos()).ok().map(Self)
    }

    /// Time elapsed since `earlier`; zero when `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_has_nine_fractional_digits() {
        let moment = Timestamp(1_700_000_000_000_000_042);
        assert_eq!(moment.rfc3339(), "2023-11-14T22:13:20.000000042Z");
        assert_eq!(Timestamp::parse(&moment.rfc3339()), Some(moment));
    }

    #[test]
    fn unix_seconds_are_parsed_with_and_without_a_fraction() {
        assert_eq!(Timestamp::parse("1700000000"), Some(Timestamp(1_700_000_000_000_000_000)));
        assert_eq!(Timestamp::parse("1700000000.5"), Some(Timestamp(1_700_000_000_500_000_000)));
        assert_eq!(Timestamp::parse("yesterday"), None);
        assert_eq!(Timestamp::parse("99999999999999"), None);
    }
}
