//! The twin of wasm programs: a module of the agent's own, which the real runner compiles and runs.
//!
//! It is compiled each time: a runner that runs what is stored and compiles nothing is of no use to
//! the next job.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tokio::sync::Mutex;
use wasm_run::Plan;
use wasm_run::plan::Preopen;

use super::background::{failed, in_background};
use super::compiler::{self, CompileError};
use super::module::Digest;
use super::runner::Runner;
use crate::host::tree::remove_all;
use crate::runtime::ExecutorError;
use crate::runtime::twin::TWIN_TIMEOUT;

/// `(module (func (export "_start")) (memory (export "memory") 1))`.
const MODULE: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x04\x01\x60\0\0\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x13\x02\x06_start\0\0\x06memory\x02\0\
    \x0a\x04\x01\x02\0\x0b";

/// Bytes of memory of the program: it has one page.
const MEMORY_BYTES: u64 = 64 << 20;

/// Characters of a runner's error message.
const MAX_LOG_CHARS: usize = 400;

/// Where a twin is laid out: on the disk that programs run from.
pub(super) struct Directory {
    path: PathBuf,
    /// Held by the one that uses it.
    alone: Mutex<()>,
}

// === impl Directory ===

impl Directory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, alone: Mutex::default() }
    }
}

/// Compiles and runs the module. Dropping the future kills the process under way.
pub(super) async fn run(
    runner: &Runner,
    directory: &Directory,
    boot_id: &str,
) -> Result<(), ExecutorError> {
    let _alone = directory.alone.lock().await;
    let path = &directory.path;
    let ran = tokio::time::timeout(TWIN_TIMEOUT, compile_and_run(runner, path, boot_id)).await;
    let ran =
        ran.unwrap_or_else(|_| Err(failed(format!("it did not end within {TWIN_TIMEOUT:?}"))));
    let path = path.clone();
    // The next twin replaces what cannot be removed.
    drop(in_background(move || remove_all(&path)).await);
    ran
}

async fn compile_and_run(
    runner: &Runner,
    directory: &Path,
    boot_id: &str,
) -> Result<(), ExecutorError> {
    let of = directory.to_owned();
    let (module, new) = in_background(move || {
        remove_all(&of)?;
        fs::create_dir_all(of.join("shown"))?;
        let module = of.join("module.wasm");
        fs::write(&module, MODULE)?;
        Ok((module, of.join("new")))
    })
    .await?;
    let of = module.clone();
    let digest = in_background(move || Digest::of_file(&of)).await?;
    compiler::compile(runner, digest, &module, &new).await.map_err(|error| {
        let (CompileError::Module(reason) | CompileError::Node(reason)) = error;
        failed(format!("a module of the agent's own cannot be compiled: {reason}"))
    })?;
    let of = directory.to_owned();
    let log = in_background(move || {
        plan(&of).write(&of)?;
        File::create(of.join(wasm_run::LOG))
    })
    .await?;
    let mut command = runner.command();
    command.arg(wasm_run::RUN).arg(directory).arg(boot_id).stderr(log).kill_on_drop(true);
    let spawned = command.spawn();
    let not_started = |error: io::Error| failed(format!("{}: {error}", runner.path().display()));
    let status = spawned.map_err(not_started)?.wait().await.map_err(not_started)?;
    let of = directory.to_owned();
    let outcome = in_background(move || Ok(outcome(&of, status))).await?;
    outcome.map_err(|reason| failed(format!("{}: {reason}", runner.path().display())))
}

fn plan(directory: &Path) -> Plan {
    let shown =
        Preopen { host: directory.join("shown"), guest: "/shown".to_owned(), writable: true };
    Plan {
        entry: compiler::code(Path::new("new")),
        entry_point: "_start".to_owned(),
        imports: Vec::new(),
        arguments: vec!["twin".to_owned()],
        environment: Vec::new(),
        secret_environment: None,
        files: vec![shown],
        memory_bytes: MEMORY_BYTES,
        cpu_millis: 1000,
        cpu_time_seconds: Some(TWIN_TIMEOUT.as_secs()),
    }
}

fn outcome(directory: &Path, status: ExitStatus) -> Result<(), String> {
    let log = || {
        let log = fs::read(directory.join(wasm_run::LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).trim().chars().take(MAX_LOG_CHARS).collect::<String>()
    };
    match wasm_run::Exit::read(directory) {
        Ok(Some(wasm_run::Exit { code: 0, .. })) => Ok(()),
        Ok(Some(wasm_run::Exit { code, fault, .. })) => {
            let fault = fault.map_or_else(String::new, |fault| format!(": {fault}"));
            Err(format!("a module of the agent's own ended with exit code {code}{fault}"))
        }
        Ok(None) => Err(format!(
            "it ran a module of the agent's own and recorded no outcome ({status}) {}",
            log()
        )),
        Err(error) => Err(format!("the outcome of a module of the agent's own is lost: {error}")),
    }
}
