//! One run of a program: from its instantiation to its end, on a thread of its own.

use std::sync::Arc;

use api_types::log::LogStream;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use wasmtime::{Engine, Linker, Module, Store, Trap, UpdateDeadline, Val, WasmBacktrace};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{I32Exit, WasiCtxBuilder, WasiView};

use super::files::Preopen;
use super::limits::{Mark, MemoryLimit, Throttle};
use super::output::Output;
use crate::execution::Exit;

/// What a shell says of a process that aborted.
const EXIT_TRAPPED: i32 = 134;

/// What a shell says of a program that cannot be run.
const EXIT_NOT_RUN: i32 = 126;

/// Open files, directories and streams of one program. They are the agent's own, which has some
/// thousands for everything it does.
const MAX_HANDLES: usize = 512;

/// Run by a reactor's user before anything else.
const INITIALIZE: &str = "_initialize";

/// All that a run needs.
pub(super) struct Program {
    pub(super) entry: Module,
    pub(super) entry_point: String,
    /// Under the names by which they are imported.
    pub(super) imports: Vec<(String, Module)>,
    /// With argument 0.
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) files: Vec<Preopen>,
    /// 0 for no limit.
    pub(super) memory_bytes: u64,
    /// 0 for no limit.
    pub(super) cpu_millis: u64,
}

/// What the engine knows of a running program.
struct State {
    wasi: WasiP1Ctx,
    memory: MemoryLimit,
    throttle: Throttle,
}

/// Runs the program on this thread; none when it was stopped.
pub(super) fn run(
    engine: &Engine,
    program: &Program,
    output: &Arc<Output>,
    stop: &CancellationToken,
    runtime: &Handle,
) -> Option<Exit> {
    match store(engine, program, output) {
        Ok(mut store) => {
            runtime.block_on(stop.run_until_cancelled(call(engine, program, &mut store)))
        }
        Err(error) => Some(not_run(&error)),
    }
}

fn store(
    engine: &Engine,
    program: &Program,
    output: &Arc<Output>,
) -> wasmtime::Result<Store<State>> {
    let mut wasi = WasiCtxBuilder::new();
    wasi.args(&program.arguments)
        .envs(&program.environment)
        .stdout(output.printer(LogStream::Stdout))
        .stderr(output.printer(LogStream::Stderr));
    for Preopen { host, guest, perms } in &program.files {
        wasi.preopened_dir(host, guest, *perms)?;
    }
    let mut wasi = wasi.build_p1();
    wasi.ctx().table.set_max_capacity(MAX_HANDLES);
    let memory = MemoryLimit::new(program.memory_bytes);
    let throttle = Throttle::new(program.cpu_millis, Mark::now());
    let mut store = Store::new(engine, State { wasi, memory, throttle });
    store.limiter(|state| &mut state.memory);
    store.set_epoch_deadline(1);
    // A program that computes without end gives way here, to be stopped or to wait for its share.
    store.epoch_deadline_callback(|mut store| {
        Ok(match store.data_mut().throttle.pause(Mark::now()) {
            None => UpdateDeadline::Yield(1),
            Some(pause) => UpdateDeadline::YieldCustom(1, Box::pin(tokio::time::sleep(pause))),
        })
    });
    Ok(store)
}

async fn call(engine: &Engine, program: &Program, store: &mut Store<State>) -> Exit {
    let instance = match instantiate(engine, program, store).await {
        Ok(instance) => instance,
        Err(error) => return end(&error, EXIT_NOT_RUN, store),
    };
    // A reactor is initialised before its functions are called; a command does that itself.
    let is_reactor = program.entry.get_export("_start").is_none();
    let initialize = (is_reactor && program.entry_point != INITIALIZE).then_some(INITIALIZE);
    let mut code = 0;
    for name in initialize.into_iter().chain([program.entry_point.as_str()]) {
        let Some(function) = instance.get_func(&mut *store, name) else { continue };
        let mut results = vec![Val::I32(0); function.ty(&*store).results().len()];
        if let Err(error) = function.call_async(&mut *store, &[], &mut results).await {
            return end(&error, EXIT_TRAPPED, store);
        }
        code = results.first().and_then(Val::i32).unwrap_or(0);
    }
    Exit { code, ..Exit::default() }
}

async fn instantiate(
    engine: &Engine,
    program: &Program,
    store: &mut Store<State>,
) -> wasmtime::Result<wasmtime::Instance> {
    let mut linker = Linker::new(engine);
    p1::add_to_linker_async(&mut linker, |state: &mut State| &mut state.wasi)?;
    for (name, module) in &program.imports {
        linker.module_async(&mut *store, name, module).await?;
    }
    linker.instantiate_async(&mut *store, &program.entry).await
}

/// What an error says of the end of a program: that it asked to exit is one, too.
fn end(error: &wasmtime::Error, code: i32, store: &Store<State>) -> Exit {
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return Exit { code: *code, ..Exit::default() };
    }
    let out_of_memory = store.data().memory.was_refused;
    match error.downcast_ref::<Trap>() {
        Some(trap) => {
            let fault = Some(format!("{trap}{}", place(error)));
            Exit { code: EXIT_TRAPPED, out_of_memory, fault }
        }
        None => {
            let fault = Some(format!("the program cannot be run: {error:#}"));
            Exit { code, out_of_memory, fault }
        }
    }
}

fn not_run(error: &wasmtime::Error) -> Exit {
    let fault = Some(format!("the program cannot be run: {error:#}"));
    Exit { code: EXIT_NOT_RUN, out_of_memory: false, fault }
}

/// The function in which it happened, where the module says its name.
fn place(error: &wasmtime::Error) -> String {
    error
        .downcast_ref::<WasmBacktrace>()
        .and_then(|backtrace| backtrace.frames().first()?.func_name())
        .map_or_else(String::new, |name| format!(" (in function '{name}')"))
}
