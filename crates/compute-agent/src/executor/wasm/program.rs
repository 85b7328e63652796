//! A run made ready to start: its modules compiled, its files laid out.

use std::fs;

use api_types::engine::WasmParams;
use api_types::protocol::Work;
use api_types::quantity::Resources;
use tracing::debug;

use super::run::Program;
use super::runtime::Runtime;
use super::{files, module};
use crate::data_dir::{ExecutionDir, remove_all};
use crate::environment;
use crate::execution::Failure;
use crate::executor::Run;

/// Argument 0 of a program whose EntryModule has no Alias.
const DEFAULT_NAME: &str = "main";

pub(super) fn params(work: &Work) -> Result<WasmParams, String> {
    serde_json::from_value(work.task.engine.params.clone().into())
        .map_err(|error| format!("the Params of the wasm engine cannot be read: {error}"))
}

/// Compiles the modules and lays out the files, anew if it was tried before.
pub(super) fn make(runtime: &Runtime, dir: &ExecutionDir, run: &Run) -> Result<Program, Failure> {
    let params = params(&run.work).map_err(Failure::task)?;
    let (entry, imports) =
        run.modules.split_first().ok_or_else(|| Failure::node("no EntryModule was fetched"))?;
    let entry = module::load(&runtime.engine, "the EntryModule", entry)?;
    module::check_entry_point(&entry, &params.entry_point)?;
    let imports = params
        .import_modules
        .iter()
        .zip(imports)
        .map(|(source, fetched)| {
            let what = format!("the import module '{}'", source.alias);
            Ok((source.alias.clone(), module::load(&runtime.engine, &what, fetched)?))
        })
        .collect::<Result<_, Failure>>()?;
    let cache = &runtime.cache;
    debug!(hits = cache.cache_hits(), misses = cache.cache_misses(), "modules are at hand");
    let place = dir.wasm();
    let on_disk = |error| Failure::node(format!("the program's place on the node: {error}"));
    remove_all(&place).map_err(on_disk)?;
    fs::create_dir_all(&place).map_err(on_disk)?;
    let files = files::lay_out(&place, run)?;
    let name = match params.entry_module.alias.as_str() {
        "" => DEFAULT_NAME,
        alias => alias,
    };
    // The task's own, then the engine's, then the service's, which always hold.
    let mut environment = run.work.task.env.clone();
    environment.extend(params.environment_variables);
    environment.extend(environment::of_service(run.id, run.node_id, &run.work));
    let resources = Resources::from(run.work.resources);
    Ok(Program {
        entry,
        entry_point: params.entry_point,
        imports,
        arguments: std::iter::once(name.to_owned()).chain(params.parameters).collect(),
        environment: environment.into_iter().collect(),
        files,
        memory_bytes: resources.memory_bytes,
        cpu_millis: resources.cpu_millis,
    })
}
