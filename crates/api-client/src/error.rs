//! What can go wrong with a request, told apart by what the caller does about it.

use std::error::Error;

use api_types::{ApiError, Code};

/// A base URL that no request can be sent to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{url}' is not a base URL: {reason}")]
pub struct InvalidBaseUrl {
    pub url: String,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The service answered, and refused.
    #[error("{0}")]
    Api(ApiError),
    /// No answer came: the request may or may not have been carried out.
    #[error("{operation}: no answer from {base_url}: {reason}")]
    Unreachable { operation: String, base_url: String, reason: String },
    /// Something answered that does not speak this API.
    #[error("{operation}: {base_url} does not answer as this API does: {reason}")]
    Protocol { operation: String, base_url: String, reason: String },
}

impl ClientError {
    /// The code of a refusal.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Api(error) => Some(error.code),
            Self::Unreachable { .. } | Self::Protocol { .. } => None,
        }
    }

    /// Whether the same request may succeed later, nothing else being changed.
    ///
    /// An answer of something else counts as well: a proxy speaks its own language while the
    /// service behind it is away.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Api(error) => error.status == 429 || error.status >= 500,
            Self::Unreachable { .. } | Self::Protocol { .. } => true,
        }
    }
}

/// The chain of causes in one line: reqwest's own `Display` leaves out why.
pub(crate) fn reason(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_worth_repeating_only_when_the_service_was_not_able() {
        for (code, transient) in [
            (Code::InvalidJob, false),
            (Code::StaleSession, false),
            (Code::TooManyRequests, true),
            (Code::Internal, true),
            (Code::ShuttingDown, true),
        ] {
            let error = ClientError::Api(ApiError::new(code, "no"));
            assert_eq!(error.is_transient(), transient, "{code:?}");
            assert_eq!(error.code(), Some(code));
        }
    }

    #[test]
    fn a_chain_of_causes_is_told_once_each() {
        let inner = std::io::Error::other("connection refused");
        let outer = ClientError::Unreachable {
            operation: "GET /x".to_owned(),
            base_url: "http://h:1".to_owned(),
            reason: reason(&std::io::Error::other(inner)),
        };
        assert_eq!(outer.to_string(), "GET /x: no answer from http://h:1: connection refused");
    }
}
