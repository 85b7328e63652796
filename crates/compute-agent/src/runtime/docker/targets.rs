//! Where inputs that are files appear: at their Target, or in the directory that the image has there.
//!
//! Which of the two it is, only the image knows, and the Engine says so late: it refuses to start a
//! container that mounts a file onto a directory. Only then is the image asked, and the container is
//! made again. The answer is kept for image and target, so that it is asked once.
//!
//! Rejected: to ask before each start, which would cost every task with an input a container more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_core::execution::Failure;
use api_types::image::ImageReference;
use api_types::{ExecutionId, NodeId};
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig, Mount};
use bollard::query_parameters::{
    ContainerArchiveInfoOptions, CreateContainerOptions, ListContainersOptions,
    RemoveContainerOptions,
};

use super::engine::Engine;
use super::error;
use crate::host::clock;
use crate::runtime::{ExecutorError, Run};

/// The targets of inputs that are files, as a JSON array, unless the job says that they are
/// directories.
pub(super) const LABEL_FILES: &str = "service.org/input-files";

/// Marks the containers that are made to ask an image; they are never started.
pub(super) const LABEL_PROBE_OF: &str = "service.org/image-probe-of";

/// Answers kept; with more, they are asked again.
const MAX_ANSWERS: usize = 1024;

/// What the Engine says when a file is to be mounted where the image has a directory, or the other
/// way round.
const OTHER_KIND: &str = "mount a directory onto a file";

/// Targets at which images have directories.
pub(super) struct Targets {
    /// The ID of the image that was asked, by its reference and the target.
    directories: Mutex<BTreeMap<(String, String), String>>,
    /// When this process began, in Unix seconds: older containers of the kind are left over.
    began_s: i64,
}

/// The image of a container.
pub(super) struct Image<'a> {
    pub(super) id: &'a str,
    /// As the job names it.
    pub(super) reference: &'a str,
}

/// Whether a start failed because a mount and the image differ in kind.
pub(super) fn differ_in_kind(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { message, .. } if message.contains(OTHER_KIND))
}

/// What the user can do about such an error, of which nothing else can be changed: a file in place
/// of a directory would be one of the secrets.
pub(super) fn kinds_differ(error: &Error) -> String {
    let text = error.to_string();
    let at = text.split("to rootfs at \"").nth(1).and_then(|rest| rest.split('"').next());
    let at = at.map(|target| format!(" at '{target}'")).unwrap_or_default();
    format!(
        "what the task mounts{at} is a directory, and the image has a file there, or the other way \
         round; choose another Target or Path"
    )
}

/// The targets of the run's inputs that are files, and not certainly in a directory.
pub(super) fn of_files(run: &Run) -> BTreeSet<String> {
    let inputs = run.inputs.iter().zip(&run.work.task.input_sources);
    let files = inputs.filter(|(mounted, input)| {
        !input.target.ends_with('/')
            && std::fs::metadata(&mounted.source).is_ok_and(|metadata| metadata.is_file())
    });
    files.map(|(mounted, _)| mounted.target.clone()).collect()
}

// === impl Targets ===

impl Targets {
    pub(super) fn new() -> Self {
        Self { directories: Mutex::default(), began_s: clock::now().0 / 1_000_000_000 }
    }

    /// Removes what an agent that was killed while it asked has left.
    pub(super) async fn clear(&self, client: &Engine, node: NodeId) {
        let filter = format!("{LABEL_PROBE_OF}={node}");
        let options = ListContainersOptions {
            all: true,
            filters: Some(HashMap::from([("label".to_owned(), vec![filter])])),
            ..Default::default()
        };
        let Ok(left) = client.list_containers(Some(options)).await else { return };
        let left = left.into_iter().filter(|it| it.created.is_some_and(|at| at < self.began_s));
        for id in left.filter_map(|container| container.id) {
            let options = RemoveContainerOptions { v: true, force: true, link: false };
            if let Err(error) = client.remove_container(&id, Some(options)).await {
                tracing::warn!(%error, "a container that asked an image stays");
            }
        }
    }

    /// Mounts files into the directories that are known of the image. Asks the Engine only if some
    /// are.
    pub(super) async fn apply(
        &self,
        client: &Engine,
        body: &mut ContainerCreateBody,
    ) -> Result<(), ExecutorError> {
        let Some(reference) = body.image.clone() else { return Ok(()) };
        let known: BTreeMap<String, String> = files_of(body.labels.as_ref())
            .into_iter()
            .filter_map(|target| {
                let id = self.known().get(&(reference.clone(), target.clone())).cloned()?;
                Some((target, id))
            })
            .collect();
        if known.is_empty() {
            return Ok(());
        }
        // The reference may name another image by now.
        let Ok(image) = ImageReference::parse(&reference) else { return Ok(()) };
        let Ok(found) = client.inspect_image(&image).await else { return Ok(()) };
        let id = found.id.unwrap_or_default();
        let directories: BTreeSet<String> =
            known.into_iter().filter(|(_, asked)| *asked == id).map(|(target, _)| target).collect();
        put_into(&directories, body.host_config.as_mut(), body.labels.as_mut())
    }

    /// Asks the image about the files of a container that did not start, and mounts those into
    /// directories that are to be there. Returns whether it changed anything.
    pub(super) async fn correct(
        &self,
        client: &Engine,
        execution: ExecutionId,
        image: Image<'_>,
        body: &mut ContainerCreateBody,
        node: String,
    ) -> Result<bool, ExecutorError> {
        let files = files_of(body.labels.as_ref());
        if files.is_empty() {
            return Ok(false);
        }
        let directories = directories(client, execution, image.id, files, node).await?;
        if directories.is_empty() {
            return Ok(false);
        }
        let mut known = self.known();
        if known.len() + directories.len() > MAX_ANSWERS {
            known.clear();
        }
        for target in &directories {
            known.insert((image.reference.to_owned(), target.clone()), image.id.to_owned());
        }
        drop(known);
        put_into(&directories, body.host_config.as_mut(), body.labels.as_mut())?;
        Ok(true)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(String, String), String>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn files_of(labels: Option<&HashMap<String, String>>) -> BTreeSet<String> {
    let label = labels.and_then(|labels| labels.get(LABEL_FILES));
    label.and_then(|label| serde_json::from_str(label).ok()).unwrap_or_default()
}

/// Mounts the files at these targets under their names instead.
fn put_into(
    directories: &BTreeSet<String>,
    host_config: Option<&mut HostConfig>,
    labels: Option<&mut HashMap<String, String>>,
) -> Result<(), ExecutorError> {
    let Some(mounts) = host_config.and_then(|config| config.mounts.as_mut()) else { return Ok(()) };
    let mut taken: BTreeSet<String> = mounts.iter().filter_map(|it| it.target.clone()).collect();
    for Mount { source, target, .. } in mounts {
        let Some(target) = target.as_mut().filter(|target| directories.contains(*target)) else {
            continue;
        };
        let name = source.as_deref().and_then(|source| source.rsplit('/').next());
        let inside = format!("{target}/{}", name.unwrap_or_default());
        if !taken.insert(inside.clone()) {
            return Err(ExecutorError::Failed(Failure::task(format!(
                "the image has a directory at '{target}', and another input is '{inside}'; give \
                 one of them an Alias"
            ))));
        }
        *target = inside;
    }
    let files: BTreeSet<String> =
        files_of(labels.as_deref()).difference(directories).cloned().collect();
    if let Some(labels) = labels {
        labels.insert(LABEL_FILES.to_owned(), serde_json::json!(files).to_string());
    }
    Ok(())
}

/// At which of these targets the image has a directory, or a link to one.
async fn directories(
    client: &Engine,
    execution: ExecutionId,
    image: &str,
    targets: BTreeSet<String>,
    node: String,
) -> Result<BTreeSet<String>, ExecutorError> {
    let name = format!("image-probe-{execution}");
    let remove = async || {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        client.remove_container(&name, Some(options)).await
    };
    // One of an agent that was killed while it asked.
    if let Err(error) = remove().await
        && !error::is_not_found(&error)
    {
        return Err(error::of_engine(error));
    }
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        // An image may have none, and it never runs.
        cmd: Some(vec!["-".to_owned()]),
        network_disabled: Some(true),
        labels: Some(HashMap::from([(LABEL_PROBE_OF.to_owned(), node)])),
        ..Default::default()
    };
    let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
    client.create_container(Some(options), body).await.map_err(error::of_engine)?;
    let mut found = BTreeSet::new();
    let mut outcome = Ok(());
    for target in targets {
        // Of a file, there is no such path.
        let options = ContainerArchiveInfoOptions { path: format!("{target}/.") };
        match client.get_container_archive_info(&name, Some(options)).await {
            Ok(_) => drop(found.insert(target)),
            Err(Error::DockerResponseServerError { .. }) => {}
            Err(error) => outcome = Err(error::of_engine(error)),
        }
    }
    if let Err(error) = remove().await {
        tracing::warn!(%error, %execution, "the container that asked an image stays");
    }
    outcome.map(|()| found)
}

#[cfg(test)]
mod tests {
    use bollard::models::MountType;

    use super::*;

    fn mount(source: &str, target: &str) -> Mount {
        Mount {
            typ: Some(MountType::BIND),
            source: Some(source.to_owned()),
            target: Some(target.to_owned()),
            ..Default::default()
        }
    }

    fn put(
        mounts: Vec<Mount>,
        directories: &[&str],
    ) -> (Result<(), ExecutorError>, Vec<String>, BTreeSet<String>) {
        let mut config = HostConfig { mounts: Some(mounts), ..Default::default() };
        let files = serde_json::json!(["/data", "/file"]).to_string();
        let mut labels = HashMap::from([(LABEL_FILES.to_owned(), files)]);
        let directories = directories.iter().map(|it| (*it).to_owned()).collect();
        let outcome = put_into(&directories, Some(&mut config), Some(&mut labels));
        let targets = config.mounts.unwrap().into_iter().filter_map(|it| it.target);
        (outcome, targets.collect(), files_of(Some(&labels)))
    }

    #[test]
    fn a_file_is_in_the_directory_under_its_name() {
        let mounts = vec![mount("/n/0/words.txt", "/data"), mount("/n/1/x", "/file")];
        let (outcome, targets, files) = put(mounts, &["/data"]);
        assert!(outcome.is_ok());
        assert_eq!(targets, ["/data/words.txt", "/file"]);
        assert_eq!(files, BTreeSet::from(["/file".to_owned()]));
    }

    #[test]
    fn two_files_of_one_name_do_not_share_a_directory() {
        let mounts = vec![mount("/n/0/x", "/data"), mount("/n/1/x", "/data/x")];
        let (outcome, ..) = put(mounts, &["/data"]);
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("another input is '/data/x'"), "{message}");
    }
}
