//! Namespaces, as they are stored, and what they allow their jobs.

use api_types::Timestamp;
use api_types::access::{Namespace, Permissions};
use api_types::engine::{EngineType, PublisherType};
use api_types::error::FieldError;
use api_types::image::ImageReference;
use api_types::job::{Constraint, DEFAULT_NAMESPACE, JobSpec, MAX_PRIORITY, Task};
use api_types::node::nodes_requirements;
use api_types::quantity::Millis;
use api_types::quota::{DEFAULT_WEIGHT, NamespaceUsage, Quota};
use control_plane::records::{Record, RecordKey, RecordKind};
use scheduler::QuotaUse;
use serde::{Deserialize, Serialize};

use crate::access::token::shown;
use crate::records::Published;

/// A namespace as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredNamespace {
    pub(crate) description: String,
    pub(crate) permissions: Permissions,
    #[serde(default)]
    pub(crate) nodes: String,
    /// None for a namespace without a bound: `default`, and those made where no credentials are
    /// required or by an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_priority: Option<u32>,
    #[serde(default, skip_serializing_if = "Quota::is_unbounded")]
    pub(crate) quota: Quota,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<u32>,
    pub(crate) create_time: Timestamp,
    pub(crate) modify_time: Timestamp,
}

pub(crate) fn key(name: &str) -> RecordKey {
    RecordKind::Namespace.key(name)
}

/// Whether jobs may be submitted there; `default` needs no record.
pub(crate) fn exists(records: &Published, name: &str) -> bool {
    name == DEFAULT_NAMESPACE || records.get(&key(name)).is_some()
}

/// The namespace, without restrictions where it has no record.
pub(crate) fn settings(records: &Published, name: &str) -> StoredNamespace {
    records.get(&key(name)).map(|record| StoredNamespace::from_record(&record)).unwrap_or_default()
}

/// What the live jobs of a namespace hold.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) used: QuotaUse,
    /// In millionths.
    pub(crate) share: u64,
}

/// A share, given in millionths.
pub(crate) fn fraction(millionths: u64) -> f64 {
    f64::from(u32::try_from(millionths).unwrap_or(u32::MAX)) / 1e6
}

fn usage(Held { used, share }: Held) -> NamespaceUsage {
    let QuotaUse { held, executions, queued } = used;
    NamespaceUsage {
        cpu: Millis(held.cpu_millis).to_string(),
        memory: held.memory_bytes,
        gpu: held.gpus,
        executions,
        queued_executions: queued,
        share: fraction(share),
    }
}

// === impl StoredNamespace ===

impl StoredNamespace {
    pub(crate) fn from_record(record: &Record) -> Self {
        serde_json::from_str(&record.value).unwrap_or_default()
    }

    pub(crate) fn wire(self, name: String, held: Held) -> Namespace {
        let time = |time: Timestamp| shown(Some(time).filter(|time| *time != Timestamp::ZERO));
        Namespace {
            name,
            max_priority: self.max_priority(),
            description: self.description,
            permissions: self.permissions,
            nodes: self.nodes,
            quota: self.quota,
            weight: self.weight.unwrap_or(DEFAULT_WEIGHT),
            usage: usage(held),
            create_time: time(self.create_time),
            modify_time: time(self.modify_time),
        }
    }

    /// The highest priority of its jobs.
    pub(crate) fn max_priority(&self) -> u32 {
        self.max_priority.unwrap_or(MAX_PRIORITY)
    }

    /// What the namespace demands of the nodes that run its jobs: labels that only an admin gives.
    pub(crate) fn constraints(&self) -> Vec<Constraint> {
        let requirements = nodes_requirements(&self.nodes).unwrap_or_default();
        requirements.into_iter().map(Constraint::from).collect()
    }

    /// Whether root in the containers of its jobs has capabilities.
    pub(crate) fn permits_capabilities(&self) -> bool {
        self.permissions.capabilities != Some(false)
    }

    /// What a job asks for and its namespace does not permit.
    pub(crate) fn unpermitted(&self, spec: &JobSpec) -> Vec<FieldError> {
        // Capabilities are no wish of a job: they are given, or not, when its tasks start.
        let Permissions { engines, networks, sources, publishers, registries, capabilities: _ } =
            &self.permissions;
        let mut problems = Vec::new();
        for (at, task) in spec.tasks.iter().enumerate() {
            let mut check = |path: &str, list: &Option<Vec<String>>, word: &str| {
                let Some(list) = list.as_ref().filter(|list| !list.iter().any(|it| it == word))
                else {
                    return;
                };
                let permitted = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
                let reason = format!(
                    "'{word}' is not permitted in namespace '{}'; permitted: {permitted}",
                    spec.namespace
                );
                problems.push(FieldError { path: format!("Tasks[{at}].{path}"), reason });
            };
            check("Engine.Type", engines, task.engine.engine_type.as_str());
            if let Some(image) = image_of(task) {
                let word = image.registry().unwrap_or(image.as_str());
                check("Engine.Params.Image", registries, word);
            }
            check("Network.Type", networks, task.network.network_type.as_str());
            // To publish nothing is always permitted.
            if task.publisher.publisher_type != PublisherType::None {
                check("Publisher.Type", publishers, task.publisher.publisher_type.as_str());
            }
            for (at, input) in task.input_sources.iter().enumerate() {
                let path = format!("InputSources[{at}].Source.Type");
                check(&path, sources, input.source.source_type.as_str());
            }
        }
        problems
    }
}

/// The image of a docker task. One that cannot be read is refused elsewhere.
fn image_of(task: &Task) -> Option<ImageReference> {
    let is_docker = task.engine.engine_type == EngineType::Docker;
    let image = is_docker.then(|| task.engine.params.get("Image")?.as_str()).flatten()?;
    ImageReference::parse(image).ok()
}
