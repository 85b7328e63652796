//! Times for people: of this machine's time zone, with its offset. Programs get those of the API.

use api_types::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;

/// Shown in place of an absent time.
const NEVER: &str = "-";

/// `2026-01-02 03:04:05 +01:00`.
pub(crate) fn local(moment: Timestamp) -> String {
    written("%Y-%m-%d %H:%M:%S %:z", moment)
}

/// The same for a time of the API; `-` if it is empty, and anything else as it is.
pub(crate) fn local_text(text: &str) -> String {
    match Timestamp::parse(text) {
        Some(moment) => local(moment),
        None if text.is_empty() => NEVER.to_owned(),
        None => text.to_owned(),
    }
}

/// A text of the service with the times in it as local ones.
pub(crate) fn with_local_times(text: &str) -> String {
    // `2026-01-02T03:04:05Z`, as the service writes them into messages.
    const LENGTH: usize = 20;
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('T') {
        let time = at.checked_sub("2026-01-02".len()).and_then(|from| {
            let found = rest.get(from..from + LENGTH).filter(|found| found.ends_with('Z'))?;
            Some((from, Timestamp::parse(found)?))
        });
        let end = match time {
            Some((from, moment)) => {
                shown.push_str(&rest[..from]);
                shown.push_str(&local(moment));
                from + LENGTH
            }
            None => {
                shown.push_str(&rest[..=at]);
                at + 1
            }
        };
        rest = &rest[end..];
    }
    shown + rest
}

/// `2026-01-02T03:04:05.678+01:00`, which is one word.
pub(crate) fn local_word(text: &str) -> String {
    let written = |moment| written("%Y-%m-%dT%H:%M:%S.%3f%:z", moment);
    Timestamp::parse(text).map_or_else(|| text.to_owned(), written)
}

/// The time of day, `03:04:05`, for a column whose header has [`offset`]; before today with the
/// date, `01-02 03:04:05`.
pub(crate) fn time_of_day(text: &str, now: Timestamp) -> String {
    let Some(moment) = Timestamp::parse(text).and_then(zoned) else { return text.to_owned() };
    let today = zoned(now).is_some_and(|now| now.date() == moment.date());
    let format = if today { "%H:%M:%S" } else { "%m-%d %H:%M:%S" };
    moment.strftime(format).to_string()
}

/// How far local time is from UTC now, like `+01:00`.
pub(crate) fn offset(now: Timestamp) -> String {
    written("%:z", now)
}

fn written(format: &str, moment: Timestamp) -> String {
    zoned(moment)
        .map_or_else(|| moment.rfc3339_seconds(), |zoned| zoned.strftime(format).to_string())
}

/// In the zone of `TZ` or of the system; UTC where neither is known.
fn zoned(moment: Timestamp) -> Option<Zoned> {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(moment.0)).ok()?;
    Some(moment.to_zoned(TimeZone::system()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_within_a_text_are_local() {
        let moment = "2026-11-21T08:49:26Z";
        let shown = local_text(moment);
        let text = format!("[0]: exit code 1 (5 tries since {moment}); next Try at {moment}");
        let expected = format!("[0]: exit code 1 (5 tries since {shown}); next Try at {shown}");
        assert_eq!(with_local_times(&text), expected);
        for other in ["", "T", "TTT", "2026-11-21T", "ä026-11-21T08:49:26Z", "no time: T08:49:26Z"]
        {
            assert_eq!(with_local_times(other), other);
        }
    }
}
