//! Results on IPFS, pinned by the node that the agent's settings name.

use api_types::engine::PublisherType;
use api_types::execution::{IpfsResultParams, PublishedResult};
use api_types::protocol::Work;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::fs::File;

use super::archive::Archive;
use super::publication::{Publication, Publisher, published};
use crate::data::ipfs::Kubo;
use crate::data::retry::AttemptError;

pub(crate) struct Ipfs {
    kubo: Kubo,
}

// === impl Ipfs ===

impl Ipfs {
    pub(crate) fn new(kubo: Kubo) -> Self {
        Self { kubo }
    }
}

impl Publisher for Ipfs {
    fn admit(&self, _: &Work) -> Result<(), String> {
        Ok(())
    }

    fn publish<'a>(
        &'a self,
        run: &'a Publication<'a>,
        archive: &'a Archive,
    ) -> BoxFuture<'a, Result<PublishedResult, AttemptError>> {
        async move {
            let file = File::open(&archive.path).await?;
            let name = format!("{}.tar.gz", run.id);
            // The same bytes have the same ID: adding them twice is the same as once.
            let cid = self.kubo.add(file, &name, archive.size_bytes).await?;
            published(PublisherType::Ipfs, &IpfsResultParams { cid })
        }
        .boxed()
    }
}
