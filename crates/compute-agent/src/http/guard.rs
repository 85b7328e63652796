//! Who may ask an agent for what it runs, where its orchestrator asks for credentials.
//!
//! An agent has no tokens of its own: it asks the orchestrator whose token a caller presents, and
//! answers operators and admins. Everybody else reads output and results through the orchestrator,
//! which knows the namespaces.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_client::{Client, ClientError};
use api_types::access::Role;
use api_types::{ApiError, Code};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use ring::digest::{SHA256, digest};
use tokio::time::Instant;

use super::failure::Failure;
use crate::session::enrolment::Enrolment;

/// How long an answer of the orchestrator is believed. A revoked token opens an agent for no longer.
const BELIEVED_FOR: Duration = Duration::from_secs(10);

/// Tokens that are remembered. A caller can present any number of them.
const REMEMBERED: usize = 256;

const BEARER: &str = "Bearer ";

/// Judges tokens by asking the orchestrator.
pub(crate) struct Guard {
    enrolment: Enrolment,
    orchestrator: String,
    /// By the SHA-256 of the token.
    known: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Permitted,
    /// The token is valid, and its role too low.
    TooLow(Role),
    Invalid,
}

// === impl Guard ===

impl Guard {
    pub(crate) fn new(enrolment: Enrolment, orchestrator: String) -> Self {
        Self { enrolment, orchestrator, known: Mutex::default() }
    }

    /// Refuses a caller who may not use an operation, unless that is open to everybody.
    pub(super) async fn admit(&self, is_open: bool, headers: &HeaderMap) -> Result<(), Response> {
        if is_open || !self.asks_for_credentials() {
            return Ok(());
        }
        self.check(headers).await.map_err(|failure| {
            let mut response = failure.into_response();
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            response
        })
    }

    /// Only an orchestrator that gave this node a certificate knows tokens.
    fn asks_for_credentials(&self) -> bool {
        matches!(self.enrolment, Enrolment::Certified(_))
    }

    async fn check(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let presented = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = presented.and_then(|text| text.strip_prefix(BEARER)).map(str::trim);
        let Some(token) = token.filter(|token| !token.is_empty()) else {
            return Err(unauthenticated("the request has no credentials"));
        };
        match self.verdict(token).await? {
            Verdict::Permitted => Ok(()),
            Verdict::TooLow(role) => {
                let message = format!("this needs the role operator, and the token's is {role}");
                let error = ApiError::new(Code::Forbidden, message)
                    .with_hint("read output and results of jobs through the orchestrator");
                Err(error.into())
            }
            Verdict::Invalid => Err(unauthenticated("the credentials are not valid, or no longer")),
        }
    }

    async fn verdict(&self, token: &str) -> Result<Verdict, Failure> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(verdict) = self.remembered(&hash) {
            return Ok(verdict);
        }
        let verdict = self.ask(token).await.map_err(|error| {
            tracing::debug!(%error, "a token could not be verified");
            let message = "the orchestrator, which verifies tokens, does not answer";
            Failure::new(Code::NodeUnavailable, message)
        })?;
        self.remember(hash, verdict);
        Ok(verdict)
    }

    fn remembered(&self, hash: &[u8; 32]) -> Option<Verdict> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, verdict) = known.get(hash)?;
        (asked.elapsed() < BELIEVED_FOR).then_some(*verdict)
    }

    fn remember(&self, hash: [u8; 32], verdict: Verdict) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, (asked, _)| asked.elapsed() < BELIEVED_FOR);
        }
        if known.len() < REMEMBERED {
            known.insert(hash, (Instant::now(), verdict));
        }
    }

    /// Asks as the holder of the token would, over the connection that the node trusts.
    async fn ask(&self, token: &str) -> Result<Verdict, ClientError> {
        let Ok(client) = self.client(token) else { return Ok(Verdict::Invalid) };
        match client.identity().await {
            Ok(identity) if identity.role.is_of_the_cluster() => Ok(Verdict::Permitted),
            Ok(identity) => Ok(Verdict::TooLow(identity.role)),
            Err(ClientError::Api(error)) if error.code == Code::Unauthenticated => {
                Ok(Verdict::Invalid)
            }
            Err(error) => Err(error),
        }
    }

    fn client(&self, token: &str) -> Result<Client, api_client::InvalidBaseUrl> {
        self.enrolment.client_of(&self.orchestrator, token)
    }
}

fn unauthenticated(message: &str) -> Failure {
    ApiError::new(Code::Unauthenticated, message)
        .with_hint("send the token of an operator: 'Authorization: Bearer <token>'")
        .into()
}
