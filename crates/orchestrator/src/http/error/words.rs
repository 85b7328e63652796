//! Error messages for the caller: what is wrong, and what to do about it.
//!
//! Internal causes never appear here.

use api_types::error::FieldError;
use api_types::{Code, MAX_BODY_BYTES};
use control_plane::records::RecordRefusal;
use scheduler::input::Refusal;
use serde_json::Value;

use super::{Failure, Kind, NotFoundCause, code_of_store};
use crate::access::Needs;
use crate::access::token::Invalid;
use crate::driver::CallError;
use crate::http::body::BODY_TIMEOUT;
use crate::json::shorten;

/// Path and reason of each detail; there may be a hundred.
const MAX_DETAIL_CHARS: usize = 500;

// === impl Failure ===

impl Failure {
    pub(super) fn message(&self) -> String {
        match self {
            Self::MalformedBody { reason } => reason.clone(),
            Self::BodyTooSlow => {
                format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs())
            }
            Self::BodyTooLarge => format!("the body is larger than {MAX_BODY_BYTES} bytes"),
            Self::UnsupportedMediaType { found: Some(found) } => {
                format!("the body's content type is '{found}', not JSON")
            }
            Self::UnsupportedMediaType { found: None } => "the body has no content type".to_owned(),
            Self::InvalidJob(problems) => format!("the job is invalid: {}", summary(problems)),
            Self::InvalidBody(problems) => format!("the body is invalid: {}", summary(problems)),
            Self::InvalidQuery { reason, .. } => reason.clone(),
            Self::InvalidNextToken { reason } => (*reason).to_owned(),
            Self::InvalidHeader { name, reason } => format!("header {name} {reason}"),
            Self::UnknownNodeAction(word) => word.to_string(),
            Self::NoResultsForType { job, job_type } => {
                format!("job {job} is a {job_type} job; only batch and ops jobs have results")
            }
            Self::NotFound { kind, text, .. } => format!("no {} matches '{text}'", kind.noun()),
            Self::PathNotFound { path } => format!("no operation has the path {path}"),
            Self::MethodNotAllowed { method, path } => {
                format!("{path} does not take the method {method}")
            }
            Self::OtherHost { host } => {
                format!("'{host}' is not a name of this orchestrator")
            }
            Self::ForeignOrigin { header, value } => {
                format!("a page of another origin sent this request ({header}: {value})")
            }
            Self::Proxied { .. }
            | Self::NoCredentials
            | Self::InvalidCredentials(_)
            | Self::NotPermitted { .. }
            | Self::RoleBeyondOwn { .. }
            | Self::NoSuchNamespace { .. }
            | Self::MissingSecret { .. }
            | Self::MissingCredential { .. }
            | Self::UnprotectedSecret
            | Self::NamespaceInUse { .. } => self.message_of_access(),
            Self::Node(refusal) => refusal.to_string(),
            Self::Exchange(refusal) => refusal.to_string(),
            Self::Rotation(refusal) => refusal.to_string(),
            Self::Ambiguous { kind, text, .. } => {
                format!("more than one {} matches '{text}'", kind.noun())
            }
            Self::JobFinished { job, state } => {
                format!("job {job} is {state} already and cannot be stopped")
            }
            Self::OwnNode(node) => {
                format!("node {node} is the orchestrator itself; no action applies to it")
            }
            Self::Gone { path, operation } => gone(path, *operation),
            Self::Call(error) => message_of_call(error),
            Self::Store(error) => match code_of_store(error) {
                Code::StoreUnavailable => "the state database is not available".to_owned(),
                _ => "an internal error occurred".to_owned(),
            },
            Self::LimitReached { what, count } => format!("the limit of {count} {what} is reached"),
            Self::StreamNotFound { stream } => format!("no reader waits for stream '{stream}'"),
            Self::NoArchive { execution, reason } => format!("results of {execution}: {reason}"),
            Self::NodeUnavailable(node) => {
                format!("node {node}, which holds what was requested, is not connected")
            }
            Self::ReadersBusy { waited } => {
                format!("the state database was busy for {} seconds", waited.as_secs())
            }
            Self::Internal { .. } => "an internal error occurred".to_owned(),
        }
    }

    /// About who asks.
    fn message_of_access(&self) -> String {
        match self {
            Self::Proxied { header } => format!(
                "a proxy sent this request (header {header}), and this listener trusts every caller"
            ),
            Self::NoCredentials => "the request has no credentials".to_owned(),
            Self::InvalidCredentials(Invalid::Unknown) => {
                "the credentials are not valid, or no longer".to_owned()
            }
            Self::InvalidCredentials(Invalid::Expired) => "the credentials have ended".to_owned(),
            Self::NotPermitted { needs, namespace } => not_permitted(*needs, namespace.as_deref()),
            Self::RoleBeyondOwn { role } => format!(
                "a token with the role {role} for these namespaces is beyond the caller's own role"
            ),
            Self::NoSuchNamespace { name, .. } => format!("no namespace matches '{name}'"),
            Self::NamespaceInUse { namespace, reason } => {
                format!("namespace '{namespace}' cannot be deleted: {reason}")
            }
            Self::MissingSecret { name, namespace } => {
                format!("secret '{name}' does not exist in namespace '{namespace}'")
            }
            Self::MissingCredential { name, namespace } => {
                format!("credentials '{name}' do not exist in namespace '{namespace}'")
            }
            Self::UnprotectedSecret => {
                "secrets are not sent over plain HTTP to or from another machine".to_owned()
            }
            _ => String::new(),
        }
    }

    pub(super) fn hint(&self) -> String {
        match self {
            Self::UnsupportedMediaType { .. } => {
                "send the body with 'Content-Type: application/json', a job also with \
                 'application/yaml'"
                    .to_owned()
            }
            Self::InvalidNextToken { .. } => {
                "send a NextToken with the operation, order_by and reverse that it came from, or \
                 none to start over"
                    .to_owned()
            }
            Self::NotFound { kind, cause, .. } => kind.hint(*cause),
            Self::NoSuchNamespace { .. }
            | Self::MissingSecret { .. }
            | Self::MissingCredential { .. }
            | Self::UnprotectedSecret
            | Self::NoCredentials
            | Self::InvalidCredentials(_)
            | Self::NotPermitted { .. }
            | Self::RoleBeyondOwn { .. } => self.hint_of_access(),
            Self::Node(refusal) => refusal.hint(),
            Self::Exchange(refusal) => refusal.hint().to_owned(),
            Self::Rotation(refusal) => refusal.hint().to_owned(),
            Self::PathNotFound { .. } => "the operations are listed in docs/api.md".to_owned(),
            Self::OtherHost { .. } => {
                "use its IP address, or add the name to the orchestrator's setting allowed_hosts"
                    .to_owned()
            }
            Self::ForeignOrigin { .. } => {
                "only pages that this orchestrator serves may use its API from a browser".to_owned()
            }
            Self::Proxied { .. } => {
                "connect directly, or have the orchestrator listen on an address that is not \
                 loopback"
                    .to_owned()
            }
            Self::Ambiguous { .. } => "give more characters of the ID".to_owned(),
            Self::JobFinished { .. } => "there is nothing left to stop".to_owned(),
            Self::Call(error) => hint_of_call(error).to_owned(),
            Self::Store(_) | Self::ReadersBusy { .. } | Self::LimitReached { .. } => {
                "try again".to_owned()
            }
            Self::NodeUnavailable(_) => {
                "try again when the node is back; reading logs with follow waits for it".to_owned()
            }
            Self::Internal { .. } => {
                "the service log has the cause under this request ID".to_owned()
            }
            Self::MalformedBody { .. }
            | Self::BodyTooSlow
            | Self::BodyTooLarge
            | Self::InvalidJob(_)
            | Self::InvalidBody(_)
            | Self::InvalidQuery { .. }
            | Self::InvalidHeader { .. }
            | Self::UnknownNodeAction(_)
            | Self::NoResultsForType { .. }
            | Self::MethodNotAllowed { .. }
            | Self::OwnNode(_)
            | Self::NamespaceInUse { .. }
            | Self::StreamNotFound { .. }
            | Self::NoArchive { .. }
            | Self::Gone { .. } => String::new(),
        }
    }

    fn hint_of_access(&self) -> String {
        match self {
            Self::NoSuchNamespace { own, .. } if own.is_empty() => {
                "list namespaces with GET /api/v1/orchestrator/namespaces; an admin creates one with \
                 PUT"
                .to_owned()
            }
            Self::NoSuchNamespace { own, .. } => format!("name one of your own: {}", own.join(", ")),
            Self::NoCredentials => {
                "send 'Authorization: Bearer <token>'; with jobctl: jobctl login".to_owned()
            }
            Self::InvalidCredentials(_) => {
                "ask for a new token, or sign in again with jobctl login".to_owned()
            }
            Self::MissingSecret { name, namespace } => {
                format!("create it with `jobctl secret set {namespace}/{name}`")
            }
            Self::MissingCredential { name, namespace } => {
                format!("create them with `jobctl credential set {namespace}/{name}`")
            }
            Self::UnprotectedSecret => {
                "have the orchestrator serve TLS: leave `insecure` off".to_owned()
            }
            Self::NotPermitted { .. } | Self::RoleBeyondOwn { .. } => {
                "docs/security.md lists what each role may do; \
                 GET /api/v1/auth/identity tells your own"
                    .to_owned()
            }
            _ => String::new(),
        }
    }

    pub(super) fn details(&self) -> Vec<Value> {
        match self {
            Self::InvalidJob(problems) | Self::InvalidBody(problems) => problems
                .iter()
                .map(|FieldError { path, reason }| {
                    let path = shorten(path.clone(), MAX_DETAIL_CHARS);
                    let reason = shorten(reason.clone(), MAX_DETAIL_CHARS);
                    serde_json::json!({ "Path": path, "Reason": reason })
                })
                .collect(),
            Self::InvalidQuery { permitted, .. } => {
                permitted.iter().map(|word| Value::from(*word)).collect()
            }
            Self::Ambiguous { candidates, .. } => {
                candidates.iter().map(|id| Value::from(id.as_str())).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn gone(path: &str, operation: Option<&str>) -> String {
    match operation {
        Some(operation) => format!("{path} is gone; it is replaced by {operation}"),
        None => {
            format!("{path} is gone; the requester group is replaced by /api/v1/orchestrator/")
        }
    }
}

fn message_of_call(error: &CallError) -> String {
    match error {
        CallError::StoreUnavailable => "the state database is not available".to_owned(),
        CallError::Refused(_)
        | CallError::Record(_)
        | CallError::IdempotencyConflict
        | CallError::QueueFull
        | CallError::OutcomeUnknown
        | CallError::Stopping => error.to_string(),
    }
}

fn hint_of_call(error: &CallError) -> &'static str {
    match error {
        CallError::Refused(refusal) => match refusal {
            Refusal::JobNotLive(_) => Kind::JOB_HINT,
            Refusal::NoSuchNode(_) => Kind::NODE_HINT,
            Refusal::StaleSession { .. } | Refusal::LeaseExpired(_) => {
                "join again with PUT /api/v1/orchestrator/nodes/:nodeID/session"
            }
            Refusal::JobExists(_) => "choose another ID, or stop and watch the job that has it",
            Refusal::NodeBusy { .. } => {
                "wait until they are given up, or add now=true to give them up at once"
            }
            Refusal::JobFinished { .. } | Refusal::NodeRejected(_) | Refusal::NodeConnected(_) => {
                ""
            }
        },
        CallError::IdempotencyConflict => "use a new key for a new job",
        CallError::Record(RecordRefusal::Changed(_)) => "read it again and repeat the change",
        CallError::Record(RecordRefusal::TooMany(_)) => "remove what is no longer used",
        CallError::Record(RecordRefusal::TooLarge(_)) => "make it smaller",
        CallError::OutcomeUnknown => "try again with the same idempotency key",
        CallError::QueueFull | CallError::StoreUnavailable | CallError::Stopping => "try again",
    }
}

fn not_permitted(needs: Needs, namespace: Option<&str>) -> String {
    let needed = match needs {
        Needs::Node => return "only a node may do this, for itself".to_owned(),
        Needs::Nothing | Needs::Credentials => return "the caller may not do this".to_owned(),
        Needs::Role(role) => role,
    };
    match namespace {
        Some(namespace) => format!("this needs the role {needed} in namespace '{namespace}'"),
        None => format!("this needs the role {needed}"),
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

// === impl Kind ===

impl Kind {
    const JOB_HINT: &str = "list jobs with GET /api/v1/orchestrator/jobs";
    const NODE_HINT: &str = "list nodes with GET /api/v1/orchestrator/nodes";

    const fn noun(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Execution => "execution",
            Self::Node => "node",
            Self::Token => "token",
            Self::Secret => "secret",
            Self::Credential => "credential",
        }
    }

    fn hint(self, cause: NotFoundCause) -> String {
        let (letter, list) = match self {
            Self::Job => ('j', Self::JOB_HINT),
            Self::Execution => {
                ('e', "list executions with GET /api/v1/orchestrator/jobs/:jobID/executions")
            }
            Self::Node => ('n', Self::NODE_HINT),
            Self::Token => return "list tokens with GET /api/v1/orchestrator/tokens".to_owned(),
            Self::Secret => return "list secrets with GET /api/v1/orchestrator/secrets".to_owned(),
            Self::Credential => {
                return "list credentials with GET /api/v1/orchestrator/credentials".to_owned();
            }
        };
        match cause {
            NotFoundCause::Absent => list.to_owned(),
            NotFoundCause::Malformed => format!(
                "an ID is '{letter}-' followed by a UUID, or by at least its first 8 characters; \
                 {list}"
            ),
        }
    }
}
