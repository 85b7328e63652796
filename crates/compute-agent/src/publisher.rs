//! Where the results of a task go: one contract, several kinds.
//!
//! What is published is one archive, made on the node's disk from what was collected; see
//! [`archive`]. An archive of the same run has the same bytes however often it is made, so
//! publishing may be repeated, after a setback as after the death of the agent.

mod archive;
mod ipfs;
mod local;
mod s3;

use std::net::SocketAddr;
use std::path::PathBuf;

use api_types::engine::PublisherType;
use api_types::execution::PublishedResult;
use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId};
use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::attempts::{Patience, Setback};
use crate::data_dir::ExecutionDir;
use crate::disk::Disk;
use crate::execution::{Failure, Publishing};
use crate::kubo::Kubo;
use crate::observer;
use crate::s3::Buckets;
use crate::settings::Settings;
use crate::web::Web;
use crate::web::addresses::Reach;

use archive::Archive;
use ipfs::Ipfs;
use local::Local;
pub(crate) use local::PublishedDir;
use s3::S3;

pub(crate) trait Publisher: Send + Sync {
    /// Why this task's results cannot be published from here, from its specification alone.
    fn admit(&self, work: &Work) -> Result<(), String>;

    /// One try to publish the archive. It may be repeated, after a crash too.
    fn publish<'a>(
        &'a self,
        run: &'a Publication<'a>,
        archive: &'a Archive,
    ) -> BoxFuture<'a, Result<PublishedResult, Setback>>;
}

/// A run whose results were collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publication<'a> {
    pub(crate) id: ExecutionId,
    pub(crate) node_id: NodeId,
    pub(crate) work: &'a Work,
    pub(crate) exit_code: i32,
    /// Where the results lie.
    pub(crate) dir: &'a ExecutionDir,
}

/// The kinds that work on this node.
pub(crate) struct Publishers {
    local: Local,
    s3: Option<S3>,
    ipfs: Option<Ipfs>,
    patience: Patience,
    disk: Disk,
}

/// How a task has its results published.
enum Route<'a> {
    /// It has nothing published; that goes without saying.
    Nowhere,
    Through(&'a dyn Publisher),
    /// Not from this node.
    Closed,
}

// === impl Publishers ===

impl Publishers {
    /// What the settings and the machine allow; `published` is where archives are kept that the
    /// agent serves itself, at `listen` unless the settings say otherwise.
    pub(crate) fn new(settings: &Settings, published: PathBuf, listen: SocketAddr) -> Self {
        // It lies in the data directory, which is there.
        let root = published.parent().unwrap_or(&published);
        let disk = Disk::new(root, settings.disk.reserve_bytes);
        let published = PublishedDir::new(published, settings.results.published_max_bytes);
        let local = Local::new(&settings.results.base_url, listen, published);
        let buckets = Buckets::new(&settings.aws, Web::new(Reach::of(settings)), Patience::NETWORK);
        Self {
            local,
            s3: buckets.map(S3::new),
            ipfs: Kubo::new(&settings.ipfs.api).map(Ipfs::new),
            patience: Patience::NETWORK,
            disk,
        }
    }

    /// The kinds that the node record names; that a task may publish nothing goes without saying.
    pub(crate) fn offered(&self) -> Vec<PublisherType> {
        PublisherType::ALL
            .iter()
            .copied()
            .filter(|kind| *kind != PublisherType::None)
            .filter(|kind| !matches!(self.route(*kind), Route::Closed))
            .collect()
    }

    /// Why this node cannot publish the results of this task, from its specification alone.
    pub(crate) fn admit(&self, work: &Work) -> Result<(), String> {
        let kind = work.task.publisher.publisher_type;
        match self.route(kind) {
            Route::Nowhere => Ok(()),
            Route::Through(publisher) => {
                publisher.admit(work).map_err(|reason| format!("publisher '{kind}': {reason}"))
            }
            Route::Closed => {
                let offered: Vec<_> = self.offered().iter().map(ToString::to_string).collect();
                Err(format!(
                    "publisher '{kind}' is not supported on this node; supported: {}",
                    offered.join(", ")
                ))
            }
        }
    }

    /// Publishes what was collected, and tries again what may pass.
    pub(crate) async fn publish(&self, run: &Publication<'_>) -> Publishing {
        let kind = run.work.task.publisher.publisher_type;
        let outcome = match self.route(kind) {
            Route::Nowhere => return Publishing::NotAsked,
            Route::Through(publisher) => self.publish_through(publisher, run).await,
            // Declined at the offer; an agent that came back with other settings comes here.
            Route::Closed => Err(Failure::node("no such publisher on this node")),
        };
        match outcome {
            Ok(result) => Publishing::Done(result),
            Err(Failure { cause, message }) => {
                let message = format!("publisher '{kind}': {message}");
                Publishing::Failed(Failure { cause, message })
            }
        }
    }

    async fn publish_through(
        &self,
        publisher: &dyn Publisher,
        run: &Publication<'_>,
    ) -> Result<PublishedResult, Failure> {
        let kind = run.work.task.publisher.publisher_type;
        observer::publish(kind, async {
            let archive = match Archive::pack(run, &self.disk).await {
                Ok(archive) => archive,
                Err(failure) => return (0, Err(failure)),
            };
            let bytes = archive.size_bytes;
            let result = self.patience.persist(|| publisher.publish(run, &archive)).await;
            archive.remove().await;
            (bytes, result)
        })
        .await
    }

    fn route(&self, kind: PublisherType) -> Route<'_> {
        fn through(publisher: &impl Publisher) -> Route<'_> {
            Route::Through(publisher)
        }
        match kind {
            PublisherType::None | PublisherType::Noop => Route::Nowhere,
            PublisherType::Local => Route::Through(&self.local),
            PublisherType::S3 => self.s3.as_ref().map_or(Route::Closed, through),
            PublisherType::Ipfs => self.ipfs.as_ref().map_or(Route::Closed, through),
        }
    }
}

/// A result with the `Params` that its type has.
fn published<T: Serialize>(
    publisher_type: PublisherType,
    params: &T,
) -> Result<PublishedResult, Setback> {
    match serde_json::to_value(params) {
        Ok(serde_json::Value::Object(params)) => Ok(PublishedResult { publisher_type, params }),
        other => Err(Setback::lasting(format!("its result cannot be written: {other:?}"))),
    }
}

#[cfg(test)]
mod contract;
