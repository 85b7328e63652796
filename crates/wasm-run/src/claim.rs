//! Which process runs an execution: the first one to create the claim file.
//!
//! An agent can crash between starting a runner and recording it, and the next agent then starts
//! another one. So the runners decide: each creates `claim.json` exclusively before it does
//! anything else, and those that fail to create it exit. An agent that must be certain that
//! nothing will run creates the file itself ([`Claim::by_nobody`]).

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::process;

/// The process that runs an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// 0 if no process holds it.
    pub pid: u32,
    /// In clock ticks since the boot.
    pub start_time: u64,
    pub boot_id: String,
    /// Nanoseconds since 1970, by the wall clock.
    pub started_at: i64,
    /// Nanoseconds since the boot; none in the claims of older runners.
    #[serde(default)]
    pub started_boot_nanos: Option<u64>,
}

/// The outcome of an attempt to claim a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    Ours,
    /// Another process was first.
    Theirs,
}

// === impl Claim ===

impl Claim {
    /// The claim of the calling process.
    pub fn own(boot_id: String, started_at: i64) -> io::Result<Self> {
        let (pid, start_time) = (std::process::id(), process::own_start_time()?);
        let started_boot_nanos = Some(process::boot_nanos());
        Ok(Self { pid, start_time, boot_id, started_at, started_boot_nanos })
    }

    /// Prevents every runner from running it.
    pub fn by_nobody() -> Self {
        let (boot_id, started_boot_nanos) = (String::new(), None);
        Self { pid: 0, start_time: 0, boot_id, started_at: 0, started_boot_nanos }
    }

    /// Creates the file unless it exists.
    pub fn make(&self, directory: &Path) -> io::Result<Claimed> {
        let temporary = directory.join(format!("claim.json.{}", std::process::id()));
        fs::write(&temporary, serde_json::to_vec(self)?)?;
        let to = directory.join("claim.json");
        match renameat_with(CWD, &temporary, CWD, &to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Claimed::Ours),
            Err(Errno::EXIST) => {
                fs::remove_file(&temporary)?;
                Ok(Claimed::Theirs)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// None when the run is unclaimed.
    pub fn read(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join("claim.json")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the process that made the claim is still alive, rather than another with the same
    /// pid.
    pub fn is_alive(&self, boot_id: &str) -> bool {
        self.pid != 0
            && self.boot_id == boot_id
            && process::start_time(self.pid).is_ok_and(|time| time == self.start_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_claim_wins() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Claim::read(directory.path()).unwrap(), None);
        let claim = Claim::own("this boot".to_owned(), 7).unwrap();
        assert_eq!(claim.make(directory.path()).unwrap(), Claimed::Ours);
        assert_eq!(Claim::by_nobody().make(directory.path()).unwrap(), Claimed::Theirs);
        assert_eq!(Claim::read(directory.path()).unwrap(), Some(claim));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_claim_of_an_older_runner_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let old = r#"{"pid":7,"start_time":1,"boot_id":"one","started_at":5}"#;
        fs::write(directory.path().join("claim.json"), old).unwrap();
        let claim = Claim::read(directory.path()).unwrap().unwrap();
        assert_eq!((claim.started_at, claim.started_boot_nanos), (5, None));
    }

    #[test]
    fn a_claim_of_another_boot_another_start_or_no_process_is_not_alive() {
        let claim = Claim::own("this boot".to_owned(), 7).unwrap();
        assert!(claim.is_alive("this boot"));
        assert!(!claim.is_alive("another boot"));
        let recycled = Claim { start_time: claim.start_time + 1, ..claim };
        assert!(!recycled.is_alive("this boot"));
        assert!(!Claim::by_nobody().is_alive(""));
    }
}
