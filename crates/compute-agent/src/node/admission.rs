//! Admission: whether this node can run an offered task; otherwise a reason for the user.

use std::collections::{BTreeMap, BTreeSet};

use api_types::engine::EngineType;
use api_types::protocol::Work;
use api_types::quantity::Resources;
use api_types::source::InputSource;

use crate::data::inputs::Sources;
use crate::data::results::publisher::Publishers;
use crate::data::secrets::Secrets;
use crate::runtime::registry::Engines;

/// The resources and capabilities that this node offers.
pub(crate) struct Admission<'a> {
    pub(crate) engines: &'a Engines,
    pub(crate) sources: &'a Sources,
    pub(crate) publishers: &'a Publishers,
    pub(crate) secrets: &'a Secrets,
    pub(crate) capacity: Resources,
}

// === impl Admission ===

impl Admission<'_> {
    pub(crate) fn decide(
        &self,
        work: &Work,
        available: &BTreeSet<EngineType>,
    ) -> Result<(), String> {
        self.engine(work, available)?;
        let need = Resources::from(work.resources);
        if !need.fits_in(&self.capacity) {
            return Err(format!("the task needs {need}; this node has {} in all", self.capacity));
        }
        self.inputs(&work.task.input_sources)?;
        self.modules(work)?;
        self.secrets.admit(&work.task)?;
        results(work)?;
        self.publishers.admit(work)
    }

    fn engine(&self, work: &Work, available: &BTreeSet<EngineType>) -> Result<(), String> {
        let engine = work.task.engine.engine_type;
        match self.engines.get(engine) {
            Some(executor) if available.contains(&engine) => executor.admit(work),
            Some(_) => Err(format!("engine '{engine}' does not answer on this node")),
            None => Err(format!("this node has no engine '{engine}'")),
        }
    }

    fn inputs(&self, inputs: &[InputSource]) -> Result<(), String> {
        let mut targets = BTreeMap::new();
        for (index, input) in inputs.iter().enumerate() {
            let kind = input.source.source_type;
            let named = |reason: String| format!("input {index} ({kind}): {reason}");
            self.sources.admit(input).map_err(named)?;
            absolute_path("Target", &input.target).map_err(named)?;
            let target = input.target.trim_end_matches('/');
            // Files share a directory; their names are known once they are fetched.
            let is_directory = input.target.ends_with('/');
            if let Some((other, other_is_directory)) = targets.insert(target, (index, is_directory))
                && !(is_directory && other_is_directory)
            {
                return Err(named(format!(
                    "its Target '{target}' is also the Target of input {other}"
                )));
            }
        }
        Ok(())
    }

    fn modules(&self, work: &Work) -> Result<(), String> {
        let engine = work.task.engine.engine_type;
        for module in self.engines.get(engine).iter().flat_map(|engine| engine.modules(work)) {
            let (place, kind) = (module.target.trim_start_matches('/'), module.source.source_type);
            self.sources.admit(&module).map_err(|reason| format!("{place} ({kind}): {reason}"))?;
        }
        Ok(())
    }
}

fn results(work: &Work) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for result in &work.task.result_paths {
        let name = result.name.as_str();
        // The name becomes a directory name on this node.
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(format!("result path '{name}': its Name must be a plain directory name"));
        }
        if !names.insert(name) {
            return Err(format!("result path '{name}': another result path has this Name"));
        }
        absolute_path("Path", &result.path)
            .map_err(|reason| format!("result path '{name}': {reason}"))?;
    }
    Ok(())
}

fn absolute_path(field: &str, path: &str) -> Result<(), String> {
    let plain = path.strip_prefix('/').is_some_and(|rest| {
        !rest.is_empty()
            && !path.contains('\0')
            && rest.trim_end_matches('/').split('/').all(|part| !matches!(part, "" | "." | ".."))
    });
    if plain {
        return Ok(());
    }
    Err(format!("its {field} '{path}' is not an absolute path below '/'"))
}

#[cfg(test)]
mod tests;
