//! The query string: parsed strictly, so that a typo is reported instead of misread.
//!
//! Unknown keys are ignored: any request may carry `pretty` or keys that proxies add. Repeating a
//! key that may appear once is refused.

use std::str::FromStr;
use std::time::Duration;

use api_types::selector::Selector;
use api_types::{ApiError, Code, Timestamp};
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;

use super::refusal::Refusal;

/// The largest page; a larger limit is reduced to this.
pub const MAX_LIMIT: u32 = 1000;

/// Requirements in all `labels` of a request together: each is tested on every row.
const MAX_REQUIREMENTS: usize = 64;

/// Values that these requirements list together: a node or job may be compared with each. As many as
/// one constraint of a job has.
const MAX_SELECTOR_VALUES: usize = 256;

/// A query string, parsed.
#[derive(Debug)]
pub struct Query {
    pairs: Vec<(String, Value)>,
}

#[derive(Debug)]
enum Value {
    /// The key stands alone, without `=`.
    Bare,
    Text(String),
}

/// A query that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidQuery {
    pub reason: String,
    /// The values that the parameter takes, if they are few.
    pub permitted: Vec<&'static str>,
}

// === impl InvalidQuery ===

impl From<InvalidQuery> for ApiError {
    fn from(InvalidQuery { reason, permitted }: InvalidQuery) -> Self {
        Self::new(Code::InvalidQuery, reason).with_details(permitted)
    }
}

impl IntoResponse for InvalidQuery {
    fn into_response(self) -> Response {
        Refusal::of_the_caller(self.into()).into_response()
    }
}

// === impl Query ===

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = InvalidQuery;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, InvalidQuery> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl Query {
    pub fn parse(query: &str) -> Result<Self, InvalidQuery> {
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            pairs.push(match pair.split_once('=') {
                Some((key, value)) => (decode(key)?, Value::Text(decode(value)?)),
                None => (decode(pair)?, Value::Bare),
            });
        }
        Ok(Self { pairs })
    }

    fn once(&self, key: &str) -> Result<Option<&Value>, InvalidQuery> {
        let mut values = self.pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
        let first = values.next();
        match values.next() {
            Some(_) => Err(invalid_query(format!("{key} is given more than once"))),
            None => Ok(first),
        }
    }

    /// The value, absent when it is empty.
    pub fn text(&self, key: &str) -> Result<Option<&str>, InvalidQuery> {
        Ok(match self.once(key)? {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            Some(Value::Text(_) | Value::Bare) | None => None,
        })
    }

    /// True, false, 1 or 0 in any case; a key without `=` is true, an empty value absent.
    pub fn flag(&self, key: &str) -> Result<bool, InvalidQuery> {
        match self.once(key)? {
            None => Ok(false),
            Some(Value::Bare) => Ok(true),
            Some(Value::Text(text)) => match text.to_ascii_lowercase().as_str() {
                "" | "false" | "0" => Ok(false),
                "true" | "1" => Ok(true),
                _ => Err(InvalidQuery {
                    reason: format!("{key}: '{text}' is neither true nor false"),
                    permitted: vec!["true", "false", "1", "0"],
                }),
            },
        }
    }

    pub fn limit(&self, key: &str, default: u32) -> Result<u32, InvalidQuery> {
        let Some(text) = self.text(key)? else { return Ok(default) };
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid_query(format!("{key}: '{text}' is not a non-negative integer")));
        }
        // Only digits: a number that does not fit is large.
        Ok(match text.parse::<u32>().unwrap_or(u32::MAX) {
            0 => default,
            limit => limit.min(MAX_LIMIT),
        })
    }

    pub fn number(&self, key: &str) -> Result<u64, InvalidQuery> {
        self.optional_number(key)?.ok_or_else(|| invalid_query(format!("{key} is required")))
    }

    pub fn optional_number(&self, key: &str) -> Result<Option<u64>, InvalidQuery> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match number(text) {
            Some(number) => Ok(Some(number)),
            None => Err(invalid_query(format!("{key}: '{text}' is not a non-negative integer"))),
        }
    }

    /// A whole number of `ms`, `s` or `m`; seconds without a unit.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, InvalidQuery> {
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
            invalid_query(format!("{key}: '{text}' is not a whole number of ms, s or m, like 30s"))
        })
    }

    /// One of the permitted words.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        permitted: &[(&'static str, T)],
        default: T,
    ) -> Result<T, InvalidQuery> {
        let Some(text) = self.text(key)? else { return Ok(default) };
        permitted
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text))
            .map(|(_, value)| *value)
            .ok_or_else(|| InvalidQuery {
                reason: format!("{key}: '{text}' is not permitted"),
                permitted: permitted.iter().map(|(word, _)| *word).collect(),
            })
    }

    /// Words of a closed set, separated by commas; an unknown one is refused with `permitted`.
    pub fn words<T: FromStr>(
        &self,
        key: &str,
        permitted: impl Iterator<Item = &'static str>,
    ) -> Result<Vec<T>, InvalidQuery> {
        let Some(text) = self.text(key)? else { return Ok(Vec::new()) };
        let words: Result<Vec<T>, &str> = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().map_err(|_| word))
            .collect();
        words.map_err(|word| InvalidQuery {
            reason: format!("{key}: '{word}' is not permitted"),
            permitted: permitted.collect(),
        })
    }

    /// Unix seconds, not negative; RFC 3339; a date, which begins at midnight UTC; or a duration
    /// back from now: a whole number of `s`, `m`, `h` or `d`.
    pub fn moment(
        &self,
        key: &str,
        now: impl Fn() -> Timestamp,
    ) -> Result<Option<Timestamp>, InvalidQuery> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if text.starts_with('-') {
            return Err(invalid_query(format!(
                "{key}: '{text}' is negative; Unix seconds begin at 0"
            )));
        }
        let moment = Timestamp::parse(text)
            .or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")))
            .or_else(|| Some(now() - back(text)?));
        moment.map(Some).ok_or_else(|| {
            invalid_query(format!(
                "{key}: '{text}' is neither Unix seconds, an RFC 3339 time or a date, nor a \
                 duration back from now, like 2h"
            ))
        })
    }

    /// All selectors of this key together.
    pub fn selector(&self, key: &str) -> Result<Selector, InvalidQuery> {
        let mut selector = Selector::default();
        for (name, value) in &self.pairs {
            if let (true, Value::Text(text)) = (name == key, value) {
                let part = Selector::parse(text)
                    .map_err(|error| invalid_query(format!("{key}: {error}")))?;
                selector.and(part);
            }
        }
        if selector.requirements.len() > MAX_REQUIREMENTS {
            return Err(invalid_query(format!("{key}: more than {MAX_REQUIREMENTS} requirements")));
        }
        if selector.listed_values() > MAX_SELECTOR_VALUES {
            return Err(invalid_query(format!("{key}: more than {MAX_SELECTOR_VALUES} values")));
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

pub fn invalid_query(reason: String) -> InvalidQuery {
    InvalidQuery { reason, permitted: Vec::new() }
}

/// Percent-decoding, with `+` for a space.
fn decode(text: &str) -> Result<String, InvalidQuery> {
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
                    invalid_query(format!(
                        "the query has a '%' without two hexadecimal digits: '{text}'"
                    ))
                })?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid_query(format!("the query is not UTF-8: '{text}'")))
}

#[cfg(test)]
mod tests;
