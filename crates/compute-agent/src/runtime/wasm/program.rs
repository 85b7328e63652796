//! Prepares a run: compiles its modules, lays out its files, writes its plan.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api_types::engine::WasmParams;
use api_types::protocol::Work;
use api_types::quantity::Resources;
use wasm_run::plan::Import;
use wasm_run::{Claim, Plan};

use super::background::in_background;
use super::files;
use super::module::{Module, check_entry_point};
use super::store::Store;
use crate::host::tree::remove_all;
use crate::runtime::{ExecutorError, Run, environment};
use agent_core::execution::Failure;

/// Argument 0 of a program whose EntryModule has no Alias.
const DEFAULT_NAME: &str = "main";

/// CPU time of a run beyond its execution timeout after which the kernel ends it: the agent ends
/// it at the timeout, so this only applies when the agent is away.
const CPU_SECONDS_BEYOND_TIMEOUT: u64 = 60;

pub(super) fn params(work: &Work) -> Result<WasmParams, String> {
    serde_json::from_value(work.task.engine.params.clone().into())
        .map_err(|error| format!("the Params of the wasm engine are invalid: {error}"))
}

/// The result of laying out a run.
enum Made {
    Ready,
    /// These modules must be compiled first.
    Missing(Vec<Module>),
}

/// Compiles the modules and lays out the run, replacing an earlier attempt.
pub(super) async fn make(
    store: &Arc<Store>,
    directory: PathBuf,
    run: &Run,
) -> Result<(), ExecutorError> {
    loop {
        let (store_of, directory, run_of) = (Arc::clone(store), directory.clone(), run.clone());
        let made = in_background(move || Ok(lay_out(&store_of, &directory, &run_of))).await?;
        match made.map_err(ExecutorError::Failed)? {
            Made::Ready => return Ok(()),
            Made::Missing(modules) => {
                for module in modules {
                    let compiled = store.compile(&module, &run.work.namespace).await;
                    let failed = |error: super::compiler::CompileError| {
                        ExecutorError::Failed(error.into_failure(&module.what))
                    };
                    compiled.map_err(failed)?;
                }
            }
        }
    }
}

fn lay_out(store: &Store, directory: &Path, run: &Run) -> Result<Made, Failure> {
    let on_disk = |error| Failure::node(format!("the program's directory on the node: {error}"));
    // An earlier agent started it, and crashed before it recorded that.
    if Claim::read(directory).map_err(on_disk)?.is_some() {
        return Ok(Made::Ready);
    }
    let params = params(&run.work).map_err(Failure::task)?;
    let modules = modules(&params, run)?;
    let mut compiled = Vec::with_capacity(modules.len());
    let mut missing = Vec::new();
    for module in &modules {
        match store.find(module.digest) {
            Some(found) => compiled.push(found),
            None => missing.push(module.clone()),
        }
    }
    if !missing.is_empty() {
        return Ok(Made::Missing(missing));
    }
    let entry = compiled.first().ok_or_else(no_entry)?;
    check_entry_point(entry, &params.entry_point)?;
    remove_all(directory).map_err(on_disk)?;
    fs::create_dir_all(directory.join("code")).map_err(on_disk)?;
    let code = |index: usize| PathBuf::from(format!("code/{index}"));
    for (index, module) in modules.iter().enumerate() {
        match store.link(module.digest, &directory.join(code(index))) {
            // Another module evicted it in the meantime.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Made::Missing(vec![module.clone()]));
            }
            linked => linked.map_err(on_disk)?,
        }
    }
    let imports = params.import_modules.iter().enumerate();
    let imports =
        imports.map(|(index, source)| Import { name: source.alias.clone(), code: code(index + 1) });
    let name = match params.entry_module.alias.as_str() {
        "" => DEFAULT_NAME,
        alias => alias,
    };
    // The task's own, then the engine's, then its secrets, which stay in memory, then the service's,
    // which take precedence.
    let mut variables = run.work.task.env.clone();
    variables.extend(params.environment_variables);
    variables.retain(|name, _| !run.secrets.variables.contains_key(name));
    variables.extend(environment::of_service(run.id, run.node_id, &run.work));
    let resources = Resources::from(run.work.resources);
    let timeout_seconds = run.work.task.timeouts.execution_timeout;
    let plan = Plan {
        entry: code(0),
        entry_point: params.entry_point,
        imports: imports.collect(),
        arguments: std::iter::once(name.to_owned()).chain(params.parameters).collect(),
        environment: variables.into_iter().collect(),
        secret_environment: run.secrets.variables_file.clone(),
        files: files::lay_out(directory, run)?,
        memory_bytes: resources.memory_bytes,
        cpu_millis: resources.cpu_millis,
        cpu_time_seconds: (timeout_seconds > 0)
            .then(|| timeout_seconds.saturating_add(CPU_SECONDS_BEYOND_TIMEOUT)),
    };
    plan.write(directory).map_err(on_disk)?;
    Ok(Made::Ready)
}

/// The fetched modules, the entry first.
fn modules(params: &WasmParams, run: &Run) -> Result<Vec<Module>, Failure> {
    let (entry, imports) = run.modules.split_first().ok_or_else(no_entry)?;
    let imports = params.import_modules.iter().zip(imports);
    let imports = imports.map(|(source, fetched)| {
        Module::open(format!("the import module '{}'", source.alias), fetched)
    });
    std::iter::once(Module::open("the EntryModule".to_owned(), entry)).chain(imports).collect()
}

fn no_entry() -> Failure {
    Failure::node("no EntryModule was fetched")
}
