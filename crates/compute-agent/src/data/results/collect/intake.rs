//! The byte limit for collecting a task's output, and the bytes collected.

use std::io;

use agent_core::execution::Failure;

use crate::data::logs::copies::Copies;
use crate::data::omitted::Omitted;
use crate::host::disk::{self, Disk, OutputLimit};
use crate::runtime::ExecutorError;

/// The term in messages for everything that a task wrote.
pub(crate) const WHOLE: &str = "what the task wrote (below '/', its inputs apart)";

/// The same, where the output is counted with it.
pub(crate) const WHOLE_AND_PRINTED: &str =
    "what the task wrote (below '/', its inputs apart) and printed";

#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error("cannot store the output: {}", disk::failure(_0).message)]
    Disk(#[from] io::Error),
}

/// The byte limit, and the bytes collected.
pub(crate) struct Intake<'a> {
    pub(crate) disk: &'a Disk,
    pub(super) limit: OutputLimit,
    pub(super) taken_bytes: u64,
    /// Why a successful run failed nevertheless: the first reason.
    pub(super) spoilt: Option<Failure>,
    /// For the user.
    pub(super) notes: Vec<String>,
    /// Entries of the results that were left out.
    pub(super) omitted: Omitted,
    /// Whether output that cannot be read to its end is taken as far as it goes.
    pub(super) accepts_loss: bool,
    /// The container was removed: what was copied of its output is all that is left of the run.
    pub(super) is_gone: bool,
    pub(crate) copies: &'a Copies,
}

// === impl Intake ===

impl<'a> Intake<'a> {
    pub(crate) fn new(disk: &'a Disk, limit: OutputLimit, copies: &'a Copies) -> Self {
        Self {
            disk,
            limit,
            taken_bytes: 0,
            spoilt: None,
            notes: Vec::new(),
            omitted: Omitted::default(),
            accepts_loss: false,
            is_gone: false,
            copies,
        }
    }

    pub(crate) fn accepting_loss(self, accepts_loss: bool) -> Self {
        Self { accepts_loss, ..self }
    }

    pub(super) fn left_bytes(&self) -> u64 {
        self.limit.left_after(self.taken_bytes)
    }

    pub(super) fn spoil(&mut self, failure: Failure) {
        self.spoilt.get_or_insert(failure);
    }

    /// Another node may have space for it.
    pub(super) fn is_the_disk_full(&self) -> bool {
        use api_types::protocol::FailureCause;
        self.spoilt.as_ref().is_some_and(|failure| failure.cause == FailureCause::Node)
    }
}

// === impl CollectError ===

impl From<CollectError> for ExecutorError {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Executor(error) => error,
            CollectError::Disk(_) => Failure::node(error.to_string()).into(),
        }
    }
}
