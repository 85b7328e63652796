//! One field of a cron expression, as the set of its values.

/// What a field may hold.
pub(super) struct Kind {
    /// What an error calls it.
    name: &'static str,
    least: u8,
    most: u8,
    /// Words for the values, from the least one on.
    words: &'static [&'static str],
}

pub(super) const MINUTE: Kind = Kind { name: "minute", least: 0, most: 59, words: &[] };
pub(super) const HOUR: Kind = Kind { name: "hour", least: 0, most: 23, words: &[] };
pub(super) const DAY: Kind = Kind { name: "day of the month", least: 1, most: 31, words: &[] };
pub(super) const MONTH: Kind = Kind {
    name: "month",
    least: 1,
    most: 12,
    words: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// Sunday is 0 and 7.
pub(super) const WEEKDAY: Kind = Kind {
    name: "day of the week",
    least: 0,
    most: 7,
    words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

/// The values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// Bit n is set for the value n.
    values: u64,
    /// It begins with `*`: the field of the other kind of day decides.
    pub(super) is_star: bool,
    /// It has a `*` or a `/`.
    pub(super) has_rhythm: bool,
}

// === impl Field ===

impl Field {
    pub(super) fn parse(kind: &Kind, text: &str) -> Result<Self, String> {
        let mut values = 0;
        for part in text.split(',') {
            values |= kind.part(part)?;
        }
        if kind.most == WEEKDAY.most && values & 1 << 7 != 0 {
            values = values & !(1 << 7) | 1;
        }
        let (is_star, has_rhythm) = (text.starts_with('*'), text.contains(['*', '/']));
        Ok(Self { values, is_star, has_rhythm })
    }

    pub(super) fn has(self, value: u8) -> bool {
        value < 64 && self.values >> value & 1 == 1
    }

    /// The first value from this one on.
    pub(super) fn from(self, value: u8) -> Option<u8> {
        let rest = self.values.checked_shr(u32::from(value)).unwrap_or(0);
        let ahead = u8::try_from(rest.trailing_zeros()).unwrap_or(u8::MAX);
        (rest != 0).then(|| value + ahead)
    }

    /// No field is empty.
    pub(super) fn first(self) -> u8 {
        self.from(0).unwrap_or(0)
    }
}

// === impl Kind ===

impl Kind {
    /// The values of one entry of a list.
    fn part(&self, text: &str) -> Result<u64, String> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (text, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most.min(self.least + self.last_of_star())),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None if step.is_some() => (self.value(range)?, self.most),
            None => (self.value(range)?, self.value(range)?),
        };
        if from > to {
            return Err(format!(
                "the range '{range}' of the {} begins after its end; write two ranges, with a comma",
                self.name
            ));
        }
        let values = (from..=to).step_by(usize::from(step.unwrap_or(1)));
        Ok(values.fold(0, |values, value| values | 1 << value))
    }

    /// `*` counts a Sunday once.
    fn last_of_star(&self) -> u8 {
        if self.most == WEEKDAY.most { 6 } else { self.most - self.least }
    }

    fn step(&self, text: &str) -> Result<u8, String> {
        let step = number(text).filter(|step| (1..=self.most).contains(step));
        step.ok_or_else(|| {
            format!("the step '{text}' of the {} must be from 1 to {}", self.name, self.most)
        })
    }

    fn value(&self, text: &str) -> Result<u8, String> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let of_word = word.and_then(|at| u8::try_from(at).ok()).map(|at| at + self.least);
        let value = of_word.or_else(|| number(text));
        value.filter(|value| (self.least..=self.most).contains(value)).ok_or_else(|| {
            format!("the {} must be from {} to {}, got '{text}'", self.name, self.least, self.most)
        })
    }
}

/// Digits alone: no sign and no space.
fn number(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
