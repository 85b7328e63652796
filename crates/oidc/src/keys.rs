//! Verifies ID tokens with the issuer's keys, which are kept for when the issuer is away.
//!
//! Keys are fetched for the first token, when they are older than an hour, and when a token names
//! an unknown one. A sender of forged tokens can cause the last, so it happens at most every 30
//! seconds. If the issuer does not respond, its keys stay valid for a day after they were fetched.
//! One request at a time fetches; the others wait for it, or use the cached keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::crypto;
use crate::key::{self, Key};
use crate::provider::{Metadata, Provider, ProviderError};
use crate::token::{self, Claims, Expected, InvalidToken, Named, VerifyError};

/// For how long keys serve while the issuer is away.
pub const KEYS_SERVE: Duration = Duration::from_hours(24);

/// Minimum interval between fetches of the keys because a token has an unknown one.
pub const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(30);

/// The age from which keys are asked for again: until then a key that the issuer withdrew is used.
const KEYS_ARE_FRESH: Duration = Duration::from_hours(1);

/// Minimum interval between fetches that renew older keys.
const RENEW_INTERVAL: Duration = Duration::from_secs(30);

/// Minimum interval between fetches while the issuer's keys are missing.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);

/// The moment of a request, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since 1970, for the times in tokens.
    pub unix_seconds: u64,
    /// Since the machine started, for ages.
    pub uptime: Duration,
}

/// The issuer does not answer, and what it said before is too old.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the issuer of ID tokens is not available: {reason}")]
pub struct Unavailable {
    pub reason: String,
}

/// Verifies ID tokens of one issuer.
#[derive(Debug)]
pub struct Verifier {
    provider: Provider,
    audiences: Vec<String>,
    state: Mutex<State>,
    /// Held by the request that asks the issuer.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    said: Option<Arc<Said>>,
    /// When the issuer was asked last, and how that failed if it did.
    asked: Option<(Duration, Option<String>)>,
    asked_for_unknown: Option<Duration>,
}

/// What the issuer has said.
#[derive(Debug)]
struct Said {
    metadata: Metadata,
    keys: Vec<Key>,
    at: Duration,
}

// === impl Verifier ===

impl Verifier {
    /// Fetches nothing yet. A token must be for one of the audiences.
    pub fn new(provider: Provider, audiences: Vec<String>) -> Self {
        crypto::install();
        Self { provider, audiences, state: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Where the issuer has what.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn metadata(&self, now: Now) -> Result<Metadata, Unavailable> {
        Ok(self.said(now.uptime).await?.metadata.clone())
    }

    /// Whose token it is. With a nonce, it must be of that sign-in.
    ///
    /// # Errors
    /// The token is refused, or its key cannot be asked for.
    pub async fn verify(
        &self,
        token: &str,
        nonce: Option<&str>,
        now: Now,
    ) -> Result<Claims, VerifyError> {
        let named = token::named(token)?;
        let key = self.key(&named, now.uptime).await?;
        let expected = Expected {
            issuer: self.provider.issuer(),
            audiences: &self.audiences,
            nonce,
            now_seconds: now.unix_seconds,
        };
        Ok(token::verify(token, &named, &key, &expected)?)
    }

    async fn key(&self, named: &Named, now: Duration) -> Result<Key, VerifyError> {
        let find = |said: &Said| key::find(&said.keys, named.key_id.as_deref(), named.algorithm);
        if let Some(key) = find(&*self.said(now).await?) {
            return Ok(key);
        }
        let _asking = self.asking.lock().await;
        // Another request may have fetched them already.
        if let Some(key) = self.state(|state| state.usable(now)).as_deref().and_then(find) {
            return Ok(key);
        }
        let is_due = self.state(|state| {
            let is_due = is_due(state.asked_for_unknown, now, UNKNOWN_KEY_INTERVAL);
            if is_due {
                state.asked_for_unknown = Some(now);
            }
            is_due
        });
        if is_due {
            self.ask(now).await?;
            if let Some(key) = self.state(|state| state.usable(now)).as_deref().and_then(find) {
                return Ok(key);
            }
        }
        // While the issuer is away, it is unknown whether it has such a key.
        match self.state(|state| state.failure()) {
            Some(reason) => Err(Unavailable { reason }.into()),
            None => Err(InvalidToken::UnknownKey.into()),
        }
    }

    /// What the issuer said, asked for again if it is old.
    async fn said(&self, now: Duration) -> Result<Arc<Said>, Unavailable> {
        if let Some(said) = self.state(|state| state.usable(now)) {
            let is_due = self.state(|state| state.asks_again(now, RENEW_INTERVAL));
            if now.saturating_sub(said.at) >= KEYS_ARE_FRESH
                && is_due
                && let Ok(_asking) = self.asking.try_lock()
            {
                // What is there serves on if it fails.
                let _ = self.ask(now).await;
            }
        } else {
            let _asking = self.asking.lock().await;
            let is_due = self.state(|state| {
                state.usable(now).is_none() && state.asks_again(now, FIRST_INTERVAL)
            });
            if is_due {
                self.ask(now).await?;
            }
        }
        self.state(|state| match state.usable(now) {
            Some(said) => Ok(said),
            None => Err(Unavailable { reason: state.failure().unwrap_or_default() }),
        })
    }

    /// Asks the issuer for everything.
    async fn ask(&self, now: Duration) -> Result<(), Unavailable> {
        let asked = self.asked().await;
        self.state(|state| match asked {
            Ok((metadata, keys)) => {
                if state.failure().is_some() {
                    tracing::info!(issuer = self.provider.issuer(), "the issuer answers again");
                }
                state.said = Some(Arc::new(Said { metadata, keys, at: now }));
                state.asked = Some((now, None));
                Ok(())
            }
            Err(error) => {
                let reason = error.to_string();
                if state.failure().is_none() {
                    tracing::warn!(%reason, "cannot get the keys of the issuer of ID tokens");
                }
                state.asked = Some((now, Some(reason.clone())));
                Err(Unavailable { reason })
            }
        })
    }

    async fn asked(&self) -> Result<(Metadata, Vec<Key>), ProviderError> {
        let metadata = self.provider.discover().await?;
        let keys = self.provider.keys(&metadata).await?;
        Ok((metadata, keys))
    }

    fn state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl State ===

impl State {
    /// What may still be relied on.
    fn usable(&self, now: Duration) -> Option<Arc<Said>> {
        let said = self.said.as_ref();
        said.filter(|said| now.saturating_sub(said.at) < KEYS_SERVE).map(Arc::clone)
    }

    fn asks_again(&self, now: Duration, interval: Duration) -> bool {
        is_due(self.asked.as_ref().map(|(at, _)| *at), now, interval)
    }

    fn failure(&self) -> Option<String> {
        self.asked.as_ref().and_then(|(_, failure)| failure.clone())
    }
}

fn is_due(last: Option<Duration>, now: Duration, interval: Duration) -> bool {
    last.is_none_or(|last| now.saturating_sub(last) >= interval)
}
