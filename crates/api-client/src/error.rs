//! Errors of a request, distinguished by what the caller does about them.

use std::error::Error;
use std::fmt;

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
    /// None of several URLs led to a response: the service may or may not have executed the request.
    #[error("{0}")]
    NoAnswer(NoAnswer),
    /// The response is not one of this API.
    #[error("{operation}: unexpected response from {base_url}: {reason}")]
    Protocol { operation: String, base_url: String, reason: String },
}

/// What the attempts at several URLs ended with.
#[derive(Debug)]
pub struct NoAnswer {
    pub operation: String,
    /// The URLs, without passwords.
    pub attempts: Vec<(String, ClientError)>,
}

impl ClientError {
    /// The error code, if the service refused the request.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Api(error) => Some(error.code),
            Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::NoAnswer(_)
            | Self::Protocol { .. } => None,
        }
    }

    /// The reason alone, without the request and its URL.
    pub fn brief(&self) -> String {
        match self {
            Self::Api(error) => error.message.clone(),
            Self::NoAnswer(all) => all.to_string(),
            Self::Unreachable { reason, .. } | Self::Protocol { reason, .. } => reason.clone(),
            Self::Untrusted { reason, .. } => format!("the certificate is not trusted: {reason}"),
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
            Self::Unreachable { .. } | Self::NoAnswer(_) | Self::Protocol { .. } => true,
            Self::Untrusted { .. } => false,
        }
    }
}

// === impl NoAnswer ===

impl NoAnswer {
    /// The error after attempts that all failed: that of a single one, or a refusal if all URLs
    /// led to the same, or a certificate if none has one that is trusted.
    pub(crate) fn of_all(
        operation: String,
        mut attempts: Vec<(String, ClientError)>,
    ) -> ClientError {
        let code = attempts.first().and_then(|(_, error)| error.code());
        let is_same = |(_, error): &(String, ClientError)| match error {
            ClientError::Api(error) => code == Some(error.code),
            ClientError::Untrusted { .. } => {
                matches!(attempts.first(), Some((_, ClientError::Untrusted { .. })))
            }
            _ => false,
        };
        if attempts.len() == 1 || attempts.iter().all(is_same) {
            let (_, last) = attempts.pop().expect("each client has a URL");
            return last;
        }
        ClientError::NoAnswer(Self { operation, attempts })
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: none of the URLs leads to a response", self.operation)?;
        for (at, (url, error)) in self.attempts.iter().enumerate() {
            let separator = if at == 0 { ": " } else { "; " };
            write!(f, "{separator}{url}: {}", error.brief())?;
        }
        Ok(())
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
