//! Requests that are not what their operation takes.

use std::time::Duration;

use api_types::Code;
use api_types::JobId;
use api_types::engine::UnknownWord;
use api_types::error::FieldError;
use api_types::job::JobType;
use serde_json::Value;

use crate::json::shorten;

/// Path and reason of each detail; there may be a hundred.
const MAX_DETAIL_CHARS: usize = 500;

#[derive(Debug)]
pub(crate) enum BadRequest {
    MalformedBody {
        reason: String,
    },
    BodyTooSlow {
        limit: Duration,
    },
    BodyTooLarge {
        limit_bytes: usize,
    },
    /// The body has no content type, or one that is not JSON.
    MediaType {
        found: Option<String>,
    },
    ContentEncoding(String),
    Job(Vec<FieldError>),
    /// A body other than a job is invalid.
    Body(Vec<FieldError>),
    Query {
        reason: String,
        permitted: Vec<&'static str>,
    },
    NextToken {
        reason: &'static str,
    },
    Header {
        name: &'static str,
        reason: String,
    },
    NodeAction(UnknownWord),
    Method {
        method: String,
        path: String,
    },
    NoResultsForType {
        job: JobId,
        job_type: JobType,
    },
    NoRerunForType {
        job: JobId,
        job_type: JobType,
    },
}

// === impl BadRequest ===

impl BadRequest {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::MalformedBody { .. } | Self::BodyTooSlow { .. } => Code::MalformedBody,
            Self::BodyTooLarge { .. } => Code::BodyTooLarge,
            Self::MediaType { .. } | Self::ContentEncoding(_) => Code::UnsupportedMediaType,
            Self::Job(_) => Code::InvalidJob,
            Self::Body(_) | Self::Header { .. } | Self::NodeAction(_) => Code::InvalidRequest,
            Self::NoRerunForType { .. } => Code::InvalidRequest,
            Self::Query { .. } => Code::InvalidQuery,
            Self::NextToken { .. } => Code::InvalidNextToken,
            Self::Method { .. } => Code::MethodNotAllowed,
            Self::NoResultsForType { .. } => Code::NoResultsForType,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::MalformedBody { reason } | Self::Query { reason, .. } => reason.clone(),
            Self::BodyTooSlow { limit } => {
                format!("the body did not arrive within {} seconds", limit.as_secs())
            }
            Self::BodyTooLarge { limit_bytes } => {
                format!("the body is larger than {limit_bytes} bytes")
            }
            Self::MediaType { found: Some(found) } => {
                format!("the body's content type is '{found}', not JSON")
            }
            Self::MediaType { found: None } => "the body has no content type".to_owned(),
            Self::ContentEncoding(encoding) => {
                format!("the body has the content encoding '{encoding}'")
            }
            Self::Job(problems) => format!("the job is invalid: {}", summary(problems)),
            Self::Body(problems) => format!("the body is invalid: {}", summary(problems)),
            Self::NextToken { reason } => (*reason).to_owned(),
            Self::Header { name, reason } => format!("header {name} {reason}"),
            Self::NodeAction(word) => word.to_string(),
            Self::Method { method, path } => format!("{path} does not support the method {method}"),
            Self::NoResultsForType { job, job_type } => {
                format!("job {job} is a {job_type} job; only batch and ops jobs have results")
            }
            Self::NoRerunForType { job, job_type } => {
                format!("job {job} is a {job_type} job; only batch and ops jobs run again")
            }
        }
    }

    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::MediaType { .. } => {
                "send the body with 'Content-Type: application/json', a job also with \
                 'application/yaml'"
            }
            Self::ContentEncoding(_) => "send the body uncompressed, without 'Content-Encoding'",
            Self::NextToken { .. } => {
                "send a NextToken with the operation, order_by and reverse that it came from, or \
                 none to start over"
            }
            Self::NoRerunForType { .. } => {
                "submit its specification as a new job; 'jobctl get job ID -o yaml' prints it"
            }
            Self::MalformedBody { .. }
            | Self::BodyTooSlow { .. }
            | Self::BodyTooLarge { .. }
            | Self::Job(_)
            | Self::Body(_)
            | Self::Query { .. }
            | Self::Header { .. }
            | Self::NodeAction(_)
            | Self::Method { .. }
            | Self::NoResultsForType { .. } => "",
        }
    }

    pub(super) fn details(&self) -> Vec<Value> {
        match self {
            Self::Job(problems) | Self::Body(problems) => {
                let short = |text: &str| shorten(text.to_owned(), MAX_DETAIL_CHARS);
                let detail = |FieldError { path, reason }: &FieldError| serde_json::json!({ "Path": short(path), "Reason": short(reason) });
                problems.iter().map(detail).collect()
            }
            Self::Query { permitted, .. } => {
                permitted.iter().map(|word| Value::from(*word)).collect()
            }
            Self::MalformedBody { .. }
            | Self::BodyTooSlow { .. }
            | Self::BodyTooLarge { .. }
            | Self::MediaType { .. }
            | Self::ContentEncoding(_)
            | Self::NextToken { .. }
            | Self::Header { .. }
            | Self::NodeAction(_)
            | Self::Method { .. }
            | Self::NoRerunForType { .. }
            | Self::NoResultsForType { .. } => Vec::new(),
        }
    }
}

/// The first problem, and the number of problems.
fn summary(problems: &[FieldError]) -> String {
    let Some(FieldError { path, reason }) = problems.first() else { return String::new() };
    let place = if path.is_empty() { "the body" } else { path };
    match problems.len() {
        1 => format!("{place}: {reason}"),
        count => format!("{place}: {reason} ({count} problems in all, see Details)"),
    }
}
