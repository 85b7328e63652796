//! One pull, from the credentials to the last layer.

use std::sync::Arc;
use std::time::Duration;

use agent_core::execution::Failure;
use api_types::image::ImageReference;
use bollard::errors::Error;
use futures_util::StreamExt;
use tokio::sync::watch;
use tracing::info;

use super::credentials::{Credentials, RegistryLogin};
use super::progress::Progress;
use super::refusal::Problem;
use super::registries::Registries;
use crate::data::retry::{AttemptError, RetryPolicy};
use crate::runtime::ExecutorError;
use crate::runtime::docker::engine::Engine;
use crate::runtime::docker::error::{chain, unreachable};

/// A pull without a message for this long has failed.
const SILENCE: Duration = Duration::from_secs(120);

/// Covers the restart of a registry; the Engine itself retries layers.
const RETRY: RetryPolicy =
    RetryPolicy { tries: 3, first: Duration::from_millis(500), longest: Duration::from_secs(2) };

/// What a pull signs in with.
pub(super) enum Signs {
    /// The node's own login for the registry, if it has one.
    AsNode(Arc<Credentials>),
    As(RegistryLogin),
}

/// Why a pull failed; reported to everyone who waits for it.
#[derive(Debug, Clone)]
pub(super) enum PullError {
    Failed(Failure),
    /// The Engine itself became unreachable.
    Away(String),
}

/// Why one attempt failed.
enum Broken {
    AttemptError(AttemptError),
    Away(String),
}

// === impl Broken ===

impl Broken {
    /// The Engine has already retried layers for about a minute.
    fn for_good(self) -> Self {
        match self {
            Self::AttemptError(AttemptError::Transient(failure)) => {
                Self::AttemptError(AttemptError::Permanent(failure))
            }
            other => other,
        }
    }
}

// === impl PullError ===

impl PullError {
    pub(super) fn into_error(self) -> ExecutorError {
        match self {
            Self::Failed(failure) => ExecutorError::Failed(failure),
            Self::Away(reason) => unreachable(reason),
        }
    }
}

/// Pulls the image; `progress` shows how far it is.
pub(super) async fn pull(
    client: Engine,
    image: ImageReference,
    registries: &Registries,
    signs: Signs,
    progress: watch::Sender<Progress>,
) -> Result<(), PullError> {
    let registry = image.registry().unwrap_or_default();
    let mut backoff = RETRY.backoff();
    let mut tries = 1;
    loop {
        // For each attempt: a password may have changed in the meantime.
        let known = match &signs {
            Signs::AsNode(credentials) => credentials.for_registry(registry).await,
            Signs::As(known) => known.clone(),
        };
        let checked = registries.check_sign_in(&image, &known).await;
        checked.map_err(|reason| PullError::Failed(refused(image.as_str(), &reason)))?;
        info!(%image, registry, login = known.login.is_some(), "pulling an image");
        match once(&client, &image, registry, &known, &progress).await {
            Ok(()) => {
                info!(%image, "pulled an image");
                return Ok(());
            }
            Err(Broken::Away(reason)) => return Err(PullError::Away(reason)),
            Err(Broken::AttemptError(AttemptError::Permanent(failure))) => {
                return Err(PullError::Failed(failure));
            }
            Err(Broken::AttemptError(AttemptError::Transient(failure))) if tries == RETRY.tries => {
                return Err(PullError::Failed(RETRY.exhausted(failure)));
            }
            Err(Broken::AttemptError(AttemptError::Transient(failure))) => {
                info!(%image, reason = failure.message, "a pull failed; retrying");
            }
        }
        tries += 1;
        backoff.wait().await;
    }
}

/// A pull that this node does not begin.
pub(super) fn refused(image: &str, reason: &str) -> Failure {
    Failure::fetch(format!("image '{image}' cannot be pulled: {reason}"))
}

async fn once(
    client: &Engine,
    image: &ImageReference,
    registry: &str,
    known: &RegistryLogin,
    progress: &watch::Sender<Progress>,
) -> Result<(), Broken> {
    let refused = |said: &str| {
        let said = known.login.as_ref().map_or_else(|| said.to_owned(), |login| login.hide(said));
        Broken::AttemptError(Problem::classify(&said).attempt_error(
            image.as_str(),
            registry,
            &said,
            known,
        ))
    };
    let client = with_login(client.clone().with_timeout(SILENCE), registry, known);
    let mut steps = client.create_image(image);
    let mut seen = Progress::default();
    loop {
        let step = match tokio::time::timeout(SILENCE, steps.next()).await {
            Ok(Some(step)) => step,
            Ok(None) => return Ok(()),
            Err(_) => return Err(refused(&format!("timeout: no progress in {SILENCE:?}"))),
        };
        let step = step.map_err(|error| match error {
            Error::DockerResponseServerError { message, .. } => refused(&message),
            Error::DockerStreamError { error } => refused(&error).for_good(),
            Error::RequestTimeoutError => refused(&format!("timeout: no answer in {SILENCE:?}")),
            other => Broken::Away(chain(&other)),
        })?;
        seen.take(&step);
        progress.send_replace(seen.clone());
    }
}

/// The same Engine, with the login.
fn with_login(client: Engine, registry: &str, known: &RegistryLogin) -> Engine {
    match &known.login {
        Some(login) => client.with_login(login.header(registry)),
        None => client,
    }
}
