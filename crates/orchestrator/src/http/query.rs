//! The query string: parsed strictly, so that a typo is reported instead of misread.
//!
//! Unknown keys are ignored: any request may carry `pretty` or keys that proxies add. Repeating a
//! key that may appear once is refused. Each operation's parameters are a type of their own, see
//! [`typed`].

mod parts;
mod shapes;
mod typed;

use std::str::FromStr;
use std::time::Duration;

use api_types::Timestamp;
use api_types::selector::Selector;
use axum::extract::FromRequestParts;
use http::request::Parts;

use super::error::Failure;
pub(super) use parts::{
    EventFilters, HundredAPage, Labels, Reverse, Since, StreamFilters, TenAPage,
};
pub(super) use shapes::{
    Choice, Flag, IdPrefix, JobStates, Limit, Moment, Namespace, Number, OneJobType, Positions,
    RequiredNumber, Text, Wait,
};
pub(super) use typed::{Parameters, Shape, described, query};

/// The largest page; a larger limit is reduced to this.
pub(super) const MAX_LIMIT: u32 = 1000;

/// Requirements in all `labels` of a request together: each is tested on every row.
const MAX_REQUIREMENTS: usize = 64;

/// Values that these requirements list together: a node or job may be compared with each. As many as
/// one constraint of a job has.
const MAX_SELECTOR_VALUES: usize = 256;

#[derive(Debug)]
pub(super) struct Query {
    pairs: Vec<(String, Value)>,
}

#[derive(Debug)]
enum Value {
    /// The key stands alone, without `=`.
    Bare,
    Text(String),
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

// === impl Query ===

impl Query {
    fn parse(query: &str) -> Result<Self, Failure> {
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            pairs.push(match pair.split_once('=') {
                Some((key, value)) => (decode(key)?, Value::Text(decode(value)?)),
                None => (decode(pair)?, Value::Bare),
            });
        }
        Ok(Self { pairs })
    }

    fn once(&self, key: &str) -> Result<Option<&Value>, Failure> {
        let mut values = self.pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
        let first = values.next();
        match values.next() {
            Some(_) => Err(invalid(format!("{key} is given more than once"))),
            None => Ok(first),
        }
    }

    /// The value, absent when it is empty.
    fn text(&self, key: &str) -> Result<Option<&str>, Failure> {
        Ok(match self.once(key)? {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            Some(Value::Text(_) | Value::Bare) | None => None,
        })
    }

    /// True, false, 1 or 0 in any case; a key without `=` is true, an empty value absent.
    fn flag(&self, key: &str) -> Result<bool, Failure> {
        match self.once(key)? {
            None => Ok(false),
            Some(Value::Bare) => Ok(true),
            Some(Value::Text(text)) => match text.to_ascii_lowercase().as_str() {
                "" | "false" | "0" => Ok(false),
                "true" | "1" => Ok(true),
                _ => Err(Failure::InvalidQuery {
                    reason: format!("{key}: '{text}' is neither true nor false"),
                    permitted: vec!["true", "false", "1", "0"],
                }),
            },
        }
    }

    fn limit(&self, key: &str, default: u32) -> Result<u32, Failure> {
        let Some(text) = self.text(key)? else { return Ok(default) };
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid(format!("{key}: '{text}' is not a non-negative integer")));
        }
        // Only digits: a number that does not fit is large.
        Ok(match text.parse::<u32>().unwrap_or(u32::MAX) {
            0 => default,
            limit => limit.min(MAX_LIMIT),
        })
    }

    fn number(&self, key: &str) -> Result<u64, Failure> {
        self.optional_number(key)?.ok_or_else(|| invalid(format!("{key} is required")))
    }

    fn optional_number(&self, key: &str) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match number(text) {
            Some(number) => Ok(Some(number)),
            None => Err(invalid(format!("{key}: '{text}' is not a non-negative integer"))),
        }
    }

    /// A whole number of `ms`, `s` or `m`; seconds without a unit.
    fn duration(&self, key: &str) -> Result<Option<Duration>, Failure> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, unit) = text.split_at(digits);
        let unit_ms = match unit {
            "ms" => Some(1),
            "" | "s" => Some(1000),
            "m" => Some(60_000),
            _ => None,
        };
        let duration = number(digits)
            .zip(unit_ms)
            .map(|(count, unit_ms)| Duration::from_millis(count.saturating_mul(unit_ms)));
        duration.map(Some).ok_or_else(|| {
            invalid(format!("{key}: '{text}' is not a whole number of ms, s or m, like 30s"))
        })
    }

    /// One of the permitted words.
    fn choice<T: Copy>(
        &self,
        key: &str,
        permitted: &[(&'static str, T)],
        default: T,
    ) -> Result<T, Failure> {
        let Some(text) = self.text(key)? else { return Ok(default) };
        permitted
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text))
            .map(|(_, value)| *value)
            .ok_or_else(|| Failure::InvalidQuery {
                reason: format!("{key}: '{text}' is not permitted"),
                permitted: permitted.iter().map(|(word, _)| *word).collect(),
            })
    }

    /// Words of a closed set, separated by commas; an unknown one is refused with `permitted`.
    fn words<T: FromStr>(
        &self,
        key: &str,
        permitted: impl Iterator<Item = &'static str>,
    ) -> Result<Vec<T>, Failure> {
        let Some(text) = self.text(key)? else { return Ok(Vec::new()) };
        let words: Result<Vec<T>, &str> = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().map_err(|_| word))
            .collect();
        words.map_err(|word| Failure::InvalidQuery {
            reason: format!("{key}: '{word}' is not permitted"),
            permitted: permitted.collect(),
        })
    }

    /// Unix seconds, not negative; RFC 3339; a date, which begins at midnight UTC; or a duration
    /// back from now: a whole number of `s`, `m`, `h` or `d`.
    fn moment(&self, key: &str, now: impl Fn() -> Timestamp) -> Result<Option<Timestamp>, Failure> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if text.starts_with('-') {
            return Err(invalid(format!("{key}: '{text}' is negative; Unix seconds begin at 0")));
        }
        let moment = Timestamp::parse(text)
            .or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")))
            .or_else(|| Some(now() - back(text)?));
        moment.map(Some).ok_or_else(|| {
            invalid(format!(
                "{key}: '{text}' is neither Unix seconds, an RFC 3339 time or a date, nor a \
                 duration back from now, like 2h"
            ))
        })
    }

    /// All selectors of this key together.
    fn selector(&self, key: &str) -> Result<Selector, Failure> {
        let mut selector = Selector::default();
        for (name, value) in &self.pairs {
            if let (true, Value::Text(text)) = (name == key, value) {
                let part =
                    Selector::parse(text).map_err(|error| invalid(format!("{key}: {error}")))?;
                selector.and(part);
            }
        }
        if selector.requirements.len() > MAX_REQUIREMENTS {
            return Err(invalid(format!("{key}: more than {MAX_REQUIREMENTS} requirements")));
        }
        if selector.listed_values() > MAX_SELECTOR_VALUES {
            return Err(invalid(format!("{key}: more than {MAX_SELECTOR_VALUES} values")));
        }
        Ok(selector)
    }
}

/// A whole number of seconds, minutes, hours or days.
fn back(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    Some(Duration::from_secs(number(digits)?.saturating_mul(unit_s)))
}

/// Digits and nothing else.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

pub(super) fn invalid(reason: String) -> Failure {
    Failure::InvalidQuery { reason, permitted: Vec::new() }
}

/// Percent-decoding, with `+` for a space.
fn decode(text: &str) -> Result<String, Failure> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let decoded =
                    high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                bytes.push(decoded.ok_or_else(|| {
                    invalid(format!("the query has a '%' without two hexadecimal digits: '{text}'"))
                })?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid(format!("the query is not UTF-8: '{text}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(text).unwrap()
    }

    fn reason<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
        match result.unwrap_err() {
            Failure::InvalidQuery { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_limit_is_bounded_and_a_typo_is_reported() {
        for (text, limit) in [
            ("", 10),
            ("limit=", 10),
            ("limit=0", 10),
            ("limit=7", 7),
            ("limit=1001", 1000),
            ("limit=99999999999999999999", 1000),
        ] {
            assert_eq!(query(text).limit("limit", 10).unwrap(), limit, "{text}");
        }
        for text in ["limit=-1", "limit=ten", "limit=1.5", "limit=%2B5", "limit=0x1"] {
            assert!(reason(query(text).limit("limit", 10)).starts_with("limit: "), "{text}");
        }
    }

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds() {
        for (text, millis) in [("250ms", 250), ("30s", 30_000), ("2m", 120_000), ("45", 45_000)] {
            let parsed = query(&format!("wait={text}")).duration("wait").unwrap();
            assert_eq!(parsed, Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(query("wait=0").duration("wait").unwrap(), Some(Duration::ZERO));
        assert_eq!(query("wait=&x").duration("wait").unwrap(), None);
        let longest = query("wait=18446744073709551615m").duration("wait").unwrap().unwrap();
        assert!(longest > Duration::from_secs(u64::MAX / 2000));
        for text in ["s", "-1s", "%2B1s", "1.5s", "1h", "1S", "1 s", "s1", "99999999999999999999s"]
        {
            let message = reason(query(&format!("wait={text}")).duration("wait"));
            assert!(message.starts_with("wait: ") && message.ends_with("like 30s"), "{message}");
        }
    }

    #[test]
    fn a_moment_is_absolute_or_back_from_now() {
        let now = || Timestamp(1_700_000_000_000_000_000);
        let second = 1_000_000_000;
        for (text, moment) in [
            ("0", 0),
            ("1700000000", 1_700_000_000 * second),
            ("1700000000.5", 1_700_000_000 * second + second / 2),
            ("2023-11-14T22:13:20Z", 1_700_000_000 * second),
            ("2026-01-31", 1_769_817_600 * second),
            ("90s", (1_700_000_000 - 90) * second),
            ("2h", (1_700_000_000 - 7200) * second),
            ("1d", (1_700_000_000 - 86_400) * second),
        ] {
            let parsed = query(&format!("since={text}")).moment("since", now).unwrap();
            assert_eq!(parsed, Some(Timestamp(moment)), "{text}");
        }
        assert_eq!(query("since=").moment("since", now).unwrap(), None);
        let longest = query("since=999999999999999999d").moment("since", now).unwrap();
        assert!(longest.is_some_and(|moment| moment < Timestamp::ZERO));
        for text in ["-1", "-0.5", "-2h", "-2026-01-31"] {
            let message = reason(query(&format!("since={text}")).moment("since", now));
            assert!(message.contains("is negative"), "{message}");
        }
        for text in ["soon", "h", "2w", "2 h", "2026-1-31", "2026-02-30", "1.5h", "2ü"] {
            let message = reason(query(&format!("since={text}")).moment("since", now));
            assert!(message.ends_with("like 2h"), "{message}");
        }
    }

    #[test]
    fn a_number_is_digits() {
        assert_eq!(query("n=7").optional_number("n").unwrap(), Some(7));
        assert_eq!(query("n=").optional_number("n").unwrap(), None);
        assert_eq!(reason(query("").number("n")), "n is required");
        for text in ["-1", "%2B1", "x", "1.0", "18446744073709551616"] {
            let message = reason(query(&format!("n={text}")).optional_number("n"));
            assert!(message.ends_with("is not a non-negative integer"), "{message}");
        }
    }

    #[test]
    fn a_flag_takes_words_and_numbers() {
        for text in ["reverse", "reverse=TRUE", "reverse=1", "reverse=True"] {
            assert!(query(text).flag("reverse").unwrap(), "{text}");
        }
        for text in ["", "reverse=", "reverse=False", "reverse=0"] {
            assert!(!query(text).flag("reverse").unwrap(), "{text}");
        }
        assert_eq!(
            reason(query("reverse=yes").flag("reverse")),
            "reverse: 'yes' is neither true nor false"
        );
    }

    #[test]
    fn a_repeated_single_key_is_refused() {
        assert_eq!(
            reason(query("limit=1&limit=2").limit("limit", 10)),
            "limit is given more than once"
        );
    }

    #[test]
    fn labels_may_be_repeated() {
        let selector = query("labels=a%3Db&labels=c+in+(d,e)").selector("labels").unwrap();
        let texts: Vec<_> = selector.requirements.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a=b", "c in (d,e)"]);
        assert!(
            reason(query("labels=a+b").selector("labels"))
                .starts_with("labels: 'b' is not an operator")
        );
    }

    #[test]
    fn broken_encoding_is_reported() {
        assert!(reason(Query::parse("a=%")).contains("hexadecimal"));
        assert!(reason(Query::parse("a=%4")).contains("hexadecimal"));
        assert!(reason(Query::parse("%zz=1")).contains("hexadecimal"));
        assert!(reason(Query::parse("a=%ff")).contains("not UTF-8"));
    }
}
