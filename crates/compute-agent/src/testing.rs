//! Fixtures that several modules' unit tests share.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::execution::Exit;
use api_client::Client;
use api_types::credential::{CredentialType, CredentialValue, Login};
use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use peers::kubo::KuboServer;
use peers::s3::{self, S3Server};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::data::handover::Handover;
use crate::data::secrets::Secrets;
use crate::host::device::Device;
use crate::host::disk::Disk;
use crate::host::settings::{AwsVariables, IpfsSettings, S3Settings, Settings};
use crate::runtime::{
    Executor, ExecutorError, Hidden, OutputChunk, OutputKeeping, OutputRange, Run,
};

pub(crate) use api_types::testing::{execution_id, plain_work};

/// The settings of a node that reaches a peer.
pub(crate) trait OfKubo {
    fn settings(&self) -> Settings;
}

impl OfKubo for KuboServer {
    fn settings(&self) -> Settings {
        Settings { ipfs: IpfsSettings { api: self.api() }, ..Settings::default() }
    }
}

/// The same, with credentials; jobs name the endpoint, which the operator lists.
pub(crate) trait OfS3 {
    fn settings(&self, secret: &str) -> Settings;
    fn good_settings(&self) -> Settings;
}

impl OfS3 for S3Server {
    fn settings(&self, secret: &str) -> Settings {
        let variables = [("AWS_ACCESS_KEY_ID", s3::KEY_ID), ("AWS_SECRET_ACCESS_KEY", secret)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Settings {
            allow_private_addresses: true,
            aws: AwsVariables(BTreeMap::from(variables)),
            s3: S3Settings { endpoints: vec![self.endpoint()], ..S3Settings::default() },
            ..Settings::default()
        }
    }

    fn good_settings(&self) -> Settings {
        self.settings(s3::SECRET)
    }
}

/// Credentials with the name `own`, for these hosts.
pub(crate) fn credential(
    credential_type: CredentialType,
    hosts: &[&str],
    login: Login,
) -> CredentialValue {
    CredentialValue {
        name: "own".to_owned(),
        credential_type,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        buckets: Vec::new(),
        version: 1,
        login,
    }
}

/// A disk of which everything may be had.
pub(crate) fn any_disk() -> Disk {
    Disk::new(std::path::Path::new("/"), 0)
}

/// Answers a request for output.
type Printing = Box<
    dyn Fn(OutputRange) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> + Send + Sync,
>;

/// An engine that has the output of a task, and what tasks use of a disk, and nothing else.
pub(crate) struct OutputAlone {
    pub(crate) keeping: OutputKeeping,
    pub(crate) printing: Printing,
    /// The bytes in the files of tasks, and what these do not show.
    pub(crate) used: Arc<Mutex<BTreeMap<ExecutionId, (u64, Hidden)>>>,
}

impl OutputAlone {
    pub(crate) fn new<S>(
        keeping: OutputKeeping,
        printing: impl Fn(OutputRange) -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Stream<Item = Result<OutputChunk, ExecutorError>> + Send + 'static,
    {
        Self {
            keeping,
            printing: Box::new(move |range| printing(range).boxed()),
            used: Arc::default(),
        }
    }
}

fn nothing<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, ExecutorError>> {
    ready(Err(ExecutorError::Gone)).boxed()
}

impl Executor for OutputAlone {
    fn admit(&self, _: &Work) -> Result<(), String> {
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Run,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        nothing()
    }

    fn start(&self, _: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>> {
        nothing()
    }

    fn wait(&self, _: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        nothing()
    }

    fn is_running(&self, _: ExecutionId) -> BoxFuture<'_, Result<bool, ExecutorError>> {
        nothing()
    }

    fn stop(&self, _: ExecutionId, _: Duration) -> BoxFuture<'_, Result<(), ExecutorError>> {
        nothing()
    }

    fn output_keeping(&self) -> OutputKeeping {
        self.keeping
    }

    fn logs(
        &self,
        _: ExecutionId,
        range: OutputRange,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>> {
        (self.printing)(range)
    }

    fn written_bytes(&self, id: ExecutionId) -> BoxFuture<'_, Result<Option<u64>, ExecutorError>> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        ready(Ok(used.get(&id).map(|(bytes, _)| *bytes))).boxed()
    }

    fn hidden<'a>(&'a self, id: ExecutionId, _: &'a Device) -> BoxFuture<'a, Hidden> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        ready(used.get(&id).map(|(_, hidden)| *hidden).unwrap_or_default()).boxed()
    }

    fn copy_out<'a>(
        &'a self,
        _: ExecutionId,
        _: &'a str,
    ) -> BoxStream<'a, Result<Bytes, ExecutorError>> {
        stream::empty().boxed()
    }

    fn remove(&self, _: ExecutionId) -> BoxFuture<'_, Result<(), ExecutorError>> {
        nothing()
    }

    fn list(&self, _: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>> {
        nothing()
    }
}

/// Of a node that has no place for secrets.
pub(crate) fn without_secrets() -> Secrets {
    // Fails harmlessly if another test of this process has installed it.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::new("http://127.0.0.1:1").expect("a URL");
    Secrets::new(Handover::new(client, NodeId::from_uuid(Uuid::from_u128(1))), None)
}

pub(crate) fn work() -> Arc<Work> {
    Arc::new(plain_work())
}
