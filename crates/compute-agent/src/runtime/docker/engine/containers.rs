//! Requests about containers.

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerCreateResponse, ContainerInspectResponse, ContainerStatsResponse,
    ContainerSummary, ContainerWaitResponse, FilesystemChange,
};
use bollard::query_parameters::{
    AttachContainerOptions, ContainerArchiveInfoOptions, CreateContainerOptions,
    DownloadFromContainerOptions, InspectContainerOptions, ListContainersOptions, LogsOptions,
    RemoveContainerOptions, StatsOptions, StopContainerOptions, UploadToContainerOptions,
    WaitContainerOptions,
};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::Method;

use super::super::LABEL_RESULTS;
use super::Engine;
use super::answer::too_long;
use super::attached::Attached;
use super::frames::{Elements, OutputPieces};
use super::request::{Request, Segment};

/// Containers of one list. Far more than an Engine can hold.
const MAX_CONTAINERS: usize = 100_000;

// === impl Engine: containers ===

impl Engine {
    pub(in super::super) async fn create_container(
        &self,
        options: Option<CreateContainerOptions>,
        body: ContainerCreateBody,
    ) -> Result<ContainerCreateResponse, Error> {
        let path = [Segment::Word("containers"), Segment::Word("create")];
        let request = Request::new(Method::POST, &path).query(&options.unwrap_or_default())?;
        self.value(request.json(&body)?).await
    }

    pub(in super::super) async fn inspect_container(
        &self,
        name: &str,
        options: Option<InspectContainerOptions>,
    ) -> Result<ContainerInspectResponse, Error> {
        let request =
            container_request(Method::GET, name, "json").query(&options.unwrap_or_default())?;
        self.value(request).await
    }

    /// Without what a job decides the length of: the command, the mounts, and the label with the
    /// result directories.
    pub(in super::super) async fn list_containers(
        &self,
        options: Option<ListContainersOptions>,
    ) -> Result<Vec<ContainerSummary>, Error> {
        let path = [Segment::Word("containers"), Segment::Word("json")];
        let request = Request::new(Method::GET, &path).query(&options.unwrap_or_default())?;
        let listing = self.send(request).await?.cut(Elements::<ContainerSummary>::new());
        let mut listing = std::pin::pin!(listing);
        let mut containers = Vec::new();
        let reading = tokio::time::timeout(self.timeout, async {
            while let Some(mut container) = listing.try_next().await? {
                if containers.len() == MAX_CONTAINERS {
                    return Err(too_long("its list, in containers,", MAX_CONTAINERS));
                }
                (container.command, container.mounts) = (None, None);
                if let Some(labels) = &mut container.labels {
                    labels.remove(LABEL_RESULTS);
                }
                containers.push(container);
            }
            Ok(())
        });
        reading.await.unwrap_or(Err(Error::RequestTimeoutError))?;
        Ok(containers)
    }

    pub(in super::super) async fn start_container(&self, name: &str) -> Result<(), Error> {
        self.done(container_request(Method::POST, name, "start")).await
    }

    pub(in super::super) async fn stop_container(
        &self,
        name: &str,
        options: Option<StopContainerOptions>,
    ) -> Result<(), Error> {
        self.done(
            container_request(Method::POST, name, "stop").query(&options.unwrap_or_default())?,
        )
        .await
    }

    pub(in super::super) async fn remove_container(
        &self,
        name: &str,
        options: Option<RemoveContainerOptions>,
    ) -> Result<(), Error> {
        let path = [Segment::Word("containers"), Segment::Container(name)];
        let request = Request::new(Method::DELETE, &path);
        self.done(request.query(&options.unwrap_or_default())?).await
    }

    /// Returns when the container meets the condition, however long that takes; none if the Engine
    /// ends its answer before that.
    pub(in super::super) async fn wait_container(
        &self,
        name: &str,
        options: Option<WaitContainerOptions>,
    ) -> Result<Option<ContainerWaitResponse>, Error> {
        let request =
            container_request(Method::POST, name, "wait").query(&options.unwrap_or_default())?;
        let bytes = self.send(request).await?.bytes().await?;
        match bytes.trim_ascii().is_empty() {
            true => Ok(None),
            false => Ok(Some(serde_json::from_slice(&bytes)?)),
        }
    }

    pub(in super::super) async fn stats(
        &self,
        name: &str,
        options: Option<StatsOptions>,
    ) -> Result<ContainerStatsResponse, Error> {
        self.value(
            container_request(Method::GET, name, "stats").query(&options.unwrap_or_default())?,
        )
        .await
    }

    /// What differs from the image; none if nothing does.
    pub(in super::super) async fn container_changes(
        &self,
        name: &str,
    ) -> Result<Option<Vec<FilesystemChange>>, Error> {
        self.value(container_request(Method::GET, name, "changes")).await
    }

    pub(in super::super) fn logs(
        &self,
        name: &str,
        options: Option<LogsOptions>,
    ) -> BoxStream<'static, Result<LogOutput, Error>> {
        let request =
            container_request(Method::GET, name, "logs").query(&options.unwrap_or_default());
        let engine = self.clone();
        let output = async move { Ok::<_, Error>(engine.send(request?).await?.cut(OutputPieces)) };
        stream::once(output).try_flatten().boxed()
    }

    pub(in super::super) async fn attach_container(
        &self,
        name: &str,
        options: Option<AttachContainerOptions>,
    ) -> Result<Attached, Error> {
        let request =
            container_request(Method::POST, name, "attach").query(&options.unwrap_or_default())?;
        Attached::open(self.send(request.upgrading()).await?).await
    }

    /// A file or directory, as a tar.
    pub(in super::super) fn download_from_container(
        &self,
        name: &str,
        options: Option<DownloadFromContainerOptions>,
    ) -> BoxStream<'static, Result<Bytes, Error>> {
        let request =
            container_request(Method::GET, name, "archive").query(&options.unwrap_or_default());
        let engine = self.clone();
        let archive = async move { Ok::<_, Error>(engine.send(request?).await?.pieces()) };
        stream::once(archive).try_flatten().boxed()
    }

    pub(in super::super) async fn upload_to_container(
        &self,
        name: &str,
        options: Option<UploadToContainerOptions>,
        tar: Bytes,
    ) -> Result<(), Error> {
        let request =
            container_request(Method::PUT, name, "archive").query(&options.unwrap_or_default())?;
        self.done(request.tar(tar)).await
    }

    /// Whether there is something at a path.
    pub(in super::super) async fn get_container_archive_info(
        &self,
        name: &str,
        options: Option<ContainerArchiveInfoOptions>,
    ) -> Result<(), Error> {
        self.done(
            container_request(Method::HEAD, name, "archive").query(&options.unwrap_or_default())?,
        )
        .await
    }
}

fn container_request(method: Method, name: &str, what: &'static str) -> Request {
    let path = [Segment::Word("containers"), Segment::Container(name), Segment::Word(what)];
    Request::new(method, &path)
}
