//! Who may ask an agent for what, where its orchestrator asks for credentials.
//!
//! A node may be compromised, so it must never learn a token that opens more than it already has.
//! A person at the node reads what runs there with the token in the data directory. For metrics there
//! are tokens of the role `monitor`, which open nothing else: the agent asks the orchestrator whose
//! they are. By their prefix it refuses every other token without asking, so that a wrong
//! configuration fails at its first scrape. Output and results for everyone else are with the
//! orchestrator, which knows the namespaces.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_client::{Client, ClientError, ProxyUse};
use api_types::access::{MONITOR_TOKEN, Role};
use api_types::{ApiError, Code};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use ring::digest::{SHA256, digest};
use tokio::time::Instant;

use super::failure::Failure;
use super::local_token::{LocalToken, LocalTokenError};
use crate::host::settings::Settings;
use crate::session::enrolment::Enrolment;

/// How long an answer of the orchestrator is believed. A revoked token opens an agent for no longer.
const BELIEVED_FOR: Duration = Duration::from_secs(10);

/// Tokens that are remembered. A caller can present any number of them.
const REMEMBERED: usize = 256;

const BEARER: &str = "Bearer ";

/// Who may use an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenTo {
    /// Every caller: it says nothing about what runs.
    Everyone,
    /// Monitors, and a person at the node.
    Monitors,
    /// A person at the node.
    ThisNode,
}

/// Judges tokens.
pub(crate) struct Guard {
    orchestrator: String,
    proxy: ProxyUse,
    asks: Asks,
    /// By the SHA-256 of the token.
    known: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
}

/// Whether callers need credentials: only an orchestrator that gave this node a certificate knows
/// tokens.
enum Asks {
    NoCaller,
    EveryCaller { enrolment: Enrolment, local: LocalToken, file: PathBuf },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Permitted,
    /// The token is valid, and has another role.
    Other(Role),
    Invalid,
}

// === impl Guard ===

impl Guard {
    /// Leaves the token of this start in the file, where callers need credentials.
    pub(crate) fn open(
        enrolment: &Enrolment,
        settings: &Settings,
        file: PathBuf,
    ) -> Result<Self, LocalTokenError> {
        let asks = match enrolment {
            Enrolment::Stated => Asks::NoCaller,
            Enrolment::Certified(_) => Asks::EveryCaller {
                enrolment: enrolment.clone(),
                local: LocalToken::write(&file)?,
                file,
            },
        };
        let (orchestrator, proxy) = (settings.orchestrator.clone(), settings.proxy());
        Ok(Self { orchestrator, proxy, asks, known: Mutex::default() })
    }

    /// Refuses a caller who may not use an operation.
    pub(super) async fn admit(&self, open_to: OpenTo, headers: &HeaderMap) -> Result<(), Response> {
        let Asks::EveryCaller { enrolment, local, file } = &self.asks else { return Ok(()) };
        if open_to == OpenTo::Everyone {
            return Ok(());
        }
        let presented = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = presented.and_then(|text| text.strip_prefix(BEARER)).map(str::trim);
        let checked = match token.filter(|token| !token.is_empty()) {
            None => Err(unauthenticated("the request has no credentials", hint(open_to, file))),
            Some(token) if LocalToken::is_meant(token) => match local.is(token) {
                true => Ok(()),
                false => {
                    let message = "the token is not that of the agent's last start";
                    Err(unauthenticated(message, hint(open_to, file)))
                }
            },
            Some(token) if open_to == OpenTo::Monitors && is_of_a_monitor(token) => {
                self.ask_about(enrolment, token).await
            }
            Some(token) => Err(refused_unasked(open_to, token, file)),
        };
        checked.map_err(|failure| {
            let mut response = failure.into_response();
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            response
        })
    }

    async fn ask_about(&self, enrolment: &Enrolment, token: &str) -> Result<(), Failure> {
        match self.verdict(enrolment, token).await? {
            Verdict::Permitted => Ok(()),
            Verdict::Other(role) => {
                let message = format!("this needs the role monitor, and the token's is {role}");
                Err(ApiError::new(Code::Forbidden, message).into())
            }
            Verdict::Invalid => {
                let hint = "make another with `jobctl token create NAME --role monitor`";
                Err(unauthenticated("the credentials are invalid or revoked", hint.to_owned()))
            }
        }
    }

    async fn verdict(&self, enrolment: &Enrolment, token: &str) -> Result<Verdict, Failure> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(verdict) = self.remembered(&hash) {
            return Ok(verdict);
        }
        let verdict = self.ask(enrolment, token).await.map_err(|error| {
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
    async fn ask(&self, enrolment: &Enrolment, token: &str) -> Result<Verdict, ClientError> {
        let client = enrolment.client_of(&self.orchestrator, self.proxy, token);
        let Ok(client): Result<Client, _> = client else { return Ok(Verdict::Invalid) };
        match client.identity().await {
            Ok(identity) if identity.role == Role::Monitor => Ok(Verdict::Permitted),
            Ok(identity) => Ok(Verdict::Other(identity.role)),
            Err(ClientError::Api(error)) if error.code == Code::Unauthenticated => {
                Ok(Verdict::Invalid)
            }
            Err(error) => Err(error),
        }
    }
}

fn is_of_a_monitor(token: &str) -> bool {
    token.strip_prefix(MONITOR_TOKEN).is_some_and(|rest| rest.starts_with('_'))
}

/// Of a token that is not for this operation, valid or not.
fn refused_unasked(open_to: OpenTo, token: &str, file: &std::path::Path) -> Failure {
    if is_of_a_monitor(token) {
        let message = "a monitor's token opens metrics alone";
        return ApiError::new(Code::Forbidden, message).with_hint(hint(open_to, file)).into();
    }
    let message = "this token is not for agents: revoke it, because this node has seen it now";
    unauthenticated(message, hint(open_to, file))
}

fn hint(open_to: OpenTo, file: &std::path::Path) -> String {
    match open_to {
        OpenTo::Everyone | OpenTo::Monitors => "send a monitor's token, which begins with jm1_; \
             `jobctl token create NAME --role monitor` makes one"
            .to_owned(),
        OpenTo::ThisNode => format!(
            "send the token in {} on this node; output and results of jobs are with the orchestrator",
            file.display()
        ),
    }
}

fn unauthenticated(message: &str, hint: String) -> Failure {
    ApiError::new(Code::Unauthenticated, message).with_hint(hint).into()
}
