//! Ages: one number and one unit.

use std::time::Duration;

use api_types::Timestamp;

/// Shown in place of an absent time.
const NEVER: &str = "-";

/// Time from `moment` to `now`: `12s`, `3m`, `5h`, `2d`, `1y`.
pub(crate) fn age(now: Timestamp, moment: Timestamp) -> String {
    seconds(now.since(moment))
}

/// The same for an RFC 3339 text; `-` when it is empty.
pub(crate) fn age_of_text(now: Timestamp, moment: &str) -> String {
    Timestamp::parse(moment).map_or_else(|| NEVER.to_owned(), |moment| age(now, moment))
}

/// A time with its unit, as precise as it is short: `0.4 s`, `12.0 s`, `3 min 20 s`, `5 h 3 min`.
pub(crate) fn short_time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats in the largest unit of which there is at least one, rounded down.
fn seconds(duration: Duration) -> String {
    const UNITS: [(u64, char); 4] = [(365 * 86_400, 'y'), (86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let seconds = duration.as_secs();
    UNITS
        .iter()
        .find(|(size, _)| seconds >= *size)
        .map_or_else(|| format!("{seconds}s"), |(size, unit)| format!("{}{unit}", seconds / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit_and_is_rounded_down() {
        for (after, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_599, "59m"),
            (3_600, "1h"),
            (86_399, "23h"),
            (86_400, "1d"),
            (364 * 86_400, "364d"),
            (365 * 86_400, "1y"),
        ] {
            let now = Timestamp(1_700_000_000_000_000_000) + Duration::from_secs(after);
            assert_eq!(age(now, Timestamp(1_700_000_000_000_000_000)), text);
        }
    }

    #[test]
    fn a_short_time_is_as_precise_as_it_is_short() {
        for (millis, text) in
            [(0, "0.0 s"), (420, "0.4 s"), (200_000, "3 min 20 s"), (18_200_000, "5 h 3 min")]
        {
            assert_eq!(short_time(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn an_age_is_never_negative() {
        assert_eq!(age(Timestamp(1), Timestamp(5_000_000_000)), "0s");
    }

    #[test]
    fn an_absent_time_has_no_age() {
        assert_eq!(age_of_text(Timestamp(0), ""), "-");
        let now = Timestamp::parse("2026-11-21T08:00:10Z").unwrap();
        assert_eq!(age_of_text(now, "2026-11-21T08:00:00.000000000Z"), "10s");
    }
}
