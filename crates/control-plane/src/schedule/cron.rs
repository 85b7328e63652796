//! Cron expressions of five fields, and the times that they name in a time zone.
//!
//! Minute, hour, day of the month, month, day of the week; lists, ranges, steps, and names of
//! months and days. If both days are restricted, either suffices, as in every other cron.
//!
//! When clocks change: an expression whose minute and hour have neither `*` nor `/` names fixed
//! times of the day. One that the change skips is due at the end of the gap; one that comes twice is
//! due the first time. Any other expression names instants: it follows elapsed time.

mod field;

use api_types::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, ToSpan};

use self::field::Field;

/// The search for the next time ends this many years ahead. The rarest date, 29 February on a given
/// weekday, is at most 40 years away.
const HORIZON_YEARS: i32 = 60;

/// The longest expression: more than a person writes.
const MAX_CHARS: usize = 256;

/// No change of a clock moves it by more: an island has skipped a day.
const LONGEST_CHANGE: SignedDuration = SignedDuration::from_hours(25);

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// An expression in a time zone.
#[derive(Debug, Clone)]
pub struct Times {
    cron: Cron,
    zone: TimeZone,
}

// === impl Cron ===

impl Cron {
    /// Reads an expression; the error says what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > MAX_CHARS {
            return Err(format!("must have at most {MAX_CHARS} characters"));
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!(
                "must have five fields (minute, hour, day of the month, month, day of the week), \
                 like '30 2 * * *', got {}",
                fields.len()
            ));
        };
        let cron = Self {
            minutes: Field::parse(&field::MINUTE, minutes)?,
            hours: Field::parse(&field::HOUR, hours)?,
            days: Field::parse(&field::DAY, days)?,
            months: Field::parse(&field::MONTH, months)?,
            weekdays: Field::parse(&field::WEEKDAY, weekdays)?,
        };
        let of_a_leap_year = |month: u8| match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let exists = |month| cron.months.has(month) && cron.days.first() <= of_a_leap_year(month);
        let is_any_weekday = cron.days.is_star || cron.weekdays.is_star;
        if is_any_weekday && !(1..=12).any(exists) {
            return Err(format!("names no date: no such month has a day {}", cron.days.first()));
        }
        Ok(cron)
    }

    /// Whether it names times of the day, and not a rhythm.
    fn is_fixed(&self) -> bool {
        !self.minutes.has_rhythm && !self.hours.has_rhythm
    }

    fn has_date(&self, date: Date) -> bool {
        let day = self.days.has(date.day().unsigned_abs());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset().unsigned_abs());
        let by_day = match self.days.is_star || self.weekdays.is_star {
            true => day && weekday,
            false => day || weekday,
        };
        self.months.has(date.month().unsigned_abs()) && by_day
    }

    /// The first local time from this minute on, up to the end.
    fn local(&self, from: DateTime, end: DateTime) -> Option<DateTime> {
        let (mut date, mut hour, mut minute) =
            (from.date(), from.hour().unsigned_abs(), from.minute().unsigned_abs());
        while date <= end.date() {
            if !self.months.has(date.month().unsigned_abs()) {
                date = date.last_of_month().tomorrow().ok()?;
                (hour, minute) = (0, 0);
                continue;
            }
            if self.has_date(date)
                && let Some((hour, minute)) = self.time_of_day(hour, minute)
            {
                let found = date.at(hour.cast_signed(), minute.cast_signed(), 0, 0);
                return (found <= end).then_some(found);
            }
            date = date.tomorrow().ok()?;
            (hour, minute) = (0, 0);
        }
        None
    }

    /// The first time of a day from this one on.
    fn time_of_day(&self, hour: u8, minute: u8) -> Option<(u8, u8)> {
        if self.hours.has(hour)
            && let Some(minute) = self.minutes.from(minute)
        {
            return Some((hour, minute));
        }
        Some((self.hours.from(hour + 1)?, self.minutes.first()))
    }
}

// === impl Times ===

impl Times {
    /// The errors say which of the two is wrong.
    pub fn new(cron: Cron, zone: &str) -> Result<Self, String> {
        Ok(Self { cron, zone: time_zone(zone)? })
    }

    /// The first time after this one.
    pub fn after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = instant(after)?;
        let found = match self.cron.is_fixed() {
            true => self.fixed_after(after),
            false => self.elapsed_after(after),
        };
        found.map(timestamp)
    }

    /// The next times after this one.
    pub fn following(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        let next = |time: &Timestamp| self.after(*time);
        std::iter::successors(self.after(after), next).take(count).collect()
    }

    fn fixed_after(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let end = self.end(after)?;
        let local = self.zone.to_datetime(after);
        let changed = self.zone.preceding(after).next();
        let is_near =
            changed.is_some_and(|change| after.duration_since(change.timestamp()) < LONGEST_CHANGE);
        // A time that a recent change has skipped or repeated is due at another one.
        let mut from = if is_near { local.checked_sub(LONGEST_CHANGE).ok()? } else { local };
        loop {
            let found = self.cron.local(from, end)?;
            let due = self.of_fixed(found)?;
            if due > after {
                return Some(due);
            }
            from = found.checked_add(1.minute()).ok()?;
        }
    }

    /// When a fixed local time is due.
    fn of_fixed(&self, local: DateTime) -> Option<jiff::Timestamp> {
        let ambiguous = self.zone.to_ambiguous_zoned(local);
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
            AmbiguousOffset::Gap { after, .. } => {
                // With the offset after the gap, the time lies before it: the change comes next.
                let before = after.to_timestamp(local).ok()?;
                Some(self.zone.following(before).next()?.timestamp())
            }
        }
    }

    /// Between two changes of the clock, local times follow elapsed time.
    fn elapsed_after(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let end = self.end(after)?;
        let mut from = after.checked_add(1.nanosecond()).ok()?;
        loop {
            let change = self.zone.following(from).next().map(|change| change.timestamp());
            let offset = self.zone.to_offset(from);
            let local = minute_from(offset.to_datetime(from))?;
            let last = change.map(|change| offset.to_datetime(change));
            let last = last.map_or(end, |last| last.min(end));
            if let Some(found) = self.cron.local(local, last) {
                let found = offset.to_timestamp(found).ok()?;
                if change.is_none_or(|change| found < change) {
                    return Some(found);
                }
            }
            from = change.filter(|change| offset.to_datetime(*change) < end)?;
        }
    }

    fn end(&self, after: jiff::Timestamp) -> Option<DateTime> {
        self.zone.to_datetime(after).checked_add(HORIZON_YEARS.years()).ok()
    }
}

/// The time zone of this name, from the data in the program.
fn time_zone(name: &str) -> Result<TimeZone, String> {
    let zones = TimeZoneDatabase::bundled();
    let zone = zones.get(name).ok().filter(|_| name.is_ascii() && name.len() <= MAX_ZONE_BYTES);
    zone.ok_or_else(|| {
        "is not a known time zone; write 'UTC' or a name like 'Europe/Berlin'".to_owned()
    })
}

/// The longest name of a time zone has 32 bytes.
const MAX_ZONE_BYTES: usize = 64;

/// The first whole minute from this time on.
fn minute_from(local: DateTime) -> Option<DateTime> {
    let whole = local.date().at(local.hour(), local.minute(), 0, 0);
    if whole == local { Some(whole) } else { whole.checked_add(1.minute()).ok() }
}

fn instant(time: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_nanosecond(i128::from(time.0)).ok()
}

fn timestamp(time: jiff::Timestamp) -> Timestamp {
    Timestamp(i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
