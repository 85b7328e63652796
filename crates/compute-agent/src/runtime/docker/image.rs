//! Images: pulled by policy, once for all waiting tasks, and removed when they take too much
//! space.

mod collector;
mod config_file;
mod credentials;
mod helper;
mod login;
mod progress;
mod pull;
mod record;
mod reference;
mod refusal;
mod registries;
mod seen;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::execution::Failure;
use api_types::engine::{DockerParams, PullPolicy};
use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ListImagesOptions;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::{Notify, watch};
use tracing::debug;

use super::error::{is_not_found, of_engine};
use crate::data::progress::Progress as Telling;
use crate::host::clock;
use crate::host::settings::Settings;
use crate::runtime::ExecutorError;
use collector::Collector;
use credentials::Credentials;
use progress::Progress;
use pull::PullError;
use record::{Hold, Record};
use reference::full_name;
use registries::Registries;
use seen::Seen;

/// A pull shared by all tasks that wait for it: it continues while one of them waits.
type Pulling = BoxFuture<'static, Result<(), PullError>>;

/// The images of one Engine.
pub(super) struct Images {
    policy: PullPolicy,
    credentials: Arc<Credentials>,
    registries: Registries,
    /// By image name, as tasks write it.
    under_way: Mutex<HashMap<String, UnderWay>>,
    seen: Seen,
    record: Record,
    collector: Collector,
    /// Notified when there may be something to collect.
    look: Arc<Notify>,
}

struct UnderWay {
    pulling: WeakShared<Pulling>,
    progress: watch::Receiver<Progress>,
}

// === impl Images ===

impl Images {
    /// `record` is the file that records the pulled images.
    pub(super) fn new(settings: &Settings, record: &Path) -> Self {
        let registries = Registries::new(settings);
        let settings = &settings.docker;
        let record = Record::open(record);
        Self {
            collector: Collector::new(settings, record.clone()),
            record,
            seen: Seen::default(),
            look: Arc::default(),
            policy: settings.pull_policy,
            credentials: Arc::new(Credentials::new(settings)),
            registries,
            under_way: Mutex::default(),
        }
    }

    /// Whether this node supports the pull policy that the task requests.
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

    /// The effective policy of a task: its own, unless the node never pulls.
    fn policy(&self, asked: Option<PullPolicy>) -> PullPolicy {
        match self.policy {
            PullPolicy::Never => PullPolicy::Never,
            PullPolicy::Missing | PullPolicy::Always => asked.unwrap_or(self.policy),
        }
    }

    /// Protects the image from collection while a container of it is being created.
    pub(super) fn hold(&self, image: &str) -> Hold {
        self.record.hold(full_name(image))
    }

    /// A container was removed: its image may be unused now.
    pub(super) fn look(&self) {
        self.look.notify_one();
    }

    /// Collects images, until the agent stops.
    pub(super) async fn collect(&self, client: impl Fn() -> Result<Docker, ExecutorError>) {
        loop {
            let _ = tokio::time::timeout(collector::INTERVAL, self.look.notified()).await;
            if let Ok(client) = client()
                && let Err(error) = self.collector.collect(&client).await
            {
                debug!(%error, "the image collection failed; retrying later");
            }
            tokio::time::sleep(collector::PAUSE).await;
        }
    }

    /// Ensures that the image is present, and reports the progress of a long pull.
    pub(super) async fn ensure(
        &self,
        client: &Docker,
        params: &DockerParams,
        told: &Telling,
    ) -> Result<(), ExecutorError> {
        let (image, policy) = (params.image.as_str(), self.policy(params.pull_policy));
        match policy {
            PullPolicy::Always => {}
            PullPolicy::Missing | PullPolicy::Never => match self.present(client, image).await? {
                Some(id) => {
                    self.record.used(&id, clock::now());
                    return Ok(());
                }
                None if policy == PullPolicy::Never => return Err(self.absent(image)),
                None => {}
            },
        }
        self.registries.check(image, &self.credentials).await.map_err(|reason| {
            let message = format!("image '{image}' cannot be pulled: {reason}");
            ExecutorError::Failed(Failure::fetch(message))
        })?;
        let (pulling, progress) = self.join_pull(client, image);
        let progress_text = || format!("pulling image '{image}': {}", *progress.borrow());
        told.during(pulling, progress_text).await.map_err(PullError::into_error)
    }

    /// The id of an image that the Engine has, or had a moment ago.
    async fn present(&self, client: &Docker, image: &str) -> Result<Option<String>, ExecutorError> {
        if let Some(id) = self.seen.id(image, clock::now()) {
            return Ok(Some(id));
        }
        let found = present(client, image).await?;
        if let Some(found) = &found {
            self.seen.note(image, &found.id, clock::now());
        }
        Ok(found.map(|found| found.id))
    }

    /// The Engine did not have the image when a container was to be created.
    pub(super) fn missed(&self, image: &str) {
        self.seen.forget(image);
    }

    /// Joins the pull in progress, or starts one.
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
        let pull = pull_and_record(
            client.clone(),
            image.to_owned(),
            Arc::clone(&self.credentials),
            sender,
            self.record.clone(),
            Arc::clone(&self.look),
        );
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
        ExecutorError::Failed(Failure::fetch(format!(
            "image '{image}' is not on this node, and the pull policy 'never' forbids pulling it; \
             load the image on the node, or {remedy}"
        )))
    }
}

/// Pulls the image, and records the agent as its owner unless the image was present under another
/// name.
async fn pull_and_record(
    client: Docker,
    image: String,
    credentials: Arc<Credentials>,
    progress: watch::Sender<Progress>,
    record: Record,
    look: Arc<Notify>,
) -> Result<(), PullError> {
    let before = ids(&client).await;
    pull::pull(client.clone(), image.clone(), credentials, progress).await?;
    // An image with unknown origin counts as someone else's.
    if let (Some(before), Ok(Some(found))) = (before, present(&client, &image).await) {
        if record.knows(&found.id) || !before.contains(&found.id) {
            record.pulled(&found.id, full_name(&image), found.size_bytes, clock::now()).await;
        } else {
            debug!(image, "the pulled image was present before: the agent does not own it");
        }
    }
    look.notify_one();
    Ok(())
}

/// An image that the Engine has.
struct Found {
    id: String,
    size_bytes: u64,
}

async fn ids(client: &Docker) -> Option<HashSet<String>> {
    let images = client.list_images(None::<ListImagesOptions>).await.ok()?;
    Some(images.into_iter().map(|image| image.id).collect())
}

async fn present(client: &Docker, image: &str) -> Result<Option<Found>, ExecutorError> {
    match client.inspect_image(image).await {
        Ok(found) => Ok(Some(Found {
            id: found.id.unwrap_or_default(),
            size_bytes: found.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
        })),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(Error::DockerResponseServerError { status_code: 400, message }) => {
            let message = format!("'{image}' is not the name of an image: {message}");
            Err(ExecutorError::Failed(Failure::task(message)))
        }
        Err(error) => Err(of_engine(error)),
    }
}
