//! Durations on the command line: `90`, `90s`, `10m`, `2h`, `1d`.

use std::time::Duration;

/// Upper limit: a longer duration is a typing error, and exceeds some limits of the API.
const MAX_SECONDS: u64 = 100 * 365 * 86_400;

/// Parses a whole number with an optional unit; the default unit is seconds.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("'{text}' is not a duration like 90, 90s, 10m, 2h or 1d");
    let trimmed = text.trim();
    let split = trimmed.find(|character: char| !character.is_ascii_digit());
    let (number, unit) = trimmed.split_at(split.unwrap_or(trimmed.len()));
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(invalid()),
    };
    let number: u64 = number.parse().map_err(|_| invalid())?;
    number
        .checked_mul(factor)
        .filter(|seconds| *seconds <= MAX_SECONDS)
        .map(Duration::from_secs)
        .ok_or_else(|| format!("'{text}' is longer than a hundred years"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_at_most_one_unit() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7_200), ("1d", 86_400)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "1w", "1h30m", "-1", "1.5h", "99999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
