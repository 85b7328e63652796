//! Which directories of the node tasks may write to, so that no other task's input lies below one.
//!
//! Until the Engine has mounted a path, a task that may write to the directory above it can replace
//! the path by a link. So the second of two conflicting mounts is refused: an input below a
//! directory that a task may write to, and a writable directory above the input of another task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api_types::ExecutionId;

/// The directories that executions hold, resolved.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<BTreeMap<ExecutionId, Vec<Claim>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    path: PathBuf,
    writable: bool,
}

/// Why a directory cannot be mounted now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Conflict {
    #[error(
        "'{}' is below '{}', which another task may write to: mount that directory, or one that no \
         task writes to",
        path.display(),
        above.display()
    )]
    BelowWritable { path: PathBuf, above: PathBuf },
    #[error(
        "'{}' cannot be mounted with ReadWrite while '{}' below it is the input of another task",
        path.display(),
        below.display()
    )]
    AboveInput { path: PathBuf, below: PathBuf },
}

// === impl Claims ===

impl Claims {
    /// Holds the directory for the execution until it is released.
    pub(crate) fn claim(
        &self,
        id: ExecutionId,
        path: &Path,
        writable: bool,
    ) -> Result<(), Conflict> {
        let mut claims = self.claims();
        let of_others = claims.iter().filter(|(other, _)| **other != id).flat_map(|(_, all)| all);
        for other in of_others {
            if other.writable && is_below(path, &other.path) {
                let above = other.path.clone();
                return Err(Conflict::BelowWritable { path: path.to_owned(), above });
            }
            if writable && is_below(&other.path, path) {
                let below = other.path.clone();
                return Err(Conflict::AboveInput { path: path.to_owned(), below });
            }
        }
        let claim = Claim { path: path.to_owned(), writable };
        let own = claims.entry(id).or_default();
        if !own.contains(&claim) {
            own.push(claim);
        }
        Ok(())
    }

    /// What a task has had since before this agent, whatever else is held.
    pub(crate) fn keep(&self, id: ExecutionId, path: PathBuf, writable: bool) {
        self.claims().entry(id).or_default().push(Claim { path, writable });
    }

    pub(crate) fn release(&self, id: ExecutionId) {
        self.claims().remove(&id);
    }

    pub(crate) fn has(&self, id: ExecutionId) -> bool {
        self.claims().contains_key(&id)
    }

    fn claims(&self) -> MutexGuard<'_, BTreeMap<ExecutionId, Vec<Claim>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_below(path: &Path, directory: &Path) -> bool {
    path != directory && path.starts_with(directory)
}
