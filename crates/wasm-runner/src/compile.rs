//! Compilation, in a process that exits afterwards.
//!
//! The process confines itself before it reads the first byte of the module. A module that exceeds
//! its limits ends this process without a verdict.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::process::ExitCode;

use confine::Confinement;
use rustix::event::{PollFd, PollFlags, poll};
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
pub(crate) fn compile(allow_unconfined: bool) -> wasmtime::Result<ExitCode> {
    // The module and the file for the code are open already: it opens nothing.
    let confinement = Confinement {
        memory_bytes: compiled::MAX_MEMORY_BYTES,
        cpu_seconds: compiled::MAX_CPU_SECONDS,
        allow_unconfined,
        ..Confinement::default()
    };
    confinement.enter().context("confine the compiler")?;
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
