//! The process that fetches one input, from its order to its last line; see [`fetcher`].
//!
//! It watches what git receives, so it ends with everything that it started as soon as its agent is
//! gone, which closes its standard input. A death signal would reach this process alone, and leave
//! git to fill the disk.
//!
//! [`fetcher`]: crate::data::inputs::fetcher

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api_types::job_input::InputResults;
use api_types::source::SourceType;
use confine::Confinement;
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};
use tokio::sync::mpsc;

use crate::data::inputs::Sources;
use crate::data::inputs::cache::handle::CacheHandle;
use crate::data::inputs::fetcher::order::{FromFetcher, MEMORY_BYTES, Order, ToFetcher, VARIABLES};
use crate::data::inputs::fetcher::parent::Parent;
use crate::data::inputs::job::relay::InputRelay;
use crate::data::inputs::placement::Quota;
use crate::data::inputs::source::Fetch;
use crate::data::retry::AttemptError;

/// Memory of each program that git starts: two or three work at a time.
const GIT_MEMORY_BYTES: u64 = 96 << 20;

/// The runtime of `git lfs` maps its memory in pieces of 64 MiB, some of which it hardly uses.
const LFS_MEMORY_BYTES: u64 = 512 << 20;

/// CPU time of one process: a terabyte through TLS and a checksum, with room to spare.
const CPU_SECONDS: u64 = 4 * 3600;

/// Interval of progress.
const PROGRESS: Duration = Duration::from_millis(500);

/// Programs, libraries, certificates, and how names are resolved.
const READ: [&str; 28] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/nix/store",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/alternatives",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/passwd",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/dev/urandom",
    "/dev/random",
    "/proc/self",
    "/proc/sys/vm/overcommit_memory",
];

/// Carries out the order on the standard input.
#[must_use]
pub fn run() -> ExitCode {
    match carry_out() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The agent reads it, and logs it.
            drop(writeln!(io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn carry_out() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    confinement(&order).enter().map_err(|error| io::Error::other(chain(&error)))?;
    // Everything below this line may read untrusted input.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(fetch(order))
}

fn confinement(order: &Order) -> Confinement {
    let kind = order.input.source.source_type;
    let is_git = matches!(kind, SourceType::RepoClone | SourceType::RepoCloneLfs);
    let mut read: Vec<PathBuf> = READ.iter().map(PathBuf::from).collect();
    for variable in VARIABLES {
        let value = std::env::var_os(variable).unwrap_or_default();
        read.extend(std::env::split_paths(&value).filter(|path| path.is_absolute()));
    }
    if is_git {
        read.extend(order.settings.allow_local_paths().iter().map(PathBuf::from));
    }
    Confinement {
        read,
        write: vec![order.place.root().to_owned(), PathBuf::from("/dev/null")],
        network: match kind {
            SourceType::Inline => false,
            // The agent passes on what the orchestrator relays.
            SourceType::Job => order.results.as_ref().is_some_and(has_servers),
            _ => true,
        },
        memory_bytes: match kind {
            SourceType::RepoClone => GIT_MEMORY_BYTES,
            SourceType::RepoCloneLfs => LFS_MEMORY_BYTES,
            _ => MEMORY_BYTES,
        },
        cpu_seconds: CPU_SECONDS,
        // Without Landlock, git is not offered.
        allow_unconfined: !is_git || order.settings.allow_unconfined(),
    }
}

/// Whether some of the results are on servers.
fn has_servers(results: &InputResults) -> bool {
    results.results.iter().any(|result| result.source.is_some())
}

async fn fetch(order: Order) -> io::Result<()> {
    let sources = Sources::new(&order.settings.settings(), PathBuf::new());
    let quota = Arc::new(Quota::from_record(&order.quota));
    let (to_answers, answers) = mpsc::unbounded_channel();
    std::thread::Builder::new().spawn(move || read_answers(&to_answers))?;
    let parent = Arc::new(Parent::new(say, answers));
    let fetch = Fetch {
        input: &order.input,
        credential: order.credential.as_ref(),
        results: order.results.as_ref(),
        relay: InputRelay::Parent(Arc::clone(&parent)),
        place: order.place.clone(),
        quota: Arc::clone(&quota),
        cache: CacheHandle::Parent(&parent),
    };
    let fetching = async {
        let source = sources.get(order.input.source.source_type);
        let source = source.ok_or_else(|| AttemptError::permanent("not supported on this node"))?;
        source.fetch(fetch).await
    };
    let mut fetching = std::pin::pin!(fetching);
    let outcome = loop {
        match tokio::time::timeout(PROGRESS, &mut fetching).await {
            Ok(outcome) => break outcome,
            Err(_) => say(&FromFetcher::Progress {
                taken_bytes: quota.taken_bytes(),
                expected_bytes: quota.expected_bytes(),
            })?,
        }
    };
    let taken_bytes = quota.taken_bytes();
    say(&match outcome {
        Ok(mounted) => FromFetcher::Done { mounted, taken_bytes },
        Err(AttemptError::Permanent(failure) | AttemptError::Transient(failure)) => {
            FromFetcher::Failed { failure, taken_bytes }
        }
    })
}

/// Passes the agent's answers on, until it is gone or sends something else.
fn read_answers(to: &mpsc::UnboundedSender<ToFetcher>) {
    for line in io::stdin().lock().lines() {
        let Ok(answer) = line.and_then(|line| Ok(serde_json::from_str(&line)?)) else { break };
        // It may ask for no more, and go on.
        drop(to.send(answer));
    }
    // The agent makes it the leader of a group; by hand it may be a part of a shell's.
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
    std::process::abort();
}

fn say(message: &FromFetcher) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}
