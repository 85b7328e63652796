//! Images: pulled by policy, once for all waiting tasks, and removed when they take too much
//! space.

mod access;
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
mod sign_in;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::execution::Failure;
use api_types::credential::CredentialValue;
use api_types::engine::{DockerParams, PullPolicy};
use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ListImagesOptions;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::{Notify, watch};
use tracing::debug;

use super::error::{is_not_found, of_engine};
use crate::data::progress::Progress as ProgressReports;
use crate::host::clock;
use crate::host::settings::Settings;
use crate::runtime::ExecutorError;
use access::{Access, PrivatePulls};
use collector::Collector;
use credentials::{Credentials, Known};
use progress::Progress;
use pull::{PullError, Signs};
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
    registries: Arc<Registries>,
    /// By image name, as tasks write it, and what the pull signs in with.
    under_way: Mutex<HashMap<(String, Access), UnderWay>>,
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
    pub(super) params: &'a DockerParams,
    pub(super) namespace: &'a str,
    /// The credentials that the task names for its registry.
    pub(super) credential: Option<&'a CredentialValue>,
}

/// Whether an image is there for a task.
enum Presence {
    Usable {
        id: String,
    },
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
    /// `record` is the file that records the pulled images; another one beside it records those that
    /// are being pulled with credentials.
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
    pub(super) fn hold(&self, image: &str) -> Hold {
        self.record.hold(full_name(image))
    }

    /// A container was removed: its image may be unused now.
    pub(super) fn collect_soon(&self) {
        self.collection_due.notify_one();
    }

    /// Collects images, until the agent stops.
    pub(super) async fn collect(&self, client: impl Fn() -> Result<Docker, ExecutorError>) {
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

    /// Ensures that the image is there for the task, and reports the progress of a long pull.
    pub(super) async fn ensure(
        &self,
        client: &Docker,
        wanted: Wanted<'_>,
        reports: &ProgressReports,
    ) -> Result<(), ExecutorError> {
        let (image, policy) =
            (wanted.params.image.as_str(), self.policy(wanted.params.pull_policy));
        let access = Access::of(wanted.namespace, wanted.credential);
        if policy != PullPolicy::Always {
            match self.presence(client, image, &access).await? {
                Presence::Usable { id } => {
                    self.record.used(&id, clock::now());
                    return Ok(());
                }
                Presence::Absent if policy == PullPolicy::Never => return Err(self.absent(image)),
                Presence::OfOthers if policy == PullPolicy::Never => return Err(of_others(image)),
                // Its registry is asked whether it is for this task as well.
                Presence::OfOthers | Presence::Absent => {}
            }
        }
        let checked = self.registries.check(image).await;
        checked.map_err(|reason| ExecutorError::Failed(pull::refused(image, &reason)))?;
        let (pulling, progress) = self.join_pull(client, image, access, wanted.credential);
        let progress_text = || format!("pulling image '{image}': {}", *progress.borrow());
        reports.during(pulling, progress_text).await.map_err(PullError::into_error)
    }

    /// Whether the Engine has the image, or had it a moment ago, for this access.
    async fn presence(
        &self,
        client: &Docker,
        image: &str,
        access: &Access,
    ) -> Result<Presence, ExecutorError> {
        if let Some(id) = self.seen.id(image, clock::now())
            && self.record.allows(&id, access).unwrap_or(true)
        {
            return Ok(Presence::Usable { id });
        }
        let Some(found) = present(client, image).await? else { return Ok(Presence::Absent) };
        let is_known_private = || {
            let mut names = found.names.iter().map(|name| full_name(name));
            let came_from_a_registry = self.record.is_lost() && found.is_from_registry;
            came_from_a_registry
                || self.private.has(&full_name(image))
                || names.any(|name| self.private.has(&name))
        };
        // An image that the agent did not pull is its operator's.
        if !self.record.allows(&found.id, access).unwrap_or_else(|| !is_known_private()) {
            return Ok(Presence::OfOthers);
        }
        self.seen.note(image, &found.id, clock::now());
        Ok(Presence::Usable { id: found.id })
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
        access: Access,
        credential: Option<&CredentialValue>,
    ) -> (Shared<Pulling>, watch::Receiver<Progress>) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, pull| pull.pulling.upgrade().is_some());
        let key = (image.to_owned(), access.clone());
        if let Some(pull) = under_way.get(&key)
            && let Some(pulling) = pull.pulling.upgrade()
            && pulling.peek().is_none()
        {
            return (pulling, pull.progress.clone());
        }
        let (sender, progress) = watch::channel(Progress::default());
        let signs = match credential {
            Some(value) => Signs::As(Known::named(value)),
            None => Signs::AsNode(Arc::clone(&self.credentials)),
        };
        let pull = Pull {
            client: client.clone(),
            image: image.to_owned(),
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

fn of_others(image: &str) -> ExecutorError {
    ExecutorError::Failed(Failure::fetch(format!(
        "image '{image}' is on this node with other credentials than this task's, and the pull \
         policy 'never' forbids asking its registry; change the PullPolicy of the task"
    )))
}

/// Whether another agent on this data directory would know of the pull.
enum Recorded {
    Durably,
    InMemory,
}

/// One pull, and where it is recorded.
struct Pull {
    client: Docker,
    image: String,
    registries: Arc<Registries>,
    access: Access,
    record: Record,
    private: Arc<PrivatePulls>,
    collection_due: Arc<Notify>,
}

// === impl Pull ===

impl Pull {
    async fn run(self, signs: Signs, progress: watch::Sender<Progress>) -> Result<(), PullError> {
        if self.access == Access::Node {
            return self.run_and_record(signs, progress).await.map(drop);
        }
        let (private, name) = (Arc::clone(&self.private), full_name(&self.image));
        private.begin(&name).map_err(|error| {
            let message = format!("cannot record a pull with credentials: {error}");
            PullError::Failed(Failure::node(message))
        })?;
        let outcome = self.run_and_record(signs, progress).await;
        // An Engine that does not answer may finish the pull, and a full disk records nothing.
        if !matches!(outcome, Err(PullError::Away(_)) | Ok(Recorded::InMemory)) {
            private.end(&name);
        }
        outcome.map(drop)
    }

    /// Pulls the image, and records the agent as its owner unless the image was present under
    /// another name.
    async fn run_and_record(
        self,
        signs: Signs,
        progress: watch::Sender<Progress>,
    ) -> Result<Recorded, PullError> {
        let Self { client, image, registries, access, record, collection_due, .. } = self;
        let mut recorded = Recorded::Durably;
        let before = ids(&client).await;
        pull::pull(client.clone(), image.clone(), &registries, signs, progress).await?;
        // An image with unknown origin counts as someone else's.
        if let (Some(before), Ok(Some(found))) = (before, present(&client, &image).await) {
            if record.knows(&found.id) || !before.contains(&found.id) {
                let (name, now) = (full_name(&image), clock::now());
                if !record.pulled(&found.id, name, found.size_bytes, &access, now).await {
                    recorded = Recorded::InMemory;
                }
            } else {
                debug!(image, "the pulled image was present before: the agent does not own it");
            }
        }
        collection_due.notify_one();
        Ok(recorded)
    }
}

/// An image that the Engine has.
struct Found {
    id: String,
    size_bytes: u64,
    /// The names that the Engine has for it.
    names: Vec<String>,
    is_from_registry: bool,
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
            names: found.repo_tags.unwrap_or_default(),
            is_from_registry: found.repo_digests.is_some_and(|digests| !digests.is_empty()),
        })),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(Error::DockerResponseServerError { status_code: 400, message }) => {
            let message = format!("'{image}' is not the name of an image: {message}");
            Err(ExecutorError::Failed(Failure::task(message)))
        }
        Err(error) => Err(of_engine(error)),
    }
}
