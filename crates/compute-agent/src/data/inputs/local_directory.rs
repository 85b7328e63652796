//! Inputs that already lie on the node, below paths that its settings allow.
//!
//! The agent resolves the path before it checks it, so that a link inside an allowed directory
//! cannot lead out of it, and mounts the resolved path. The task resolves links inside the
//! directory in its own file system. A directory that one task may write to is above no input of
//! another; see [`claims`].

pub(crate) mod claims;

use std::io;
use std::path::{Component, Path, PathBuf};

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::source::{InputSource, LocalDirectoryParams, SourceType};
use futures_util::future::{BoxFuture, FutureExt};

use super::placement::MountedInput;
use super::source::{Fetch, Source, params};
use crate::data::retry::AttemptError;
use claims::Claims;

#[derive(Debug)]
pub(crate) struct LocalDirectory {
    allowed: Vec<PathBuf>,
    claims: Claims,
}

// === impl LocalDirectory ===

impl LocalDirectory {
    /// None when the settings allow no path.
    pub(crate) fn new(allowed: &[String]) -> Option<Self> {
        let allowed: Vec<PathBuf> = allowed.iter().map(PathBuf::from).collect();
        (!allowed.is_empty()).then(|| Self { allowed, claims: Claims::default() })
    }

    /// The resolved path, if it lies below an allowed one.
    pub(crate) fn find(&self, path: &Path) -> Result<PathBuf, AttemptError> {
        let real = path.canonicalize().map_err(|error| {
            AttemptError::permanent(match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("'{}' does not exist on this node", path.display())
                }
                _ => format!("'{}' is not usable: {error}", path.display()),
            })
        })?;
        let inside = self.allowed.iter().any(|allowed| {
            // An allowed path that does not exist (yet) allows nothing.
            allowed.canonicalize().is_ok_and(|allowed| real.starts_with(allowed))
        });
        if inside { Ok(real) } else { Err(AttemptError::permanent(refused(path))) }
    }

    /// Holds the mount for the execution, so that until it is released no task can put another
    /// directory, or a link, in its place.
    pub(crate) fn hold(&self, id: ExecutionId, mounted: &MountedInput) -> Result<(), Failure> {
        let MountedInput { source, writable, .. } = mounted;
        self.claims
            .claim(id, source, *writable)
            .map_err(|conflict| Failure::fetch(conflict.to_string()))?;
        // It was resolved before it was held.
        match self.find(source) {
            Ok(real) if real == *source => Ok(()),
            Ok(_) | Err(AttemptError::Transient(_) | AttemptError::Permanent(_)) => {
                let path = source.display();
                Err(Failure::fetch(format!(
                    "'{path}' was replaced while it was about to be mounted"
                )))
            }
        }
    }

    /// Holds what a task that already runs has mounted.
    pub(crate) fn hold_again(&self, id: ExecutionId, inputs: &[InputSource]) {
        if self.claims.has(id) {
            return;
        }
        let local = inputs.iter().filter(|it| it.source.source_type == SourceType::LocalDirectory);
        for params in local.filter_map(|input| params::<LocalDirectoryParams>(input).ok()) {
            let path = PathBuf::from(params.source_path);
            let real = path.canonicalize().unwrap_or(path);
            self.claims.keep(id, real, params.read_write);
        }
    }

    pub(crate) fn release(&self, id: ExecutionId) {
        self.claims.release(id);
    }

    /// Whether the path as written lies below an allowed one.
    pub(crate) fn may_be_inside(&self, path: &Path) -> Result<(), String> {
        let climbs = path.components().any(|part| part == Component::ParentDir);
        if climbs || !self.allowed.iter().any(|allowed| path.starts_with(allowed)) {
            return Err(refused(path));
        }
        Ok(())
    }
}

impl Source for LocalDirectory {
    fn admit(&self, input: &InputSource) -> Result<(), String> {
        let params: LocalDirectoryParams = params(input)?;
        self.may_be_inside(Path::new(&params.source_path))
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>> {
        async move {
            let params: LocalDirectoryParams = params(fetch.input)
                .map_err(|reason| AttemptError::Permanent(Failure::task(reason)))?;
            Ok(MountedInput {
                source: self.find(Path::new(&params.source_path))?,
                target: fetch.input.target.trim_end_matches('/').to_owned(),
                writable: params.read_write,
            })
        }
        .boxed()
    }
}

fn refused(path: &Path) -> String {
    format!(
        "'{}' is not below a path that this node's settings allow (allow_local_paths)",
        path.display()
    )
}
