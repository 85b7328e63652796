//! Confines the calling process before it reads untrusted input.
//!
//! A program that fetches or compiles for a job has its parent's user, and with it everything that
//! the user may do: read the keys next to the data, talk to the Docker Engine, which is as good as
//! being root. [`Confinement::enter`] takes that away, for the process and all that it starts:
//!
//! * Landlock: it opens the named paths and nothing else, and signals nothing outside;
//! * seccomp: no sockets but of the internet, no other process's memory, no mounts, no namespaces,
//!   no `io_uring`;
//! * limits of memory, of CPU time and of core dumps.
//!
//! It must be called while the process has one thread: threads that exist are not confined.

mod calls;
mod error;
mod files;

use std::path::PathBuf;

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};

pub use error::ConfineError;
pub use files::is_supported;

/// What a process needs for its work.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// Files and directories to read, and programs to run; those that do not exist are left out.
    pub read: Vec<PathBuf>,
    /// Directories below which it creates, changes and removes files.
    pub write: Vec<PathBuf>,
    /// Whether it may open connections.
    pub network: bool,
    /// Private memory of each process, in bytes. Reserved addresses without memory behind them
    /// do not count, unlike with a limit of addresses.
    pub memory_bytes: u64,
    pub cpu_seconds: u64,
    /// Whether the process goes on where the kernel has no Landlock.
    pub allow_unconfined: bool,
}

// === impl Confinement ===

impl Confinement {
    /// Confines this process for the rest of its life.
    pub fn enter(&self) -> Result<(), ConfineError> {
        for (resource, most) in [
            (Resource::Core, 0),
            (Resource::Data, self.memory_bytes),
            (Resource::Cpu, self.cpu_seconds),
        ] {
            // Only root may go beyond what the process was started with.
            let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        files::restrict(self)?;
        calls::restrict(self.network)
    }
}

/// Keeps other processes of the same user out of this one's memory.
pub fn keep_memory_private() -> Result<(), rustix::io::Errno> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

#[cfg(test)]
mod tests;
