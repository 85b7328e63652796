//! One run, from its plan to its end.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wasm_run::claim::Claimed;
use wasm_run::{Claim, EXIT_CLAIMED, Plan};
use wasmtime::error::Context as _;

use crate::clock;
use crate::output::Output;
use crate::program;

/// Memory of a run in addition to its program's: its stack (2 MiB) and that of the ticker thread,
/// tables (at most 16 MiB), buffers of WASI calls, wasmtime itself.
const ALLOWANCE_BYTES: u64 = 64 << 20;

/// Runs the plan in the directory, unless another process has claimed it.
pub(crate) fn run(directory: &Path, boot_id: &str) -> wasmtime::Result<ExitCode> {
    let plan = Plan::read(directory).context("read the plan")?;
    limit(directory, &plan)?;
    let claim =
        Claim::own(boot_id.to_owned(), clock::now()).context("read this process's start time")?;
    if claim.make(directory).context("claim the run")? == Claimed::Theirs {
        return Ok(ExitCode::from(EXIT_CLAIMED));
    }
    let output = Output::create(&directory.join(wasm_run::output::FILE));
    let output = output.context("create the file for the output")?;
    let mut exit = program::run(directory, &plan, &output);
    exit.used = wasm_run::process::own_used().ok();
    exit.write(directory).context("write how the run ended")?;
    Ok(ExitCode::SUCCESS)
}

/// Limits that the kernel enforces on this process, in addition to those that wasmtime enforces.
///
/// `RLIMIT_DATA` counts writable memory, not reservations: wasmtime reserves 4 GiB and more for a
/// memory of any size, so `RLIMIT_AS` would refuse every program.
fn limit(directory: &Path, plan: &Plan) -> wasmtime::Result<()> {
    // The agent protects itself from the kernel's out-of-memory killer, and its children inherit
    // that protection; programs should be killed first.
    let written = File::options().write(true).open("/proc/self/oom_score_adj");
    written.and_then(|mut file| file.write_all(b"0")).context("set oom_score_adj")?;
    set(Resource::Core, 0)?;
    if let Some(seconds) = plan.cpu_time_seconds {
        set(Resource::Cpu, seconds)?;
    }
    if plan.memory_bytes > 0 {
        // Code is writable while it is being loaded.
        let mut bytes = plan.memory_bytes.saturating_add(ALLOWANCE_BYTES);
        for code in plan.imports.iter().map(|import| &import.code).chain([&plan.entry]) {
            let metadata = fs::metadata(directory.join(code)).context("find the compiled code")?;
            bytes = bytes.saturating_add(metadata.len());
        }
        set(Resource::Data, bytes)?;
    }
    Ok(())
}

fn set(resource: Resource, most: u64) -> wasmtime::Result<()> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(resource, limit).with_context(|| format!("limit {resource:?} to {most}"))
}
