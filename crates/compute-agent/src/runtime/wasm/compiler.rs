//! One compilation, in a separate process.
//!
//! The compiler gets the module and the output file as open descriptors. It reads a copy of the
//! module whose digest was computed during the copy: a file that changes in the meantime cannot
//! store another module's code under this digest.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use wasm_run::Compiled;
use wasm_run::compiled::{MAX_CPU_SECONDS, MAX_MEMORY_BYTES, Verdict};

use super::module::Digest;
use super::runner::Runner;
use crate::host::tree::remove_all;
use agent_core::execution::Failure;

/// The kernel limits the CPU time; this limits a compiler that hangs, or gets no CPU time.
const MAX_DURATION: Duration = Duration::from_secs(600);

/// Bytes of the compiler's verdict. Longer exports are not useful to run.
const MAX_VERDICT_BYTES: u64 = 4 << 20;

/// Characters of the compiler's output in a message.
const MAX_OUTPUT_CHARS: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompileError {
    /// It will not compile anywhere; the text completes a sentence about the module.
    Module(String),
    /// It might compile elsewhere, or later.
    Node(String),
}

// === impl CompileError ===

impl CompileError {
    pub(super) fn into_failure(self, what: &str) -> Failure {
        match self {
            Self::Module(reason) => Failure::task(format!("{what} {reason}")),
            Self::Node(reason) => {
                Failure::refused(format!("{what} cannot be compiled here: {reason}"))
            }
        }
    }
}

/// The path of the code, below the directory given to [`compile`].
pub(super) fn code(new: &Path) -> PathBuf {
    new.join("code")
}

/// Compiles a module into a new directory. Dropping the future kills the compiler.
pub(super) async fn compile(
    runner: &Runner,
    digest: Digest,
    path: &Path,
    new: &Path,
) -> Result<Compiled, CompileError> {
    let on_disk = |error| CompileError::Node(format!("the node's disk: {error}"));
    let (path, new) = (path.to_owned(), new.to_owned());
    let opened = tokio::task::spawn_blocking(move || open(digest, &path, &new)).await;
    let (module, code) =
        opened.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(on_disk)?;
    let not_started = |error| CompileError::Node(format!("{}: {error}", runner.path().display()));
    let mut command = runner.compiler();
    command.stdin(module).stdout(code).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(not_started)?;
    let mut output = Vec::new();
    let outcome = async {
        if let Some(stderr) = child.stderr.take() {
            stderr.take(MAX_VERDICT_BYTES).read_to_end(&mut output).await?;
        }
        child.wait().await
    };
    match tokio::time::timeout(MAX_DURATION, outcome).await {
        Ok(Ok(status)) => verdict(status, &output),
        Ok(Err(error)) => Err(CompileError::Node(format!("its compiler is lost: {error}"))),
        Err(_) => Err(CompileError::Node(format!(
            "its compiler did not finish within {} s",
            MAX_DURATION.as_secs()
        ))),
    }
}

fn open(digest: Digest, path: &Path, new: &Path) -> io::Result<(File, File)> {
    remove_all(new)?;
    fs::create_dir(new)?;
    let copy = new.join("module");
    if Digest::of_copy(path, &mut File::create(&copy)?)? != digest {
        return Err(io::Error::other("the module changed while the agent read it"));
    }
    Ok((File::open(copy)?, File::create(code(new))?))
}

fn verdict(status: ExitStatus, output: &[u8]) -> Result<Compiled, CompileError> {
    let too_much = |what: &str| CompileError::Module(format!("takes more than {what} to compile"));
    if status.success() {
        return match serde_json::from_slice(output) {
            Ok(Verdict::Compiled(compiled)) => Ok(compiled),
            Ok(Verdict::Refused(reason)) => {
                Err(CompileError::Module(format!("is not a valid WebAssembly module: {reason}")))
            }
            Err(_) => Err(CompileError::Module(
                "exports more functions, or longer names, than this engine takes".to_owned(),
            )),
        };
    }
    let output = String::from_utf8_lossy(output);
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    if is(Signal::XCPU) {
        return Err(too_much(&format!("{MAX_CPU_SECONDS} s of CPU time")));
    }
    if is(Signal::ABORT) && output.contains("memory allocation") {
        return Err(too_much(&format!("{} MiB of memory", MAX_MEMORY_BYTES >> 20)));
    }
    let output = output.trim().chars().take(MAX_OUTPUT_CHARS).collect::<String>();
    // Killed from outside, for example by the out-of-memory killer.
    if is(Signal::KILL) {
        return Err(CompileError::Node(format!("its compiler was killed {output}")));
    }
    Err(CompileError::Module(format!("makes the compiler fail ({status}): {output}")))
}
