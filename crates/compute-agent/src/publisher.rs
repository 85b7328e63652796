//! Where the results of a task go: one contract, several kinds.

use api_types::engine::PublisherType;
use api_types::execution::PublishedResult;
use api_types::protocol::Work;
use futures_util::future::{BoxFuture, FutureExt, ready};

use crate::data_dir::ExecutionDir;
use crate::execution::Failure;

pub(crate) trait Publisher: Send + Sync {
    /// Why this task's results cannot be published from here, from its specification alone.
    fn admit(&self, work: &Work) -> Result<(), String>;

    /// Publishes what was collected in the directory; none when there is nothing to point to.
    /// May be repeated after a crash.
    fn publish<'a>(
        &'a self,
        work: &'a Work,
        collected: &'a ExecutionDir,
    ) -> BoxFuture<'a, Result<Option<PublishedResult>, Failure>>;
}

/// Publishes nothing; what a task without a publisher has as well.
#[derive(Debug, Default)]
struct Nowhere;

/// The kinds of this build.
#[derive(Debug, Default)]
pub(crate) struct Publishers {
    nowhere: Nowhere,
}

// === impl Publishers ===

impl Publishers {
    /// The kinds that the node record names; that a task may publish nothing goes without saying.
    pub(crate) fn offered(&self) -> Vec<PublisherType> {
        [PublisherType::Noop, PublisherType::Local, PublisherType::S3, PublisherType::Ipfs]
            .into_iter()
            .filter(|kind| self.get(*kind).is_some())
            .collect()
    }

    pub(crate) fn get(&self, kind: PublisherType) -> Option<&dyn Publisher> {
        match kind {
            PublisherType::None | PublisherType::Noop => Some(&self.nowhere),
            PublisherType::Local | PublisherType::S3 | PublisherType::Ipfs => None,
        }
    }
}

// === impl Nowhere ===

impl Publisher for Nowhere {
    fn admit(&self, _: &Work) -> Result<(), String> {
        Ok(())
    }

    fn publish<'a>(
        &'a self,
        _: &'a Work,
        _: &'a ExecutionDir,
    ) -> BoxFuture<'a, Result<Option<PublishedResult>, Failure>> {
        ready(Ok(None)).boxed()
    }
}
