//! Images: there when a task needs them, pulled as the policy says, and once however many tasks
//! wait for one.

mod config_file;
mod credentials;
mod helper;
mod progress;
mod pull;
mod reference;
mod refusal;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api_types::engine::{DockerParams, PullPolicy};
use bollard::Docker;
use bollard::errors::Error;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::watch;

use super::error::{is_not_found, of_engine};
use crate::execution::Failure;
use crate::executor::ExecutorError;
use crate::progress::Progress as Telling;
use crate::settings::DockerSettings;
use credentials::Credentials;
use progress::Progress;
use pull::PullError;

/// A pull as all see it who wait for it: it goes on while one of them does.
type Pulling = BoxFuture<'static, Result<(), PullError>>;

/// The images of one Engine.
pub(super) struct Images {
    policy: PullPolicy,
    credentials: Arc<Credentials>,
    /// By the name of the image, as tasks write it.
    under_way: Mutex<HashMap<String, UnderWay>>,
}

struct UnderWay {
    pulling: WeakShared<Pulling>,
    progress: watch::Receiver<Progress>,
}

// === impl Images ===

impl Images {
    pub(super) fn new(settings: &DockerSettings) -> Self {
        Self {
            policy: settings.pull_policy,
            credentials: Arc::new(Credentials::new(settings)),
            under_way: Mutex::default(),
        }
    }

    /// Whether this node would do what the task asks of it.
    pub(super) fn admit(&self, asked: Option<PullPolicy>) -> Result<(), String> {
        match (self.policy, asked) {
            (PullPolicy::Never, Some(PullPolicy::Always)) => {
                Err("PullPolicy 'always' is not possible on this node: its docker.pull_policy is \
                     'never'"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }

    /// What holds for a task: what it asks for, but where the node never pulls.
    fn policy(&self, asked: Option<PullPolicy>) -> PullPolicy {
        match self.policy {
            PullPolicy::Never => PullPolicy::Never,
            PullPolicy::Missing | PullPolicy::Always => asked.unwrap_or(self.policy),
        }
    }

    /// Makes sure that the image is there, and tells how far a pull is that takes long.
    pub(super) async fn ensure(
        &self,
        client: &Docker,
        params: &DockerParams,
        told: &Telling,
    ) -> Result<(), ExecutorError> {
        let (image, policy) = (params.image.as_str(), self.policy(params.pull_policy));
        match policy {
            PullPolicy::Always => {}
            PullPolicy::Missing | PullPolicy::Never => match is_present(client, image).await? {
                true => return Ok(()),
                false if policy == PullPolicy::Never => return Err(self.absent(image)),
                false => {}
            },
        }
        let (pulling, progress) = self.join_pull(client, image);
        let how_far = || format!("pulling image '{image}': {}", *progress.borrow());
        told.during(pulling, how_far).await.map_err(PullError::into_error)
    }

    /// The pull that is under way, or a new one.
    fn join_pull(
        &self,
        client: &Docker,
        image: &str,
    ) -> (Shared<Pulling>, watch::Receiver<Progress>) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, pull| pull.pulling.upgrade().is_some());
        if let Some(pull) = under_way.get(image)
            && let Some(pulling) = pull.pulling.upgrade()
            && pulling.peek().is_none()
        {
            return (pulling, pull.progress.clone());
        }
        let (sender, progress) = watch::channel(Progress::default());
        let credentials = Arc::clone(&self.credentials);
        let pull = pull::pull(client.clone(), image.to_owned(), credentials, sender);
        let pulling = pull.boxed().shared();
        if let Some(weak) = pulling.downgrade() {
            let pull = UnderWay { pulling: weak, progress: progress.clone() };
            under_way.insert(image.to_owned(), pull);
        }
        (pulling, progress)
    }

    fn absent(&self, image: &str) -> ExecutorError {
        let remedy = match self.policy {
            PullPolicy::Never => "change docker.pull_policy of its agent",
            PullPolicy::Missing | PullPolicy::Always => "change the PullPolicy of the task",
        };
        ExecutorError::Failed(Failure::node(format!(
            "image '{image}' is not on this node, and the pull policy 'never' forbids to pull it; \
             load the image on the node, or {remedy}"
        )))
    }
}

async fn is_present(client: &Docker, image: &str) -> Result<bool, ExecutorError> {
    match client.inspect_image(image).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(Error::DockerResponseServerError { status_code: 400, message }) => {
            let message = format!("'{image}' is not the name of an image: {message}");
            Err(ExecutorError::Failed(Failure::task(message)))
        }
        Err(error) => Err(of_engine(error)),
    }
}
