//! Fetches an input in a separate process, which confines itself before it reads any untrusted
//! byte.
//!
//! A repository, a bucket or an archive may be hostile: a name of gigabytes, a pack that explodes,
//! a fault in a decompressor. It can then break only that process, which has a memory limit, may
//! write only below this input and may read nothing that belongs to the node. The process is the
//! agent's own program with another first argument; it gets its [`Order`] on its standard input,
//! and both sides send the messages of [`order`], one JSON object a line. When the agent ends, in
//! whatever way, that input ends too, and the process with all that it started.
//!
//! The cache stays the agent's: the process asks for an entry, and the agent links it in, or keeps
//! what the process fetched.

pub(crate) mod order;
pub(crate) mod parent;

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use agent_core::execution::Failure;
use api_types::credential::CredentialValue;
use api_types::job_input::InputResults;
use api_types::source::{InputSource, SourceType};
use bytes::Bytes;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tracing::debug;

use super::cache::handle::{CacheHandle, CacheLookup};
use super::inline;
use super::job::relay::{InputRelay, Transfer};
use super::placement::{InputDestination, MountedInput, Quota};
use crate::data::retry::AttemptError;
use crate::host::settings::Settings;

use order::{FromFetcher, MEMORY_BYTES, Order, ToFetcher, VARIABLES};

/// The first argument of the program in this role.
pub const FETCH: &str = "fetch";

/// A line from the process. A failure may quote what a server said.
const MAX_LINE_BYTES: u64 = 256 << 10;

/// What is kept of the process's last words.
const MAX_LAST_WORDS_BYTES: u64 = 2 << 10;

/// How long a process may take to end that has closed its output.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

/// Starts the processes.
#[derive(Debug)]
pub(super) struct Fetcher {
    /// The agent's own program.
    program: PathBuf,
    settings: order::FetchSettings,
}

/// A process with all that it starts, which ends when this is dropped.
struct Group {
    child: Child,
    leader: Option<Pid>,
}

// === impl Fetcher ===

impl Fetcher {
    /// None where no program is set: then the agent itself fetches, as in tests of the sources.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let program = settings.program.clone()?;
        Some(Self { program, settings: order::FetchSettings::from_settings(settings) })
    }

    /// Whether an input needs a process: it comes from elsewhere, or is an archive.
    pub(super) fn is_for(input: &InputSource) -> bool {
        match input.source.source_type {
            SourceType::LocalDirectory => false,
            SourceType::Inline => inline::may_be_archive(input),
            SourceType::UrlDownload
            | SourceType::S3
            | SourceType::RepoClone
            | SourceType::RepoCloneLfs
            | SourceType::Ipfs
            | SourceType::Job => true,
        }
    }

    pub(super) fn order(
        &self,
        input: &InputSource,
        given: (Option<&CredentialValue>, Option<&InputResults>),
        place: &InputDestination,
        quota: &Quota,
    ) -> Order {
        Order::new(input, given, place, quota, &self.settings)
    }

    pub(super) async fn fetch(
        &self,
        order: Order,
        quota: &Quota,
        cache: &CacheHandle<'_>,
        relay: &InputRelay,
    ) -> Result<MountedInput, AttemptError> {
        let mut group = Group::start(&self.program)?;
        let outcome = self.follow(&mut group, &order, quota, (cache, relay)).await;
        let failed = match outcome {
            Ok(outcome) => return outcome.map_err(AttemptError::Permanent),
            Err(failed) => failed,
        };
        // A process that broke off tells why by how it ended.
        if let std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe = failed.kind() {
            group.await_leader().await;
        }
        let status = group.end().await?;
        let words = group.last_words().await;
        debug!(%status, words, reason = %failed, "a fetch process ended early");
        Err(AttemptError::Permanent(Failure::fetch(broken_off(status, &words))))
    }

    /// Carries on the conversation to its end. An outer error means that the process broke it off.
    async fn follow(
        &self,
        group: &mut Group,
        order: &Order,
        quota: &Quota,
        (cache, relay): (&CacheHandle<'_>, &InputRelay),
    ) -> std::io::Result<Result<MountedInput, Failure>> {
        use std::io::Error;

        let missing = || Error::other("it has no pipes");
        let mut input = group.child.stdin.take().ok_or_else(missing)?;
        let output = group.child.stdout.take().ok_or_else(missing)?;
        send(&mut input, order).await?;
        let mut lines = BufReader::new(output);
        let (mut filling, mut asked) = (None, PathBuf::new());
        let mut transfer = None;
        loop {
            let mut line = Vec::new();
            (&mut lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
            match serde_json::from_slice(&line)? {
                FromFetcher::Progress { taken_bytes, expected_bytes } => {
                    quota.follow(taken_bytes, expected_bytes);
                }
                FromFetcher::Find { key, directory } => {
                    group.signal(Signal::STOP);
                    if !order.is_own_directory(&directory) {
                        return Err(Error::other("it names a directory that is not its own"));
                    }
                    let found = cache.find(&key, &directory).await?;
                    group.signal(Signal::CONT);
                    asked = directory;
                    let answer = match found {
                        CacheLookup::Linked { bytes } => ToFetcher::Linked { bytes },
                        CacheLookup::Missing(missing) => {
                            filling = Some(missing);
                            ToFetcher::Missing
                        }
                    };
                    send(&mut input, &answer).await?;
                }
                FromFetcher::Fetched => {
                    group.signal(Signal::STOP);
                    if let Some(filling) = filling.take().filter(|_| order.is_own_directory(&asked))
                    {
                        filling.keep().await;
                    }
                    group.signal(Signal::CONT);
                    send(&mut input, &ToFetcher::Kept).await?;
                }
                FromFetcher::Open { published_by } => {
                    let (opened, answer) = match relay.open(published_by).await {
                        Ok(opened) => (Some(opened), ToFetcher::Opened),
                        Err(error) => (None, ToFetcher::unavailable(error)),
                    };
                    transfer = opened;
                    send(&mut input, &answer).await?;
                }
                FromFetcher::Read => {
                    let piece = piece(transfer.as_mut()).await?;
                    send(&mut input, &ToFetcher::piece(piece)).await?;
                }
                FromFetcher::Done { mounted, taken_bytes } => {
                    quota.follow(taken_bytes, taken_bytes);
                    // Nothing of it may change what is mounted after the check.
                    group.end().await?;
                    return match order.is_own_mount(&mounted)? {
                        true => Ok(Ok(mounted)),
                        false => Err(Error::other("it names a mount that is not its own")),
                    };
                }
                FromFetcher::Failed { failure, taken_bytes } => {
                    quota.follow(taken_bytes, taken_bytes);
                    return Ok(Err(failure));
                }
            }
        }
    }
}

/// The next piece of the archive that the process opened.
async fn piece(transfer: Option<&mut Transfer>) -> std::io::Result<Option<std::io::Result<Bytes>>> {
    let missing = || std::io::Error::other("it reads an archive that it has not opened");
    Ok(transfer.ok_or_else(missing)?.next().await)
}

async fn send(to: &mut ChildStdin, message: &impl serde::Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await
}

/// In words for the user.
fn broken_off(status: ExitStatus, words: &str) -> String {
    use std::os::unix::process::ExitStatusExt;

    /// What the standard library does when no memory is left.
    const OUT_OF_MEMORY: &str = "memory allocation of";
    let limit = MEMORY_BYTES >> 20;
    if words.contains(OUT_OF_MEMORY) {
        return format!("fetching it takes more than the {limit} MiB of memory that a fetch has");
    }
    let last = words.lines().next_back().unwrap_or_default();
    match status.signal() {
        Some(signal) => format!("the process that fetches it was ended by signal {signal}: {last}"),
        None => format!("the process that fetches it broke off: {last}"),
    }
}

// === impl Group ===

impl Group {
    fn start(program: &Path) -> std::io::Result<Self> {
        let child = Command::new(program)
            .arg(FETCH)
            .current_dir("/")
            .env_clear()
            .envs(
                VARIABLES
                    .iter()
                    .filter_map(|name| std::env::var_os(name).map(|value| (*name, value))),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        Ok(Self { child, leader })
    }

    /// Signals the process and all that it started; the agent stops them while it works in their
    /// directory.
    fn signal(&self, signal: Signal) {
        // Before the leader is waited for, its number cannot be another's.
        if let (Some(leader), Some(_)) = (self.leader, self.child.id()) {
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }

    /// Until the process has ended, and is not waited for: what it started may go on, and can be
    /// signalled as long as its number is taken. It closed its output, or is about to end.
    async fn await_leader(&self) {
        let Some(leader) = self.leader else { return };
        let ended = tokio::task::spawn_blocking(move || {
            waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        });
        drop(tokio::time::timeout(LAST_MOMENTS, ended).await);
    }

    async fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.child.wait().await
    }

    async fn last_words(&mut self) -> String {
        let Some(stderr) = self.child.stderr.take() else { return String::new() };
        let mut words = Vec::new();
        // What was read before an error is all there is.
        drop(stderr.take(MAX_LAST_WORDS_BYTES).read_to_end(&mut words).await);
        String::from_utf8_lossy(&words).into_owned()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
