//! Errors of a request, distinguished by what the caller does about them.

use std::error::Error;

use api_types::{ApiError, Code};

/// An unusable base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url} is not a base URL: {reason}")]
pub struct InvalidBaseUrl {
    /// As far as it can have no password in it.
    pub url: String,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The service refused the request.
    #[error("{0}")]
    Api(ApiError),
    /// No response arrived: the service may or may not have executed the request.
    #[error("{operation}: no response from {base_url}: {reason}")]
    Unreachable { operation: String, base_url: String, reason: String },
    /// The server's certificate is not one that the client accepts; nothing was sent.
    #[error("{operation}: the certificate of {base_url} is not trusted: {reason}")]
    Untrusted { operation: String, base_url: String, reason: String },
    /// The response is not one of this API.
    #[error("{operation}: unexpected response from {base_url}: {reason}")]
    Protocol { operation: String, base_url: String, reason: String },
}

impl ClientError {
    /// The error code, if the service refused the request.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Api(error) => Some(error.code),
            Self::Unreachable { .. } | Self::Untrusted { .. } | Self::Protocol { .. } => None,
        }
    }

    /// Whether the service refused what the body says, or its size.
    pub fn is_about_the_body(&self) -> bool {
        matches!(self, Self::Api(error) if error.status == 400 || error.status == 413)
    }

    /// Whether the same request may succeed later.
    ///
    /// An unexpected response counts as transient: a proxy sends its own error pages while the
    /// service behind it is down.
    pub fn is_transient(&self) -> bool {
        match self {
            // A quota has room again when work ends, not in some seconds.
            Self::Api(error) if error.code == Code::QuotaExceeded => false,
            Self::Api(error) => error.status == 429 || error.status >= 500,
            Self::Unreachable { .. } | Self::Protocol { .. } => true,
            Self::Untrusted { .. } => false,
        }
    }
}

/// Joins the chain of causes in one line: reqwest's own `Display` omits them.
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
    fn only_temporary_failures_of_the_service_are_transient() {
        for (code, transient) in [
            (Code::InvalidJob, false),
            (Code::StaleSession, false),
            (Code::TooManyRequests, true),
            (Code::QuotaExceeded, false),
            (Code::Internal, true),
            (Code::ShuttingDown, true),
        ] {
            let error = ClientError::Api(ApiError::new(code, "no"));
            assert_eq!(error.is_transient(), transient, "{code:?}");
            assert_eq!(error.code(), Some(code));
        }
    }

    #[test]
    fn each_cause_of_a_chain_appears_once() {
        let inner = std::io::Error::other("connection refused");
        let outer = ClientError::Unreachable {
            operation: "GET /x".to_owned(),
            base_url: "http://h:1".to_owned(),
            reason: reason(&std::io::Error::other(inner)),
        };
        assert_eq!(outer.to_string(), "GET /x: no response from http://h:1: connection refused");
    }
}
