//! The program that runs and compiles modules: its location, and how to start it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use tokio::process::Command;
use wasm_run::compiled::Description;

/// The name of the program.
const PROGRAM: &str = "wasm-runner";

/// It describes itself within milliseconds; the agent's start waits for that.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval between checks whether it has.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Runner {
    path: PathBuf,
    compatibility: String,
    /// Whether it compiles where the kernel cannot confine it.
    allow_unconfined: bool,
}

// === impl Runner ===

impl Runner {
    /// The program in the settings, or else the one next to the agent's own, or else the one on
    /// `PATH`. Otherwise why there is none.
    pub(super) fn find(setting: &str, allow_unconfined: bool) -> Result<Self, String> {
        if !allow_unconfined && !confine::is_supported() {
            let reason = "this kernel has no Landlock, which confines the compiler; \
                          allow_unconfined = true does without";
            return Err(reason.to_owned());
        }
        let path = match setting {
            "" => default_path().ok_or_else(|| {
                format!(
                    "there is no {PROGRAM} next to the agent's program and none on PATH; \
                     install it, or set wasm.runner"
                )
            })?,
            path => PathBuf::from(path),
        };
        let mut runner = Self { path, compatibility: String::new(), allow_unconfined };
        runner.compatibility = runner.describe()?.compatibility;
        Ok(runner)
    }

    fn describe(&self) -> Result<Description, String> {
        let failed = |reason: String| {
            format!("{}: {reason}; set wasm.runner to another program", self.path.display())
        };
        let output = self.ask_for_description().map_err(|error| failed(error.to_string()))?;
        let described: Option<Description> = serde_json::from_slice(&output.stdout).ok();
        let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        described
            .filter(|it| !it.compatibility.is_empty() && is_name(&it.compatibility))
            .ok_or_else(|| failed(format!("it is not a {PROGRAM} ({})", output.status)))
    }

    /// The description fits into the pipe, so that it can be read after the program has ended.
    fn ask_for_description(&self) -> io::Result<Output> {
        let mut command = self.command().into_std();
        let mut child = command.arg(wasm_run::DESCRIBE).stdout(Stdio::piped()).spawn()?;
        let begin = Instant::now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > DESCRIBE_TIMEOUT {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other("it does not respond"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        child.wait_with_output()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The compatibility key of its code.
    pub(super) fn compatibility(&self) -> &str {
        &self.compatibility
    }

    /// Starts the compiler.
    pub(super) fn compiler(&self) -> Command {
        let mut command = self.command();
        command.arg(wasm_run::COMPILE);
        if self.allow_unconfined {
            command.arg(wasm_run::UNCONFINED);
        }
        command
    }

    /// Starts it detached: no terminal, no signal and no descriptor of the agent reaches it, and
    /// no variable of the agent's environment, which may hold credentials.
    ///
    /// No `current_dir` here: in a static program the standard library then copies the agent by
    /// `fork`, which costs several times what `posix_spawn` does. A runner changes to `/` itself.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .env_clear()
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

fn default_path() -> Option<PathBuf> {
    let neighbour = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(OsStr::new(&path)).map(|directory| directory.join(PROGRAM));
    std::iter::once(neighbour).chain(on_path).find(|path| path.is_file())
}
