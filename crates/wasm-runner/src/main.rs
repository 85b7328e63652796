//! Runs one WebAssembly program with WASI preview 1 for the compute agent, or compiles one.
//!
//! A fault in compiled code, in wasmtime or in its compiler ends this process and one execution;
//! the agent and every other program continue. The process does not depend on an agent: it reads
//! its plan from its run directory and writes its outcome there (see `wasm_run`).
//!
//! Thousands of these start every minute, so every run's startup is counted in microseconds: it
//! sets up no compiler, maps compiled code from its file, and has one thread, plus a second one
//! only for a program whose share is less than a whole core.

mod clock;
mod code;
mod compile;
mod engine;
mod limits;
mod output;
mod program;
mod run;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use wasmtime::bail;
use wasmtime::error::Context as _;

/// Of a program, whose start takes whatever CPU time there is; afterwards it has its share.
const RUN_NICENESS: i32 = 5;

/// Of a compilation, which takes all the CPU time there is for as long as it lasts.
const COMPILE_NICENESS: i32 = 10;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(OsString::as_os_str).collect();
    match carry_out(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wasm-runner: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Lets the agent and the Docker Engine go first, which work for everyone on the node.
fn give_way(niceness: i32) {
    // Where it cannot, the program runs all the same.
    let _ = rustix::process::setpriority_process(None, niceness);
}

fn carry_out(arguments: &[&std::ffi::OsStr]) -> wasmtime::Result<ExitCode> {
    // It keeps no directory of its agent's in use.
    std::env::set_current_dir("/").context("change to the root directory")?;
    let command = arguments.first().and_then(|word| word.to_str());
    match (command, arguments) {
        (Some(wasm_run::RUN), [_, directory, boot_id]) => {
            give_way(RUN_NICENESS);
            let boot_id = boot_id.to_str().context("the boot ID is not UTF-8")?;
            run::run(Path::new(directory), boot_id)
        }
        (Some(wasm_run::COMPILE), [_]) => {
            give_way(COMPILE_NICENESS);
            compile::compile(false)
        }
        (Some(wasm_run::COMPILE), [_, word]) if *word == wasm_run::UNCONFINED => {
            give_way(COMPILE_NICENESS);
            compile::compile(true)
        }
        (Some(wasm_run::DESCRIBE), [_]) => compile::describe(),
        _ => bail!(
            "the compute agent starts this program; usage: wasm-runner run DIRECTORY BOOT_ID | \
             compile [unconfined] | describe"
        ),
    }
}
