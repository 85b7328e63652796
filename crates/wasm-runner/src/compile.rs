//! Compilation, in a process that exits afterwards.
//!
//! The limits are set before the first byte of the module is read. A module that exceeds them ends
//! this process without a verdict.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wasm_run::compiled::{self, Compiled, Description, Function, Verdict};
use wasmtime::error::Context as _;
use wasmtime::{ExternType, FuncType, Module};

use crate::engine;

/// Describes this runner to the agent.
#[expect(clippy::print_stdout, reason = "this command's result")]
pub(crate) fn describe() -> wasmtime::Result<ExitCode> {
    let engine = engine::compiling()?;
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let compatibility = format!("{:016x}", hasher.finish());
    println!("{}", serde_json::to_string(&Description { compatibility })?);
    Ok(ExitCode::SUCCESS)
}

/// Compiles stdin to stdout, and writes the verdict to stderr.
pub(crate) fn compile() -> wasmtime::Result<ExitCode> {
    limit(Resource::Data, compiled::MAX_MEMORY_BYTES)?;
    limit(Resource::Cpu, compiled::MAX_CPU_SECONDS)?;
    limit(Resource::Core, 0)?;
    end_with_the_agent()?;
    let mut module = Vec::new();
    std::io::stdin().lock().read_to_end(&mut module).context("read the module")?;
    let engine = engine::compiling()?;
    let verdict = match Module::from_binary(&engine, &module) {
        Ok(module) => {
            let code = module.serialize()?;
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&code).and_then(|()| stdout.flush()).context("write the code")?;
            Verdict::Compiled(Compiled { functions: functions(&module) })
        }
        Err(error) => Verdict::Refused(format!("{error:#}")),
    };
    std::io::stderr().lock().write_all(&serde_json::to_vec(&verdict)?)?;
    Ok(ExitCode::SUCCESS)
}

fn limit(resource: Resource, most: u64) -> wasmtime::Result<()> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(resource, limit).with_context(|| format!("limit {resource:?} to {most}"))
}

/// Ends this process when the agent closes the other end of stderr: it has crashed or given up.
fn end_with_the_agent() -> wasmtime::Result<()> {
    let watch = || {
        let stderr = std::io::stderr();
        let mut pipe = [PollFd::new(&stderr, PollFlags::empty())];
        while poll(&mut pipe, None).is_err() {}
        std::process::abort();
    };
    std::thread::Builder::new().name("agent-watch".to_owned()).spawn(watch)?;
    Ok(())
}

fn functions(module: &Module) -> Vec<Function> {
    let functions = module.exports().filter_map(|export| match export.ty() {
        ExternType::Func(function) => Some(Function {
            name: export.name().to_owned(),
            signature: function.to_string(),
            is_entry: is_entry(&function),
        }),
        _ => None,
    });
    functions.take(compiled::MAX_EXPORTS).collect()
}

fn is_entry(function: &FuncType) -> bool {
    let mut results = function.results();
    function.params().len() == 0
        && results.next().is_none_or(|result| result.is_i32())
        && results.next().is_none()
}
