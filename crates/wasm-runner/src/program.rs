//! The program itself: from its instantiation to its end.

use std::path::Path;
use std::sync::Arc;

use wasm_run::output::Stream;
use wasm_run::plan::Preopen;
use wasm_run::{Exit, Plan};
use wasmtime::{Engine, Instance, Linker, Module, Store, Trap, UpdateDeadline, Val, WasmBacktrace};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtxBuilder, WasiView};

use crate::limits::{Mark, MemoryLimit, TICK, Throttle};
use crate::output::Output;
use crate::{code, engine};

/// The exit code that shells use for a process that aborted.
const EXIT_TRAPPED: i32 = 134;

/// The exit code that shells use for a program that cannot run.
const EXIT_NOT_RUN: i32 = 126;

/// Open files, directories and streams of one program.
const MAX_HANDLES: usize = 512;

/// The initialiser that a reactor's host calls before any other function.
const INITIALIZE: &str = "_initialize";

/// The wasmtime state of a running program.
struct State {
    wasi: WasiP1Ctx,
    memory: MemoryLimit,
    throttle: Throttle,
}

/// Runs the program to its end, however it ends.
pub(crate) fn run(directory: &Path, plan: &Plan, output: &Arc<Output>) -> Exit {
    let ran = || {
        let engine = engine::running()?;
        let mut store = store(&engine, directory, plan, output)?;
        if store.data().throttle.is_needed() {
            tick(&engine)?;
        }
        // Nothing else runs in this process, so a blocking call may block it; calls that wait for
        // the clock need the timer.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(runtime.block_on(call(&engine, directory, plan, &mut store)))
    };
    ran().unwrap_or_else(|error| not_run(&error))
}

/// Advances the epoch, so that a program that computes without pause yields regularly.
fn tick(engine: &Engine) -> wasmtime::Result<()> {
    let engine = engine.clone();
    let ticking = move || {
        loop {
            std::thread::sleep(TICK);
            engine.increment_epoch();
        }
    };
    std::thread::Builder::new().name("clock".to_owned()).spawn(ticking)?;
    Ok(())
}

fn store(
    engine: &Engine,
    directory: &Path,
    plan: &Plan,
    output: &Arc<Output>,
) -> wasmtime::Result<Store<State>> {
    let variables: Vec<_> = plan.variables()?.into_iter().collect();
    let mut wasi = WasiCtxBuilder::new();
    wasi.args(&plan.arguments)
        .envs(&variables)
        .stdout(output.printer(Stream::Stdout))
        .stderr(output.printer(Stream::Stderr))
        .allow_blocking_current_thread(true);
    for Preopen { host, guest, writable } in &plan.files {
        let perms = if *writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        wasi.preopened_dir(directory.join(host), guest, perms)?;
    }
    let mut wasi = wasi.build_p1();
    wasi.ctx().table.set_max_capacity(MAX_HANDLES);
    let memory = MemoryLimit::new(plan.memory_bytes);
    let throttle = Throttle::new(plan.cpu_millis, Mark::now());
    let mut store = Store::new(engine, State { wasi, memory, throttle });
    store.limiter(|state| &mut state.memory);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store| {
        if let Some(pause) = store.data_mut().throttle.pause(Mark::now()) {
            std::thread::sleep(pause);
        }
        Ok(UpdateDeadline::Continue(1))
    });
    Ok(store)
}

async fn call(engine: &Engine, directory: &Path, plan: &Plan, store: &mut Store<State>) -> Exit {
    let (entry, instance) = match instantiate(engine, directory, plan, store).await {
        Ok(instantiated) => instantiated,
        Err(error) => return end(&error, EXIT_NOT_RUN, store),
    };
    // A reactor must be initialised before its functions are called; a command initialises itself.
    let is_reactor = entry.get_export("_start").is_none();
    let initialize = (is_reactor && plan.entry_point != INITIALIZE).then_some(INITIALIZE);
    let mut code = 0;
    for name in initialize.into_iter().chain([plan.entry_point.as_str()]) {
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
    directory: &Path,
    plan: &Plan,
    store: &mut Store<State>,
) -> wasmtime::Result<(Module, Instance)> {
    let entry = code::load(engine, &directory.join(&plan.entry))?;
    let mut linker = Linker::new(engine);
    p1::add_to_linker_async(&mut linker, |state: &mut State| &mut state.wasi)?;
    for import in &plan.imports {
        let module = code::load(engine, &directory.join(&import.code))?;
        linker.module_async(&mut *store, &import.name, &module).await?;
    }
    let instance = linker.instantiate_async(&mut *store, &entry).await?;
    Ok((entry, instance))
}

/// Translates an error into the end of the program; an exit request is an error too.
fn end(error: &wasmtime::Error, code: i32, store: &Store<State>) -> Exit {
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return Exit { code: *code, ..Exit::default() };
    }
    let out_of_memory = store.data().memory.was_refused;
    match error.downcast_ref::<Trap>() {
        Some(trap) => {
            let fault = Some(format!("{trap}{}", place(error)));
            Exit { code: EXIT_TRAPPED, out_of_memory, fault, used: None }
        }
        None => {
            let fault = Some(format!("the program cannot be run: {error:#}"));
            Exit { code, out_of_memory, fault, used: None }
        }
    }
}

fn not_run(error: &wasmtime::Error) -> Exit {
    let fault = Some(format!("the program cannot be run: {error:#}"));
    Exit { code: EXIT_NOT_RUN, fault, ..Exit::default() }
}

/// The function in which it happened, if the module names it.
fn place(error: &wasmtime::Error) -> String {
    error
        .downcast_ref::<WasmBacktrace>()
        .and_then(|backtrace| backtrace.frames().first()?.func_name())
        .map_or_else(String::new, |name| format!(" (in function '{name}')"))
}
