//! The shapes of query parameters, each with its parser and its schema.

use std::collections::HashMap;
use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::log::{LogPosition, LogStream};
use api_types::selector::Selector;
use api_types::{ExecutionId, Timestamp, words};
use daemon::http::Query;
use scheduler::slots::Slots;
use serde_json::{Value, json};

use super::invalid::invalid;
use super::typed::Shape;
use crate::clock;
use crate::http::error::Failure;

/// True or false; false when absent.
pub(in crate::http) struct Flag;

/// Any text.
pub(in crate::http) struct Text;

/// The prefix of an ID that begins with this letter.
pub(in crate::http) struct IdPrefix(pub(in crate::http) char);

/// A whole number, zero or more.
pub(in crate::http) struct Number;

/// A required text.
pub(in crate::http) struct RequiredText;

/// A required whole number.
pub(in crate::http) struct RequiredNumber;

/// The number of rows of a page.
pub(in crate::http) struct Limit {
    pub(in crate::http) default: u32,
}

/// How long to wait.
pub(in crate::http) struct Wait;

/// A moment, as Unix seconds, RFC 3339, a date, or a duration back from now.
pub(in crate::http) struct Moment;

/// A label selector, which may be repeated.
pub(in crate::http) struct Requirements;

/// The name of a namespace; `None` for all of them.
pub(in crate::http) struct Namespace {
    /// A name, or `*`.
    pub(in crate::http) default: &'static str,
}

/// A comma list of job states.
pub(in crate::http) struct JobStates;

/// A comma list of states of executions: the words that people see, or their numbers.
pub(in crate::http) struct ExecutionStates;

/// A comma list of indexes and ranges of them.
pub(in crate::http) struct Indexes;

/// The most ranges of such a list; each is a condition of a query.
const MAX_RANGES: usize = 100;

/// One job type.
pub(in crate::http) struct OneJobType;

/// Positions in the output of executions.
pub(in crate::http) struct Positions;

/// The most positions of a request: as many executions as one page has, and both streams of each.
const MAX_POSITIONS: usize = 2000;

/// One word of a fixed set.
pub(in crate::http) struct Choice<T: 'static> {
    pub(in crate::http) permitted: &'static [(&'static str, T)],
    /// The default when the parameter is absent, which may be a value without a word.
    pub(in crate::http) default: T,
}

// === impl Shape ===

impl Shape for Flag {
    type Value = bool;

    fn read(&self, query: &Query, key: &'static str) -> Result<bool, Failure> {
        Ok(query.flag(key)?)
    }

    fn schema(&self) -> Value {
        json!({ "type": "boolean", "default": false })
    }
}

impl Shape for Text {
    type Value = Option<String>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<String>, Failure> {
        Ok(query.text(key)?.map(str::to_owned))
    }

    fn schema(&self) -> Value {
        json!({ "type": "string" })
    }
}

impl Shape for IdPrefix {
    type Value = Option<String>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<String>, Failure> {
        Text.read(query, key)
    }

    fn schema(&self) -> Value {
        let letter = self.0;
        let pattern = format!("^({letter}-[0-9a-fA-F]{{8}}(-[0-9a-fA-F-]{{0,27}})?)?$");
        json!({ "type": "string", "pattern": pattern })
    }
}

impl Shape for Number {
    type Value = Option<u64>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<u64>, Failure> {
        Ok(query.optional_number(key)?)
    }

    fn schema(&self) -> Value {
        json!({ "type": "integer", "format": "uint64", "minimum": 0 })
    }
}

impl Shape for RequiredText {
    type Value = String;

    const REQUIRED: bool = true;

    fn read(&self, query: &Query, key: &'static str) -> Result<String, Failure> {
        let text = query.text(key)?.unwrap_or_default();
        match text.trim() {
            "" => Err(invalid(format!("{key} is required"))),
            text => Ok(text.to_owned()),
        }
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "minLength": 1 })
    }
}

impl Shape for RequiredNumber {
    type Value = u64;

    const REQUIRED: bool = true;

    fn read(&self, query: &Query, key: &'static str) -> Result<u64, Failure> {
        Ok(query.number(key)?)
    }

    fn schema(&self) -> Value {
        Number.schema()
    }
}

impl Shape for Limit {
    type Value = u32;

    fn read(&self, query: &Query, key: &'static str) -> Result<u32, Failure> {
        Ok(query.limit(key, self.default)?)
    }

    fn schema(&self) -> Value {
        json!({ "type": "integer", "minimum": 0, "default": self.default })
    }
}

impl Shape for Wait {
    type Value = Option<Duration>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<Duration>, Failure> {
        Ok(query.duration(key)?)
    }

    fn schema(&self) -> Value {
        let pattern = "^([0-9]{1,18}(ms|s|m)?)?$";
        json!({ "type": "string", "pattern": pattern, "examples": ["30s"] })
    }
}

impl Shape for Moment {
    type Value = Option<Timestamp>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<Timestamp>, Failure> {
        Ok(query.moment(key, clock::now)?)
    }

    fn schema(&self) -> Value {
        json!({ "anyOf": [
            { "type": "number", "minimum": 0 },
            { "type": "string", "format": "date-time" },
            { "type": "string", "format": "date" },
            { "type": "string", "pattern": "^[0-9]{1,18}[smhd]$" },
            { "type": "string", "maxLength": 0 },
        ] })
    }
}

impl Shape for Requirements {
    type Value = Selector;

    fn read(&self, query: &Query, key: &'static str) -> Result<Selector, Failure> {
        Ok(query.selector(key)?)
    }

    fn schema(&self) -> Value {
        json!({ "type": "array", "items": { "type": "string" } })
    }
}

impl Shape for Namespace {
    type Value = Option<String>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<String>, Failure> {
        let name = query.text(key)?.unwrap_or(self.default);
        Ok((name != "*").then(|| name.to_owned()))
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "default": self.default })
    }
}

impl Shape for JobStates {
    type Value = Vec<JobStateType>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Vec<JobStateType>, Failure> {
        Ok(query.words(key, JobStateType::ALL.iter().map(|state| state.as_str()))?)
    }

    fn schema(&self) -> Value {
        let examples = ["Pending,Queued,Running"];
        json!({ "type": "string", "pattern": "^[A-Za-z, ]*$", "examples": examples })
    }
}

impl Shape for ExecutionStates {
    type Value = Vec<ComputeState>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Vec<ComputeState>, Failure> {
        let Some(text) = query.text(key)? else {
            return Ok(Vec::new());
        };
        let numbered = |part: &str| ComputeState::try_from(part.trim().parse::<u8>().ok()?).ok();
        let read = |part: &str| match numbered(part) {
            Some(state) => Ok(vec![state]),
            None => words::execution_states(part),
        };
        let states: Result<Vec<_>, _> = text.split(',').map(read).collect();
        Ok(states.map_err(|unknown| invalid(format!("{key}: {unknown}")))?.concat())
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "pattern": "^[A-Za-z0-9, ]*$", "examples": ["Failed,Declined"] })
    }
}

impl Shape for Indexes {
    type Value = Option<Slots>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<Slots>, Failure> {
        let Some(text) = query.text(key)? else { return Ok(None) };
        let slots: Slots = text.parse().map_err(|error| invalid(format!("{key}: {error}")))?;
        match slots.ranges().count() {
            0..=MAX_RANGES => Ok(Some(slots)),
            ranges => {
                let most = format!("{key}: {ranges} ranges of indexes, more than {MAX_RANGES}");
                Err(invalid(most))
            }
        }
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "pattern": "^[0-9,-]*$", "examples": ["3,17,90-99"] })
    }
}

impl Shape for OneJobType {
    type Value = Option<JobType>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Option<JobType>, Failure> {
        let types = query.words(key, JobType::ALL.iter().map(|job_type| job_type.as_str()))?;
        match types[..] {
            [] => Ok(None),
            [job_type] => Ok(Some(job_type)),
            [_, _, ..] => Err(invalid(format!("{key}: one job type at a time"))),
        }
    }

    fn schema(&self) -> Value {
        let types: Vec<_> = JobType::ALL.iter().map(|job_type| job_type.as_str()).collect();
        json!({ "type": "string", "enum": types })
    }
}

impl Shape for Positions {
    type Value = HashMap<ExecutionId, LogPosition>;

    fn read(&self, query: &Query, key: &'static str) -> Result<Self::Value, Failure> {
        let mut positions = Self::Value::new();
        let entries = query.text(key)?.unwrap_or_default().split(',');
        for (at, entry) in entries.map(str::trim).filter(|entry| !entry.is_empty()).enumerate() {
            if at == MAX_POSITIONS {
                return Err(invalid(format!("{key}: more than {MAX_POSITIONS} positions")));
            }
            let (id, stream, offset) = position(entry).ok_or_else(|| {
                invalid(format!(
                    "{key}: '{entry}' is not the full ID of an execution, a stream and an offset, \
                     like e-….stdout.1024"
                ))
            })?;
            *positions.entry(id).or_default().offset_mut(stream) = offset;
        }
        Ok(positions)
    }

    fn schema(&self) -> Value {
        let entry = r"e-[0-9a-fA-F-]{36}\.(stdout|stderr)\.[0-9]{1,18}";
        json!({ "type": "string", "pattern": format!("^({entry}(,{entry})*)?$") })
    }
}

fn position(entry: &str) -> Option<(ExecutionId, LogStream, u64)> {
    let mut parts = entry.split('.');
    let (id, stream, offset) = (parts.next()?, parts.next()?, parts.next()?);
    let stream = match stream {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => return None,
    };
    let is_number = offset.bytes().all(|byte| byte.is_ascii_digit());
    let offset = offset.parse().ok().filter(|_| is_number && parts.next().is_none())?;
    Some((id.parse().ok()?, stream, offset))
}

impl<T: Copy + PartialEq> Shape for Choice<T> {
    type Value = T;

    fn read(&self, query: &Query, key: &'static str) -> Result<T, Failure> {
        Ok(query.choice(key, self.permitted, self.default)?)
    }

    fn schema(&self) -> Value {
        let words: Vec<_> = self.permitted.iter().map(|(word, _)| *word).collect();
        let mut schema = json!({ "type": "string", "enum": words });
        if let Some((word, _)) = self.permitted.iter().find(|(_, value)| *value == self.default) {
            schema["default"] = json!(word);
        }
        schema
    }
}
