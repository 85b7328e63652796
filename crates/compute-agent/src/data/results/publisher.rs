//! Publishing the results of a task: one contract, several publisher types.
//!
//! A publisher sends one archive, which the agent builds on the node's disk from the collected
//! results; see [`archive`]. Archives of the same run have the same bytes, so publishing is
//! repeatable, after an error or a crash of the agent.

mod archive;
mod ipfs;
mod local;
pub(crate) mod publication;
mod s3;

use std::net::SocketAddr;
use std::path::PathBuf;

use agent_core::execution::{Failure, Publishing};
use api_types::engine::PublisherType;
use api_types::execution::PublishedResult;
use api_types::protocol::Work;

use crate::data::credentials;
use crate::data::egress::EgressClient;
use crate::data::egress::addresses::EgressPolicy;
use crate::data::ipfs::Kubo;
use crate::data::retry::RetryPolicy;
use crate::data::s3::Buckets;
use crate::host::disk::Disk;
use crate::host::settings::Settings;
use crate::observer;

use archive::Archive;
use ipfs::Ipfs;
use local::Local;
pub(crate) use local::PublishedDir;
use publication::{Publication, Publisher};
use s3::S3;

/// The publisher types that work on this node.
pub(crate) struct Publishers {
    local: Local,
    s3: S3,
    ipfs: Option<Ipfs>,
    retry: RetryPolicy,
    disk: Disk,
}

/// How the results of a task are published.
enum Route<'a> {
    /// The task has no publisher; every node supports this.
    Nowhere,
    Through(&'a dyn Publisher),
    /// Not supported on this node.
    Closed,
}

// === impl Publishers ===

impl Publishers {
    /// Builds the publishers that the settings and the machine allow; `published` holds archives
    /// that the agent serves itself, at `listen` unless the settings name another address.
    pub(crate) fn new(settings: &Settings, published: PathBuf, listen: SocketAddr) -> Self {
        // It lies in the data directory, which exists.
        let root = published.parent().unwrap_or(&published);
        let disk = Disk::new(root, settings.disk.reserve_bytes);
        let published = PublishedDir::new(published, settings.results.published_max_bytes);
        let local = Local::new(&settings.results.base_url, listen, published);
        let buckets = Buckets::new(
            settings,
            EgressClient::new(EgressPolicy::from_settings(settings)),
            RetryPolicy::NETWORK,
        );
        Self {
            local,
            s3: S3::new(buckets),
            ipfs: Kubo::new(&settings.ipfs.api).map(Ipfs::new),
            retry: RetryPolicy::PUBLISHING,
            disk,
        }
    }

    /// The types for the node record; it omits `none`, which every node supports.
    pub(crate) fn offered(&self) -> Vec<PublisherType> {
        PublisherType::ALL
            .iter()
            .copied()
            .filter(|kind| *kind != PublisherType::None)
            // Tasks with credentials of their own need no node that has some.
            .filter(|kind| *kind != PublisherType::S3 || self.s3.has_credentials())
            .filter(|kind| !matches!(self.route(*kind), Route::Closed))
            .collect()
    }

    /// Why this node cannot publish the results of this task, judging by its specification alone.
    pub(crate) fn admit(&self, work: &Work) -> Result<(), String> {
        let kind = work.task.publisher.publisher_type;
        let is_alone = kind == PublisherType::S3
            && !self.s3.has_credentials()
            && credentials::named(&work.task.publisher.params).is_none();
        match self.route(kind) {
            Route::Nowhere => Ok(()),
            Route::Through(publisher) if !is_alone => {
                publisher.admit(work).map_err(|reason| format!("publisher '{kind}': {reason}"))
            }
            Route::Through(_) | Route::Closed => {
                let offered: Vec<_> = self.offered().iter().map(ToString::to_string).collect();
                Err(format!(
                    "publisher '{kind}' is not supported on this node; supported: {}",
                    offered.join(", ")
                ))
            }
        }
    }

    /// Publishes the collected results, and retries transient errors.
    pub(crate) async fn publish(&self, run: &Publication<'_>) -> Publishing {
        let kind = run.work.task.publisher.publisher_type;
        let outcome = match self.route(kind) {
            Route::Nowhere => return Publishing::NotAsked,
            Route::Through(publisher) => self.publish_through(publisher, run).await,
            // The offer would be declined; this case is an agent that restarted with other
            // settings.
            Route::Closed => Err(Failure::node("no such publisher on this node")),
        };
        match outcome {
            Ok(result) => Publishing::Done(result),
            Err(failure) => {
                let message = format!("publisher '{kind}': {failure}");
                Publishing::Failed(Failure { message, ..failure })
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
            let result = self.retry.run(|| publisher.publish(run, &archive)).await;
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
            PublisherType::S3 => through(&self.s3),
            PublisherType::Ipfs => self.ipfs.as_ref().map_or(Route::Closed, through),
        }
    }
}

#[cfg(test)]
mod contract;
