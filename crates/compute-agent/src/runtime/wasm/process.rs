//! The process of one run, started by this agent or an earlier one, and its outcome.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use api_types::Timestamp;
use rustix::process::Pid;
use tokio::process::Child;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wasm_run::claim::Claimed;
use wasm_run::{Claim, EXIT_CLAIMED, Used};

use crate::host::cgroup::Reading;
use crate::host::clock;
use crate::host::pidfd::Watched;
use agent_core::execution::{Exit, Failure};

/// The exit code that shells use after SIGTERM. A program of this engine has no signals, and so no
/// grace period.
const EXIT_STOPPED: i32 = 143;

/// The exit code that shells use for a process that aborted.
const EXIT_ABORTED: i32 = 134;

/// Bytes of a runner's error message in a failure.
const MAX_LOG_CHARS: usize = 400;

/// None until the run has ended.
pub(super) type Ended = watch::Receiver<Option<Result<Exit, Failure>>>;

pub(super) enum Process {
    /// Started by this agent.
    Child(Box<Child>),
    /// Started by an earlier agent, and found by its claim.
    Found(Watched),
    /// It has ended, or never existed.
    Gone,
}

// === impl Process ===

impl Process {
    /// The process that holds the claim. If there is none, this takes the claim for no process, so
    /// that a runner that an agent started just before its crash finds it taken.
    ///
    /// A claim that is no claim was damaged by a crash of the machine, which no process outlives; and
    /// no process can start in a directory that is gone.
    pub(super) fn find(directory: &Path, boot_id: &str) -> io::Result<(Self, Option<Claim>)> {
        let claim = match Claim::read(directory) {
            Ok(None) => match Claim::by_nobody().make(directory) {
                Ok(Claimed::Theirs) => Claim::read(directory),
                Ok(Claimed::Ours) => Ok(None),
                Err(error) => Err(error),
            },
            read => read,
        };
        match claim {
            Ok(Some(claim)) => Ok((Self::from_claim(&claim, boot_id)?, Some(claim))),
            Ok(None) => Ok((Self::Gone, None)),
            Err(error) if is_damage(&error) => Ok((Self::Gone, None)),
            Err(error) => Err(error),
        }
    }

    /// Opens the descriptor first and compares second: while the descriptor is open, no other
    /// process can take the same pid.
    fn from_claim(claim: &Claim, boot_id: &str) -> io::Result<Self> {
        let pid = i32::try_from(claim.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(Self::Gone) };
        let watched = Watched::open(pid)?;
        Ok(watched.filter(|_| claim.is_alive(boot_id)).map_or(Self::Gone, Self::Found))
    }

    /// Waits for the end of the run, and kills it on request.
    pub(super) async fn end(
        mut self,
        directory: PathBuf,
        boot_id: &str,
        stop: &CancellationToken,
    ) -> Result<Exit, Failure> {
        let lost = |error: io::Error| {
            Failure::node(format!("cannot watch the process of this wasm program: {error}"))
        };
        let mut status = self.wait(stop).await.map_err(lost)?;
        if status.and_then(|status| status.code()) == Some(EXIT_CLAIMED.into()) {
            // An earlier agent had started one, which claimed the run first.
            (self, _) = Self::find(&directory, boot_id).map_err(lost)?;
            status = self.wait(stop).await.map_err(lost)?;
        }
        let was_stopped = stop.is_cancelled();
        tokio::task::spawn_blocking(move || outcome(&directory, status, was_stopped))
            .await
            .unwrap_or_else(|error| Err(lost(io::Error::other(error))))
    }

    /// The status of a child, which only its parent receives.
    async fn wait(&mut self, stop: &CancellationToken) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Gone => Ok(None),
            Self::Child(child) => {
                tokio::select! {
                    status = child.wait() => return status.map(Some),
                    () = stop.cancelled() => child.start_kill()?,
                }
                child.wait().await.map(Some)
            }
            Self::Found(process) => {
                tokio::select! {
                    ended = process.end() => return ended.map(|()| None),
                    () = stop.cancelled() => process.kill()?,
                }
                process.end().await.map(|()| None)
            }
        }
    }
}

/// Whether there is no directory, or something else in the place of a claim.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

/// When the process of a claim started, by the steady clock.
pub(super) fn started_at(claim: &Claim, boot_id: &str) -> Timestamp {
    match claim.started_boot_nanos {
        Some(nanos) if claim.boot_id == boot_id => clock::steady_at_boot(nanos),
        // No process ever started.
        _ if claim.pid == 0 => clock::steady(),
        _ => clock::steady_at(Timestamp(claim.started_at)),
    }
}

/// What the run uses, or what it used as its runner has recorded; none for one that was killed.
pub(super) fn usage(directory: &Path, boot_id: &str) -> io::Result<Option<Reading>> {
    let used = match wasm_run::Exit::read(directory)? {
        Some(exit) => exit.used,
        // It may end now.
        None => pid(directory, boot_id).and_then(|pid| wasm_run::process::used(pid).ok()),
    };
    Ok(used.map(|Used { cpu_nanos, memory_bytes, memory_peak_bytes }| Reading {
        cpu: Duration::from_nanos(cpu_nanos),
        memory_bytes,
        memory_peak_bytes: Some(memory_peak_bytes),
    }))
}

/// The process of the run, if it runs; a damaged claim is no process's.
pub(super) fn pid(directory: &Path, boot_id: &str) -> Option<u32> {
    let claim = Claim::read(directory).ok().flatten()?;
    claim.is_alive(boot_id).then_some(claim.pid)
}

/// The outcome of a run whose process is gone: from its own record, or unknown.
fn outcome(
    directory: &Path,
    status: Option<ExitStatus>,
    was_stopped: bool,
) -> Result<Exit, Failure> {
    match wasm_run::Exit::read(directory) {
        Ok(Some(wasm_run::Exit { code, out_of_memory, fault, used: _ })) => {
            return Ok(Exit { code, out_of_memory, fault, ..Exit::default() });
        }
        Ok(None) if was_stopped => return Ok(Exit { code: EXIT_STOPPED, ..Exit::default() }),
        Ok(None) => {}
        Err(error) => {
            return Err(Failure::node(format!("the outcome of the wasm program is lost: {error}")));
        }
    }
    let log = fs::read(directory.join(wasm_run::LOG)).unwrap_or_default();
    let log: String = String::from_utf8_lossy(&log).trim().chars().take(MAX_LOG_CHARS).collect();
    if log.contains("memory allocation of") {
        let fault = Some(format!("the program exhausted its runner's memory: {log}"));
        return Ok(Exit { code: EXIT_ABORTED, out_of_memory: true, fault, ..Exit::default() });
    }
    let how = status.map_or_else(String::new, |status| format!(" ({status})"));
    let log = if log.is_empty() { log } else { format!(": {log}") };
    Err(Failure::node(format!(
        "the process of this wasm program ended without recording an outcome{how}{log}; another execution \
         takes its place"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_claim_and_a_missing_directory_belong_to_no_process() {
        let directory = tempfile::tempdir().unwrap();
        let boot_id = wasm_run::process::boot_id().unwrap();
        for damaged in ["", "{", "[]"] {
            fs::write(directory.path().join("claim.json"), damaged).unwrap();
            let (process, claim) = Process::find(directory.path(), &boot_id).unwrap();
            assert!(matches!(process, Process::Gone) && claim.is_none(), "'{damaged}'");
        }
        let missing = directory.path().join("missing");
        let (process, claim) = Process::find(&missing, &boot_id).unwrap();
        assert!(matches!(process, Process::Gone) && claim.is_none());
    }

    #[test]
    fn the_start_of_a_run_is_known_by_the_steady_clock_whoever_claimed_it() {
        let claim = Claim::own("this boot".to_owned(), 0).unwrap();
        let old = Claim { started_boot_nanos: None, started_at: clock::now().0, ..claim.clone() };
        for claim in [claim, old, Claim::by_nobody()] {
            let apart = clock::steady().since(started_at(&claim, "this boot"));
            assert!(apart < Duration::from_secs(60), "{claim:?}: {apart:?}");
        }
    }
}
