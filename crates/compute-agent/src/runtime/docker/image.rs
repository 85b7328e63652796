//! Images: pulled by policy, once for all waiting tasks, and removed when they take too much
//! space.

mod access;
mod collector;
mod config_file;
mod credentials;
mod facts;
mod helper;
mod login;
mod progress;
mod pull;
mod record;
mod reference;
mod refusal;
mod registries;
mod seen;
mod sign_in;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::execution::Failure;
use api_types::credential::CredentialValue;
use api_types::engine::PullPolicy;
use api_types::image::ImageReference;
use bollard::errors::Error;
use bollard::query_parameters::ListImagesOptions;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::{Notify, watch};
use tracing::debug;

use super::engine::Engine;
use super::error::{is_not_found, of_task};
use crate::data::progress::Progress as ProgressReports;
use crate::host::clock;
use crate::host::settings::Settings;
use crate::runtime::ExecutorError;
use access::{ImageAccess, PrivatePulls};
use collector::Collector;
use credentials::{Credentials, RegistryLogin};
pub(super) use facts::Facts;
use facts::Present;
use progress::Progress;
use pull::{PullError, Signs};
use record::{Hold, Record};
use reference::full_name;
use registries::Registries;
use seen::Seen;

/// A pull shared by all tasks that wait for it: it continues while one of them waits.
type Pulling = BoxFuture<'static, Result<Present, PullError>>;

/// The images of one Engine.
pub(super) struct Images {
    policy: PullPolicy,
    credentials: Arc<Credentials>,
    registries: Arc<Registries>,
    /// By what the pull signs in with.
    under_way: Mutex<HashMap<(ImageReference, ImageAccess), UnderWay>>,
    seen: Seen,
    record: Record,
    private: Arc<PrivatePulls>,
    collector: Collector,
    /// Notified when there may be something to collect.
    collection_due: Arc<Notify>,
}

/// An image that a task asks for, and on whose behalf.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) image: &'a ImageReference,
    pub(super) pull_policy: Option<PullPolicy>,
    pub(super) namespace: &'a str,
    /// The credentials that the task names for its registry.
    pub(super) credential: Option<&'a CredentialValue>,
}

/// Whether an image is there for a task.
enum Presence {
    Usable(Present),
    /// It came with credentials that are not the task's.
    OfOthers,
    Absent,
}

struct UnderWay {
    pulling: WeakShared<Pulling>,
    progress: watch::Receiver<Progress>,
}

// === impl Images ===

impl Images {
    /// `record` is the file that records the pulled images; another one next to it records those
    /// that are being pulled with credentials.
    pub(super) fn new(settings: &Settings, record: &Path) -> Self {
        let private = Arc::new(PrivatePulls::open(record.with_extension("private.json")));
        let credentials = Arc::new(Credentials::new(&settings.docker));
        let registries = Arc::new(Registries::new(settings, Arc::clone(&credentials)));
        let settings = &settings.docker;
        let record = Record::open(record);
        Self {
            collector: Collector::new(settings, record.clone()),
            record,
            private,
            seen: Seen::default(),
            collection_due: Arc::default(),
            policy: settings.pull_policy,
            credentials,
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
    pub(super) fn hold(&self, image: &ImageReference) -> Hold {
        self.record.hold(image.full_name())
    }

    /// A container was removed: its image may be unused now.
    pub(super) fn collect_soon(&self) {
        self.collection_due.notify_one();
    }

    /// Collects images, until the agent stops.
    pub(super) async fn collect(&self, client: impl Fn() -> Result<Engine, ExecutorError>) {
        loop {
            let _ = tokio::time::timeout(collector::INTERVAL, self.collection_due.notified()).await;
            if let Ok(client) = client()
                && let Err(error) = self.collector.collect(&client).await
            {
                debug!(%error, "the image collection failed; retrying later");
            }
            tokio::time::sleep(collector::PAUSE).await;
        }
    }

    /// Ensures that the image is there for the task, and reports the progress of a long pull. Returns
    /// what the image says of itself.
    pub(super) async fn ensure(
        &self,
        client: &Engine,
        wanted: Wanted<'_>,
        reports: &ProgressReports,
    ) -> Result<Facts, ExecutorError> {
        let (image, policy) = (wanted.image, self.policy(wanted.pull_policy));
        let access = ImageAccess::from_credential(wanted.namespace, wanted.credential);
        if policy != PullPolicy::Always {
            match self.presence(client, image, &access).await? {
                Presence::Usable(Present { id, facts }) => {
                    self.record.used_by(&id, wanted.namespace, clock::now());
                    return Ok(facts);
                }
                Presence::Absent if policy == PullPolicy::Never => return Err(self.absent(image)),
                Presence::OfOthers if policy == PullPolicy::Never => return Err(of_others(image)),
                // Its registry is asked whether it is for this task as well.
                Presence::OfOthers | Presence::Absent => {}
            }
        }
        let checked = self.registries.check(image).await;
        checked.map_err(|reason| ExecutorError::Failed(pull::refused(image.as_str(), &reason)))?;
        let (pulling, progress) = self.join_pull(client, image, access, wanted.credential);
        let progress_text = || format!("pulling image '{image}': {}", *progress.borrow());
        let pulled = reports.during(pulling, progress_text).await.map_err(PullError::into_error)?;
        self.record.used_by(&pulled.id, wanted.namespace, clock::now());
        Ok(pulled.facts)
    }

    /// Whether the Engine has the image, or had it a moment ago, for this access.
    async fn presence(
        &self,
        client: &Engine,
        image: &ImageReference,
        access: &ImageAccess,
    ) -> Result<Presence, ExecutorError> {
        if let Some(seen) = self.seen.get(image.as_str(), clock::now())
            && self.record.allows(&seen.id, access).unwrap_or(true)
        {
            return Ok(Presence::Usable(seen));
        }
        let Some(found) = present(client, image).await? else { return Ok(Presence::Absent) };
        let is_known_private = || {
            let mut names = found.names.iter().map(|name| full_name(name));
            let came_from_a_registry = self.record.is_lost() && found.is_from_registry;
            came_from_a_registry
                || self.private.has(&image.full_name())
                || names.any(|name| self.private.has(&name))
        };
        // An image that the agent did not pull is its operator's.
        if !self.record.allows(&found.image.id, access).unwrap_or_else(|| !is_known_private()) {
            return Ok(Presence::OfOthers);
        }
        self.seen.note(image.as_str(), found.image.clone(), clock::now());
        Ok(Presence::Usable(found.image))
    }

    /// The Engine did not have the image when a container was to be created.
    pub(super) fn missed(&self, image: &ImageReference) {
        self.seen.forget(image.as_str());
    }

    /// Joins the pull in progress, or starts one.
    fn join_pull(
        &self,
        client: &Engine,
        image: &ImageReference,
        access: ImageAccess,
        credential: Option<&CredentialValue>,
    ) -> (Shared<Pulling>, watch::Receiver<Progress>) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, pull| pull.pulling.upgrade().is_some());
        let key = (image.clone(), access.clone());
        if let Some(pull) = under_way.get(&key)
            && let Some(pulling) = pull.pulling.upgrade()
            && pulling.peek().is_none()
        {
            return (pulling, pull.progress.clone());
        }
        let (sender, progress) = watch::channel(Progress::default());
        let signs = match credential {
            Some(value) => Signs::As(RegistryLogin::named(value)),
            None => Signs::AsNode(Arc::clone(&self.credentials)),
        };
        let pull = Pull {
            client: client.clone(),
            image: image.clone(),
            registries: Arc::clone(&self.registries),
            access,
            record: self.record.clone(),
            private: Arc::clone(&self.private),
            collection_due: Arc::clone(&self.collection_due),
        };
        let pulling = pull.run(signs, sender).boxed().shared();
        if let Some(weak) = pulling.downgrade() {
            let pull = UnderWay { pulling: weak, progress: progress.clone() };
            under_way.insert(key, pull);
        }
        (pulling, progress)
    }

    fn absent(&self, image: &ImageReference) -> ExecutorError {
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

fn of_others(image: &ImageReference) -> ExecutorError {
    ExecutorError::Failed(Failure::fetch(format!(
        "image '{image}' is on this node with other credentials than this task's, and the pull \
         policy 'never' forbids asking its registry; change the PullPolicy of the task"
    )))
}

/// An image that was pulled.
struct Pulled {
    image: Present,
    /// Whether another agent on this data directory would know of the pull.
    is_durable: bool,
}

/// One pull, and where it is recorded.
struct Pull {
    client: Engine,
    image: ImageReference,
    registries: Arc<Registries>,
    access: ImageAccess,
    record: Record,
    private: Arc<PrivatePulls>,
    collection_due: Arc<Notify>,
}

// === impl Pull ===

impl Pull {
    async fn run(
        self,
        signs: Signs,
        progress: watch::Sender<Progress>,
    ) -> Result<Present, PullError> {
        if self.access == ImageAccess::Node {
            return self.run_and_record(signs, progress).await.map(|pulled| pulled.image);
        }
        let (private, name) = (Arc::clone(&self.private), self.image.full_name());
        private.begin(&name).map_err(|error| {
            let message = format!("cannot record a pull with credentials: {error}");
            PullError::Failed(Failure::node(message))
        })?;
        let outcome = self.run_and_record(signs, progress).await;
        // An Engine that does not answer may finish the pull, and a full disk records nothing.
        let is_unknown = match &outcome {
            Ok(pulled) => !pulled.is_durable,
            Err(error) => matches!(error, PullError::Away(_)),
        };
        if !is_unknown {
            private.end(&name);
        }
        outcome.map(|pulled| pulled.image)
    }

    /// Pulls the image, and records the agent as its owner unless the image was present under
    /// another name.
    async fn run_and_record(
        self,
        signs: Signs,
        progress: watch::Sender<Progress>,
    ) -> Result<Pulled, PullError> {
        let Self { client, image, registries, access, record, collection_due, .. } = self;
        let mut pulled = Pulled { image: Present::default(), is_durable: true };
        let before = ids(&client).await;
        pull::pull(client.clone(), image.clone(), &registries, signs, progress).await?;
        // An image with unknown origin counts as someone else's.
        if let (Some(before), Ok(Some(found))) = (before, present(&client, &image).await) {
            let EngineImage { image: Present { id, facts }, size_bytes, .. } = found;
            pulled.image = Present { id: id.clone(), facts };
            if record.knows(&id) || !before.contains(&id) {
                let (name, now) = (image.full_name(), clock::now());
                pulled.is_durable = record.pulled(&id, name, size_bytes, &access, now).await;
            } else {
                debug!(%image, "the pulled image was present before: the agent does not own it");
            }
        }
        collection_due.notify_one();
        Ok(pulled)
    }
}

/// An image that the Engine has.
struct EngineImage {
    image: Present,
    size_bytes: u64,
    /// The names that the Engine has for it.
    names: Vec<String>,
    is_from_registry: bool,
}

async fn ids(client: &Engine) -> Option<HashSet<String>> {
    let images = client.list_images(None::<ListImagesOptions>).await.ok()?;
    Some(images.into_iter().map(|image| image.id).collect())
}

async fn present(
    client: &Engine,
    image: &ImageReference,
) -> Result<Option<EngineImage>, ExecutorError> {
    match client.inspect_image(image).await {
        Ok(found) => Ok(Some(EngineImage {
            image: Present { facts: Facts::from_inspect(&found), id: found.id.unwrap_or_default() },
            size_bytes: found.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
            names: found.repo_tags.unwrap_or_default(),
            is_from_registry: found.repo_digests.is_some_and(|digests| !digests.is_empty()),
        })),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(Error::DockerResponseServerError { status_code: 400, message }) => {
            let message = format!("'{image}' is not the name of an image: {message}");
            Err(ExecutorError::Failed(Failure::task(message)))
        }
        Err(error) => Err(of_task(error)),
    }
}
