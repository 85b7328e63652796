//! Names in requests that nothing has, or more than one thing.

use api_types::{Code, ExecutionId};
use serde_json::Value;

/// No name that the request contains is that of one record.
#[derive(Debug)]
pub(crate) enum Absent {
    /// No record has the ID, or none that the caller sees.
    Record {
        kind: Kind,
        text: String,
        cause: NotFoundCause,
    },
    Ambiguous {
        kind: Kind,
        text: String,
        candidates: Vec<String>,
    },
    /// A task names a record that its namespace does not have.
    OfTask {
        kind: Kind,
        name: String,
        namespace: String,
    },
    /// Or none that the caller has a role in.
    Namespace {
        name: String,
        /// Those that the caller has a role in, unless it sees all.
        own: Vec<String>,
    },
    /// No reader waits for the output that an agent sends.
    Stream {
        stream: String,
    },
    /// There is no such archive, or no such file in it.
    Archive {
        execution: ExecutionId,
        reason: String,
    },
    /// No operation has the path.
    Path {
        path: String,
    },
}

/// What an identifier in a path or a query names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Job,
    Graph,
    Execution,
    Node,
    Token,
    Secret,
    Credential,
    Group,
    Schedule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFoundCause {
    /// No record has this ID.
    Absent,
    /// The text is neither an ID nor the prefix of one.
    Malformed,
}

// === impl Absent ===

impl Absent {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Record { kind, .. } | Self::OfTask { kind, .. } => kind.code(),
            Self::Ambiguous { .. } => Code::AmbiguousId,
            Self::Namespace { .. } => Code::NamespaceNotFound,
            Self::Stream { .. } => Code::StreamNotFound,
            Self::Archive { .. } => Code::ResultNotFound,
            Self::Path { .. } => Code::PathNotFound,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::Record { kind, text, .. } => format!("no {} matches '{text}'", kind.noun()),
            Self::Ambiguous { kind, text, .. } => {
                format!("more than one {} matches '{text}'", kind.noun())
            }
            Self::OfTask { kind, name, namespace } => {
                let (noun, does) = match kind {
                    Kind::Credential => ("credentials", "do"),
                    Kind::Job
                    | Kind::Graph
                    | Kind::Execution
                    | Kind::Node
                    | Kind::Token
                    | Kind::Secret
                    | Kind::Group
                    | Kind::Schedule => (kind.noun(), "does"),
                };
                format!("{noun} '{name}' {does} not exist in namespace '{namespace}'")
            }
            Self::Namespace { name, .. } => format!("no namespace matches '{name}'"),
            Self::Stream { stream } => format!("no reader waits for stream '{stream}'"),
            Self::Archive { execution, reason } => {
                format!("results of {}: {reason}", execution.short())
            }
            Self::Path { path } => format!("no operation has the path {path}"),
        }
    }

    pub(super) fn hint(&self) -> String {
        match self {
            Self::Record { kind, cause, .. } => kind.hint(*cause),
            Self::Ambiguous { .. } => "give more characters of the ID".to_owned(),
            Self::OfTask { kind, name, namespace } => {
                let it = if *kind == Kind::Credential { "them" } else { "it" };
                format!("create {it} with `jobctl {} set {namespace}/{name}`", kind.noun())
            }
            Self::Namespace { own, .. } if own.is_empty() => {
                "list namespaces with GET /api/v1/orchestrator/namespaces; an admin creates one with \
                 PUT"
                .to_owned()
            }
            Self::Namespace { own, .. } => format!("use one of your namespaces: {}", own.join(", ")),
            Self::Path { .. } => "GET /api/v1/openapi.json lists all operations".to_owned(),
            Self::Stream { .. } | Self::Archive { .. } => String::new(),
        }
    }

    pub(super) fn details(&self) -> Vec<Value> {
        match self {
            Self::Ambiguous { candidates, .. } => {
                candidates.iter().map(|id| Value::from(id.as_str())).collect()
            }
            Self::Record { .. }
            | Self::OfTask { .. }
            | Self::Namespace { .. }
            | Self::Stream { .. }
            | Self::Archive { .. }
            | Self::Path { .. } => Vec::new(),
        }
    }
}

// === impl Kind ===

impl Kind {
    pub(super) const JOB_HINT: &str = "list jobs with GET /api/v1/orchestrator/jobs";
    pub(super) const NODE_HINT: &str = "list nodes with GET /api/v1/orchestrator/nodes";

    const fn code(self) -> Code {
        match self {
            Self::Job => Code::JobNotFound,
            Self::Graph => Code::GraphNotFound,
            Self::Execution => Code::ExecutionNotFound,
            Self::Node => Code::NodeNotFound,
            Self::Token => Code::TokenNotFound,
            Self::Secret => Code::SecretNotFound,
            Self::Credential => Code::CredentialNotFound,
            Self::Group => Code::GroupNotFound,
            Self::Schedule => Code::ScheduleNotFound,
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Graph => "graph",
            Self::Execution => "execution",
            Self::Node => "node",
            Self::Token => "token",
            Self::Secret => "secret",
            Self::Credential => "credential",
            Self::Group => "concurrency group",
            Self::Schedule => "schedule",
        }
    }

    fn hint(self, cause: NotFoundCause) -> String {
        let (letter, list) = match self {
            Self::Job => ('j', Self::JOB_HINT),
            Self::Graph => ('g', "list graphs with GET /api/v1/orchestrator/graphs"),
            Self::Execution => {
                ('e', "list executions with GET /api/v1/orchestrator/jobs/:jobID/executions")
            }
            Self::Node => ('n', Self::NODE_HINT),
            Self::Token => return "list tokens with GET /api/v1/orchestrator/tokens".to_owned(),
            Self::Secret => return "list secrets with GET /api/v1/orchestrator/secrets".to_owned(),
            Self::Group => return "list groups with GET /api/v1/orchestrator/groups".to_owned(),
            Self::Credential => {
                return "list credentials with GET /api/v1/orchestrator/credentials".to_owned();
            }
            Self::Schedule => {
                return "list schedules with GET /api/v1/orchestrator/schedules".to_owned();
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
