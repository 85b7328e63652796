//! Requests that their sender may not make, or not like this.

use api_types::Code;
use api_types::access::Role;

use crate::access::Needs;
use crate::access::exchange::ExchangeRefusal;
use crate::access::node::NodeRefusal;
use crate::access::token::Invalid;

#[derive(Debug)]
pub(crate) enum Denied {
    /// The request names a host that is not this service.
    OtherHost {
        host: String,
    },
    /// A browser sent the request for a page of another origin.
    CrossOrigin {
        header: &'static str,
        value: String,
    },
    /// A proxy in front of a listener that trusts every caller.
    Proxied {
        header: &'static str,
    },
    /// The value of a secret would go over plain HTTP to or from another machine.
    UnprotectedSecret,
    /// The operation needs credentials, and the request has none.
    NoCredentials,
    InvalidCredentials(Invalid),
    /// The caller's role is too low, in the namespace where there is one.
    NotPermitted {
        needs: Needs,
        namespace: Option<String>,
    },
    /// An owner cannot give away more than it has.
    RoleBeyondOwn {
        role: Role,
    },
    LabelsOfAdmin(Vec<String>),
    /// A node, or a join token, is refused.
    Node(NodeRefusal),
    /// An ID token is refused, or its issuer cannot be asked.
    Exchange(ExchangeRefusal),
}

// === impl Denied ===

impl Denied {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::OtherHost { .. } => Code::MisdirectedRequest,
            Self::NoCredentials | Self::InvalidCredentials(_) => Code::Unauthenticated,
            Self::CrossOrigin { .. }
            | Self::Proxied { .. }
            | Self::UnprotectedSecret
            | Self::NotPermitted { .. }
            | Self::RoleBeyondOwn { .. }
            | Self::LabelsOfAdmin(_) => Code::Forbidden,
            Self::Node(refusal) => refusal.code(),
            Self::Exchange(refusal) => refusal.code(),
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::OtherHost { host } => format!("'{host}' is not a name of this orchestrator"),
            Self::CrossOrigin { header, value } => {
                format!("a page of another origin sent this request ({header}: {value})")
            }
            Self::Proxied { header } => format!(
                "a proxy sent this request (header {header}), and this listener trusts every caller"
            ),
            Self::UnprotectedSecret => {
                "secrets are not sent over plain HTTP to or from another machine".to_owned()
            }
            Self::NoCredentials => "the request has no credentials".to_owned(),
            Self::InvalidCredentials(Invalid::Unknown) => {
                "the credentials are invalid or revoked".to_owned()
            }
            Self::InvalidCredentials(Invalid::Expired) => "the credentials have expired".to_owned(),
            Self::NotPermitted { needs, namespace } => not_permitted(*needs, namespace.as_deref()),
            Self::RoleBeyondOwn { role } => format!(
                "your role does not allow creating a token with the role {role} for these namespaces"
            ),
            Self::LabelsOfAdmin(labels) => format!(
                "an admin set the labels {}, so only an admin can change them",
                labels.join(", ")
            ),
            Self::Node(refusal) => refusal.to_string(),
            Self::Exchange(refusal) => refusal.to_string(),
        }
    }

    pub(super) fn hint(&self) -> String {
        let hint = match self {
            Self::OtherHost { .. } => {
                "use its IP address, or add the name to the orchestrator's setting allowed_hosts"
            }
            Self::CrossOrigin { .. } => {
                "only pages that this orchestrator serves may use its API from a browser"
            }
            Self::Proxied { .. } => {
                "connect directly, or have the orchestrator listen on an address that is not \
                 loopback"
            }
            Self::UnprotectedSecret => "have the orchestrator serve TLS: leave `insecure` off",
            Self::NoCredentials => {
                "send 'Authorization: Bearer <token>'; with jobctl: jobctl login"
            }
            Self::InvalidCredentials(_) => {
                "ask for a new token, or sign in again with jobctl login"
            }
            Self::NotPermitted { .. } | Self::RoleBeyondOwn { .. } => {
                "docs/security.md lists what each role may do; \
                 GET /api/v1/auth/identity shows yours"
            }
            Self::LabelsOfAdmin(_) => "send these labels unchanged along with yours",
            Self::Node(refusal) => return refusal.hint(),
            Self::Exchange(refusal) => refusal.hint(),
        };
        hint.to_owned()
    }
}

fn not_permitted(needs: Needs, namespace: Option<&str>) -> String {
    let needed = match needs {
        Needs::Node => return "only a node may do this, and only for itself".to_owned(),
        Needs::User => {
            return "a token with the role monitor gives access to metrics only".to_owned();
        }
        Needs::Nothing | Needs::Credentials => return "the caller may not do this".to_owned(),
        Needs::Role(role) => role,
    };
    match namespace {
        Some(namespace) => format!("this needs the role {needed} in namespace '{namespace}'"),
        None => format!("this needs the role {needed}"),
    }
}
