//! What a job requires of a node: the part of its specification that placement uses.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use api_types::credential::CREDENTIALS;
use api_types::engine::{EngineType, Params, PublisherType};
use api_types::job::JobSpec;
use api_types::quantity::{self, InvalidQuantity, LEAST_CONTAINER, Resources};
use api_types::selector::Requirement;
use api_types::source::SourceType;

/// What jobs that wait in one queue have in common; they share one explanation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Want {
    pub namespace: Arc<str>,
    pub demand: Arc<Demand>,
}

/// What a job requires of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    pub fit: Fit,
    pub need: Need,
}

/// The properties a node must have, regardless of its free capacity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fit {
    pub engine: EngineType,
    pub publisher: PublisherType,
    /// Sorted and unique.
    pub sources: Vec<SourceType>,
    /// Sorted and unique; the node's labels must satisfy all of them.
    pub constraints: Vec<Requirement>,
}

/// The resources that an execution reserves; the node's defaults apply to what the job leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    pub cpu_millis: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub disk_bytes: u64,
    pub gpus: u64,
}

/// A specification that validation should have refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDemand {
    #[error("the job has no task")]
    NoTask,
    #[error(transparent)]
    Quantity(#[from] InvalidQuantity),
    #[error("constraint on '{key}': {reason}")]
    Constraint { key: String, reason: String },
}

/// A property that a node lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unmet<'a> {
    Engine(EngineType),
    Publisher(PublisherType),
    Source(SourceType),
    /// The labels do not meet it.
    Label(&'a Requirement),
}

/// One of the resources of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    Disk,
    Gpu,
}

// === impl Demand ===

impl Demand {
    pub fn from_spec(spec: &JobSpec) -> Result<Self, InvalidDemand> {
        let task = spec.tasks.first().ok_or(InvalidDemand::NoTask)?;
        let mut constraints = Vec::with_capacity(spec.constraints.len());
        for constraint in &spec.constraints {
            constraints.push(constraint.requirement().map_err(|reason| {
                InvalidDemand::Constraint { key: constraint.key.clone(), reason }
            })?);
        }
        constraints.sort();
        constraints.dedup();
        // With credentials of the job's own, buckets need no node that has some.
        let is_own = |params: &Params| params.contains_key(CREDENTIALS);
        let inputs = task.input_sources.iter().map(|input| &input.source);
        let mut sources: Vec<_> = inputs
            .filter(|source| source.source_type != SourceType::S3 || !is_own(&source.params))
            .map(|source| source.source_type)
            .collect();
        sources.sort();
        sources.dedup();
        let fit = Fit {
            engine: task.engine.engine_type,
            publisher: match task.publisher.publisher_type {
                PublisherType::S3 if is_own(&task.publisher.params) => PublisherType::None,
                publisher => publisher,
            },
            sources,
            constraints,
        };
        Ok(Self { need: Need::from_task(task)?.given_by(fit.engine), fit })
    }
}

// === impl Fit ===

impl Fit {
    /// The constraints, and the values with which they compare.
    pub(crate) fn conditions(&self) -> usize {
        let values = self.constraints.iter().map(|constraint| constraint.test.listed_values());
        self.constraints.len() + values.sum::<usize>()
    }

    /// Whether a node with these labels and capabilities lacks nothing but the engine, which may
    /// return.
    pub(crate) fn is_met_but_for_the_engine(
        &self,
        labels: &BTreeMap<String, String>,
        publishers: &[PublisherType],
        sources: &[SourceType],
    ) -> bool {
        self.unmet(labels, &[self.engine], publishers, sources).is_none()
    }

    /// What a node with these labels and capabilities lacks, or `None`.
    pub fn unmet(
        &self,
        labels: &BTreeMap<String, String>,
        engines: &[EngineType],
        publishers: &[PublisherType],
        sources: &[SourceType],
    ) -> Option<Unmet<'_>> {
        if !engines.contains(&self.engine) {
            return Some(Unmet::Engine(self.engine));
        }
        if !matches!(self.publisher, PublisherType::None | PublisherType::Noop)
            && !publishers.contains(&self.publisher)
        {
            return Some(Unmet::Publisher(self.publisher));
        }
        if let Some(source) = self.sources.iter().find(|source| !sources.contains(source)) {
            return Some(Unmet::Source(*source));
        }
        let unmet = self.constraints.iter().find(|constraint| !constraint.matches(labels))?;
        Some(Unmet::Label(unmet))
    }
}

// === impl Unmet ===

impl fmt::Display for Unmet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(engine) => write!(f, "no {engine} engine"),
            Self::Publisher(publisher) => write!(f, "no {publisher} publisher"),
            Self::Source(source) => write!(f, "no {source} input source"),
            Self::Label(unmet) => write!(f, "label {}", unmet.key),
        }
    }
}

// === impl Need ===

impl Need {
    fn from_task(task: &api_types::job::Task) -> Result<Self, InvalidDemand> {
        let asked = &task.resources;
        let given = |text: &str| !text.trim().is_empty();
        Ok(Self {
            cpu_millis: given(&asked.cpu)
                .then(|| quantity::parse_cpu_millis(&asked.cpu))
                .transpose()?,
            memory_bytes: given(&asked.memory)
                .then(|| quantity::parse_bytes(&asked.memory))
                .transpose()?,
            disk_bytes: if given(&asked.disk) { quantity::parse_bytes(&asked.disk)? } else { 0 },
            gpus: if given(&asked.gpu) { quantity::parse_gpus(&asked.gpu)? } else { 0 },
        })
    }

    /// What the engine gives at least is reserved as well: otherwise tasks that ask for next to
    /// nothing would together be given more than a node has.
    fn given_by(self, engine: EngineType) -> Self {
        match engine {
            EngineType::Docker => Self {
                cpu_millis: self.cpu_millis.map(|it| it.max(LEAST_CONTAINER.cpu_millis)),
                memory_bytes: self.memory_bytes.map(|it| it.max(LEAST_CONTAINER.memory_bytes)),
                ..self
            },
            EngineType::Wasm | EngineType::Noop => self,
        }
    }

    /// The resources that it reserves on a node with these defaults.
    pub fn on(&self, defaults: &Resources) -> Resources {
        Resources {
            cpu_millis: self.cpu_millis.unwrap_or(defaults.cpu_millis),
            memory_bytes: self.memory_bytes.unwrap_or(defaults.memory_bytes),
            disk_bytes: self.disk_bytes,
            gpus: self.gpus,
        }
    }
}

// === impl Resource ===

impl Resource {
    /// The first resource of which `need` exceeds `room`.
    pub(crate) fn short(need: &Resources, room: &Resources) -> Option<Self> {
        [Self::Cpu, Self::Memory, Self::Disk, Self::Gpu]
            .into_iter()
            .find(|resource| resource.amount_in(need) > resource.amount_in(room))
    }

    pub(crate) const fn amount_in(self, amounts: &Resources) -> u64 {
        match self {
            Self::Cpu => amounts.cpu_millis,
            Self::Memory => amounts.memory_bytes,
            Self::Disk => amounts.disk_bytes,
            Self::Gpu => amounts.gpus,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Gpu => "GPU",
        }
    }
}
