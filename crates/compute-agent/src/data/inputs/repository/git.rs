//! Runs the `git` program, isolated from everything except one repository.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use api_types::text::unparsed_url;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use reqwest::Url;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::data::egress;
use crate::data::inputs::placement::Quota;
use crate::data::retry::AttemptError;
use crate::host::tree::size_of;

/// Interval at which the received size is checked: git itself has no limit.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Bytes that git prints: a hundred thousand references have ten million.
const MAX_OUTPUT_BYTES: u64 = 32 << 20;

/// Seconds at less than this many bytes a second after which a connection counts as dead.
const LEAST_SPEED: [&str; 2] = ["http.lowSpeedLimit=100", "http.lowSpeedTime=60"];

/// Which of the programs this machine has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Programs {
    pub(crate) git: bool,
    pub(crate) git_lfs: bool,
}

/// The git invocation for one repository.
#[derive(Debug)]
pub(super) struct Git {
    /// Without credentials, which the process list would show to others.
    url: String,
    /// Replaces the user's configuration.
    config: PathBuf,
    /// `key=value`, for this invocation only.
    settings: Vec<(String, String)>,
}

// === impl Programs ===

impl Programs {
    /// Checks for the programs when the agent starts.
    pub(crate) fn of_this_machine() -> Self {
        let works = |arguments: &[&str]| {
            std::process::Command::new("git")
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        let git = works(&["--version"]);
        Self { git, git_lfs: git && works(&["lfs", "version"]) }
    }
}

// === impl Git ===

impl Git {
    pub(super) fn new(
        config: PathBuf,
        url: &Url,
        address: Option<String>,
        login: Option<HeaderValue>,
    ) -> Result<Self, AttemptError> {
        // A repository on the node may belong to another user; the settings allow its path, which
        // suffices.
        std::fs::write(&config, "[safe]\n\tdirectory = *\n")?;
        let mut settings: Vec<(String, String)> = [
            "http.followRedirects=false",
            "core.hooksPath=/dev/null",
            "credential.helper=",
            "advice.detachedHead=false",
            "gc.auto=0",
            // A pack is unpacked within the memory of a fetch.
            "pack.threads=1",
            "core.bigFileThreshold=16m",
            "core.deltaBaseCacheLimit=16m",
            "core.packedGitWindowSize=16m",
            "core.packedGitLimit=48m",
        ]
        .into_iter()
        .chain(LEAST_SPEED)
        .filter_map(|setting| setting.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
        settings.extend(address.map(|address| ("http.curloptResolve".to_owned(), address)));
        let mut bare = url.clone();
        let in_url = || {
            let text = format!("{}:{}", url.username(), url.password().unwrap_or_default());
            format!("Basic {}", BASE64_STANDARD.encode(text))
        };
        let has_user = !url.username().is_empty() || url.password().is_some();
        let login = login.and_then(|login| login.to_str().ok().map(str::to_owned));
        // For this server alone; `git lfs` obeys it too.
        if let Some(login) = login.or_else(|| has_user.then(in_url)) {
            let header = format!("Authorization: {login}");
            settings.push((format!("http.{}.extraHeader", origin(url)), header));
        }
        if has_user {
            // Only a URL without a host refuses.
            let _ = bare.set_username("");
            let _ = bare.set_password(None);
        }
        Ok(Self { url: bare.into(), config, settings })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the standard output.
    pub(super) async fn run(
        &self,
        arguments: &[&str],
        watched: Option<(&Path, &Quota)>,
    ) -> Result<String, AttemptError> {
        self.call(Path::new("/"), arguments, watched).await
    }

    pub(super) async fn run_in(
        &self,
        directory: &Path,
        arguments: &[&str],
        watched: Option<(&Path, &Quota)>,
    ) -> Result<String, AttemptError> {
        self.call(directory, arguments, watched).await
    }

    async fn call(
        &self,
        directory: &Path,
        arguments: &[&str],
        watched: Option<(&Path, &Quota)>,
    ) -> Result<String, AttemptError> {
        let mut command = Command::new("git");
        command
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .envs(
                ["PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"]
                    .iter()
                    .filter_map(|name| std::env::var_os(name).map(|value| (*name, value))),
            )
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", &self.config)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", "http:https:file")
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string())
            .stdin(Stdio::null())
            // A task that is no longer wanted cancels its fetch.
            .kill_on_drop(true);
        for (index, (key, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut output = std::pin::pin!(output(&mut command));
        let output = loop {
            match tokio::time::timeout(LOOK_AGAIN, &mut output).await {
                Ok(output) => break output,
                Err(_) => probe(watched)?,
            }
        };
        let output = output.map_err(|error| {
            AttemptError::permanent(format!("cannot run git {}: {error}", arguments[0]))
        })?;
        let probed = probe(watched);
        if output.status.success() {
            probed?;
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        // On a full disk git prints many errors, of which only one is the cause.
        probed?;
        Err(attempt_error(arguments[0], &self.url, &String::from_utf8_lossy(&output.stderr)))
    }
}

/// Runs the program to its end, as long as it says no more than one may hold in memory.
async fn output(command: &mut Command) -> std::io::Result<Output> {
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(bounded(stdout), bounded(stderr))?;
    Ok(Output { status: child.wait().await?, stdout, stderr })
}

async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(std::io::Error::other(format!(
            "it says more than {} MiB: the server has too many references",
            MAX_OUTPUT_BYTES >> 20
        )));
    }
    Ok(bytes)
}

/// Whether the received size exceeds the limit.
fn probe(watched: Option<(&Path, &Quota)>) -> Result<(), AttemptError> {
    let Some((directory, quota)) = watched else { return Ok(()) };
    if let Some(shortage) = quota.disk().shortage() {
        return Err(AttemptError::of_disk(&shortage));
    }
    // Files come and go while git runs; the next check sees what this one missed.
    match size_of(directory) {
        Ok(size_bytes) if size_bytes > quota.left_bytes() => {
            Err(AttemptError::Permanent(quota.too_large()))
        }
        _ => Ok(()),
    }
}

fn origin(url: &Url) -> String {
    let mut origin = url.clone();
    let _ = origin.set_username("");
    let _ = origin.set_password(None);
    origin.set_path("/");
    origin.into()
}

/// Errors of git that are permanent.
const LASTING: [&str; 4] =
    ["ut of memory", "reference is not a tree", "unable to read tree", "bad object"];

/// Errors of git that say what the server answers, again and again.
const DEFINITE: [&str; 7] = [
    "not found",
    "does not exist",
    "not appear to be a git repository",
    "Authentication failed",
    "could not read Username",
    "not our ref",
    "couldn't find remote ref",
];

/// Errors of a server that offers no shallow history, or no commit by its ID.
const ABOUT_SHALLOW: [&str; 4] =
    ["shallow", "not our ref", "unadvertised object", "couldn't find remote ref"];

fn attempt_error(step: &str, url: &str, stderr: &str) -> AttemptError {
    let said = last_line(stderr);
    let shown = Url::parse(url).map_or_else(|_| unparsed_url(url), |url| egress::shown(&url));
    // Its last line comes from a part of git that lost its peer.
    if stderr.contains("No space left on device") {
        return AttemptError::of_disk(&std::io::Error::from(std::io::ErrorKind::StorageFull));
    }
    let message = format!("git {step} of {shown}: {said}");
    let says_any_of = |words: &[&str]| words.iter().any(|words| stderr.contains(words));
    if says_any_of(&DEFINITE) {
        AttemptError::definite(message)
    } else if says_any_of(&LASTING) {
        AttemptError::permanent(message)
    } else {
        AttemptError::transient(message)
    }
}

pub(super) fn is_about_shallow(error: &AttemptError) -> bool {
    let (AttemptError::Permanent(failure) | AttemptError::Transient(failure)) = error;
    ABOUT_SHALLOW.iter().any(|words| failure.message.contains(words))
}

/// The line with the cause: the last error, or else the last line.
fn last_line(stderr: &str) -> String {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().rfind(|line| {
        ["fatal:", "error:", "batch response:"].iter().any(|word| line.starts_with(word))
    });
    error.or_else(|| lines().next_back()).unwrap_or("no error message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_distinguished_from_a_broken_repository() {
        let said = "remote: Counting objects: 3, done.\n\
                    fatal: write error: No space left on device\n\
                    fatal: fetch-pack: invalid index-pack output\n";
        let AttemptError::Permanent(failure) = attempt_error("fetch", "https://h/x.git", said)
        else {
            panic!("waiting frees no space")
        };
        assert!(failure.message.starts_with("no space left on the node's disk"), "{failure:?}");
    }

    #[test]
    fn permanent_errors_of_git_are_not_retried() {
        for said in ["fatal: reference is not a tree: 12ab", "fatal: unable to read tree (12ab)"] {
            assert!(matches!(
                attempt_error("checkout", "https://h/x.git", said),
                AttemptError::Permanent(_)
            ));
        }
        let said = "fatal: the remote end hung up unexpectedly";
        assert!(matches!(
            attempt_error("fetch", "https://h/x.git", said),
            AttemptError::Transient(_)
        ));
    }
}
