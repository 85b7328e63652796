//! Paths inside a task: what no node could make, mount or keep is refused here.
//!
//! A container that cannot be made fails on every node in turn. Where the path alone says so, the
//! author of the job learns it at the submission.

use api_types::engine::EngineType;
use api_types::source::InputSource;
use api_types::text::is_control;

use super::findings::Findings;

/// Bytes of a path: Linux allows 4,096 with the terminating NUL.
const MAX_PATH_BYTES: usize = 4095;

/// Bytes between two slashes, as file systems limit them.
const MAX_COMPONENT_BYTES: usize = 255;

/// File systems of the kernel, which every container has at these places.
const OF_THE_KERNEL: [&str; 3] = ["proc", "sys", "dev"];

/// The memory that the processes of a container share.
const SHARED_MEMORY: [&str; 2] = ["dev", "shm"];

/// What a path inside a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Input,
    Result,
    Secret,
    WorkingDirectory,
}

// === impl Findings ===

impl Findings {
    /// An absolute path, of the task or of a node.
    pub(super) fn check_path(&mut self, place: &str, path: &str) {
        if !path.starts_with('/') {
            self.refuse(place, format!("must be an absolute path, got '{path}'"));
        } else if path.len() > MAX_PATH_BYTES {
            self.refuse(place, format!("must not be longer than {MAX_PATH_BYTES} bytes"));
        } else if path.split('/').any(|part| part == "..") {
            self.refuse(place, "must not contain '..'");
        } else if path.chars().any(is_control) {
            self.refuse(place, "must not contain control characters");
        } else if components(path).any(|part| part.len() > MAX_COMPONENT_BYTES) {
            let reason = format!("must not have more than {MAX_COMPONENT_BYTES} bytes between '/'");
            self.refuse(place, reason);
        } else if components(path).next().is_none() {
            self.refuse(place, "must not be the root of the task's file system");
        }
    }

    /// A path inside a task of this engine.
    pub(super) fn check_task_path(
        &mut self,
        place: &str,
        path: &str,
        is_for: Use,
        engine: Option<EngineType>,
    ) {
        let problems = self.problems.len();
        self.check_path(place, path);
        // Programs of WebAssembly see nothing of the kernel.
        if self.problems.len() > problems || engine != Some(EngineType::Docker) {
            return;
        }
        let parts: Vec<_> = components(path).collect();
        let Some(root) = OF_THE_KERNEL.iter().find(|root| parts.first() == Some(root)) else {
            return;
        };
        let is_shared = parts.len() > SHARED_MEMORY.len() && parts.starts_with(&SHARED_MEMORY);
        match is_for {
            Use::Input if is_shared => {}
            Use::Result if parts.starts_with(&SHARED_MEMORY) => {
                let reason = "must not be below '/dev/shm': what a task writes there is gone when \
                              its process ends";
                self.refuse(place, reason);
            }
            Use::Input | Use::Result | Use::Secret | Use::WorkingDirectory => {
                let but = match is_for {
                    Use::Input => " (except below '/dev/shm')",
                    Use::Result | Use::Secret | Use::WorkingDirectory => "",
                };
                let reason = format!(
                    "must not be at or below '/{root}'{but}, where every container has files of \
                     the kernel"
                );
                self.refuse(place, reason);
            }
        }
    }

    /// No mount may hide another one, or need a directory inside another one.
    pub(super) fn check_nesting(&mut self, place: &str, path: &str, inputs: &[InputSource]) {
        let this: Vec<_> = components(path).collect();
        for InputSource { target, .. } in inputs {
            let other: Vec<_> = components(target).collect();
            // The root is refused by itself.
            if this.is_empty() || other.is_empty() {
                continue;
            }
            if this == other {
                self.refuse(place, format!("'{path}' is the target of an input already"));
            } else if this.starts_with(&other) {
                self.refuse(place, format!("'{path}' is below '{target}', the target of an input"));
            } else if other.starts_with(&this) {
                let reason = format!("'{path}' is above '{target}', the target of an input");
                self.refuse(place, reason);
            }
        }
    }
}

/// The parts of a path that name something.
pub(super) fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}
