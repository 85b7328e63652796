//! The one task of a job.

use std::collections::HashSet;

use api_types::engine::{
    EngineSpec, EngineType, NetworkType, Params, PublisherSpec, PublisherType,
};
use api_types::job::{NetworkSpec, Task, Timeouts};
use api_types::source::{InputSource, ResultPath, SourceSpec, SourceType};
use api_types::submission::{
    InputSourceSubmission, NetworkSubmission, ResultPathSubmission, TaskSubmission,
    TimeoutsSubmission, TypedSubmission,
};

use super::findings::Findings;
use super::paths::Use;
use super::text::MapKind;
use super::{arguments, params, resources, secrets};

pub(super) const TASK: &str = "Tasks[0]";

/// The path of a field of the task. Nearly every job is valid, so it costs nothing until a message
/// needs it.
macro_rules! of_task {
    ($field:literal) => {
        concat!("Tasks[0].", $field)
    };
}
pub(super) use of_task;

/// Inputs and result paths of one task: each is a mount or a copy.
const MAX_INPUTS: usize = 64;
const MAX_RESULT_PATHS: usize = 64;

/// Names that the published archive uses itself.
const ARCHIVE_NAMES: [&str; 3] = ["stdout", "stderr", "exitCode"];

/// The warning about result paths of a task without a publisher.
const RESULTS_ARE_LOST: &str = "Tasks[0].ResultPaths are published nowhere, because the task has no \
    Publisher; set it to local, s3 or ipfs";

/// A hundred years: larger values overflow timestamps.
const MAX_TIMEOUT_SECONDS: i64 = 100 * 365 * 86_400;

/// A week: work that may wait longer for a silent node is never meant to be replaced.
const MAX_LOST_AFTER_SECONDS: i64 = 7 * 24 * 3600;

const MAX_DOMAINS: usize = 256;
const MAX_DOMAIN_BYTES: usize = 253;

pub(super) fn check(task: TaskSubmission, findings: &mut Findings) -> Option<Task> {
    let name = task.name.unwrap_or_default();
    if name.is_empty() {
        findings.refuse(of_task!("Name"), "is required");
    } else {
        findings.check_name(of_task!("Name"), &name);
    }
    let engine = engine(task.engine, findings);
    let publisher = publisher(task.publisher.unwrap_or_default(), findings);
    let env = task.env.unwrap_or_default();
    findings.check_map(of_task!("Env"), &env, MapKind::Env);
    arguments::check(engine.as_ref(), &env, findings);
    let engine_type = engine.as_ref().map(|engine| engine.engine_type);
    let input_sources = inputs(task.input_sources.unwrap_or_default(), engine_type, findings);
    let secrets = task.secrets.unwrap_or_default();
    let secrets = secrets::check(secrets, &input_sources, engine_type, findings);
    secrets::warn_of_literals(&env, findings);
    let meta = task.meta.unwrap_or_default();
    findings.check_map(of_task!("Meta"), &meta, MapKind::Meta);
    let result_paths = result_paths(task.result_paths.unwrap_or_default(), engine_type, findings);
    if let Some(publisher) = &publisher
        && publisher.publisher_type == PublisherType::None
        && !result_paths.is_empty()
    {
        findings.warn(RESULTS_ARE_LOST);
    }
    let resources = resources::check(task.resources, task.resources_config, findings);
    let network = network(task.network.unwrap_or_default(), findings);
    let timeouts = timeouts(task.timeouts.unwrap_or_default(), findings);
    Some(Task {
        name,
        engine: engine?,
        publisher: publisher?,
        env,
        secrets,
        meta,
        input_sources,
        result_paths,
        resources,
        network: network?,
        timeouts,
    })
}

fn engine(submitted: Option<TypedSubmission>, findings: &mut Findings) -> Option<EngineSpec> {
    let submitted = submitted.unwrap_or_default();
    let Some(word) = submitted.kind.filter(|word| !word.is_empty()) else {
        let known = EngineType::known();
        findings.refuse(of_task!("Engine.Type"), format!("is required; known: {known}"));
        return None;
    };
    let engine_type: EngineType = findings.take(of_task!("Engine.Type"), word.parse())?;
    let path = of_task!("Engine.Params");
    let params = submitted.params.unwrap_or_default();
    let params = params::check(params, params::of_engine(engine_type), path, findings);
    Some(EngineSpec { engine_type, params })
}

fn publisher(submitted: TypedSubmission, findings: &mut Findings) -> Option<PublisherSpec> {
    let word = submitted.kind.unwrap_or_default();
    let publisher_type: PublisherType = findings.take(of_task!("Publisher.Type"), word.parse())?;
    let path = of_task!("Publisher.Params");
    let params = submitted.params.unwrap_or_default();
    let params = params::check(params, params::of_publisher(publisher_type), path, findings);
    Some(PublisherSpec { publisher_type, params })
}

fn inputs(
    submitted: Vec<InputSourceSubmission>,
    engine: Option<EngineType>,
    findings: &mut Findings,
) -> Vec<InputSource> {
    let path = of_task!("InputSources");
    if submitted.len() > MAX_INPUTS {
        findings.refuse(path, format!("must not be more than {MAX_INPUTS}"));
        return Vec::new();
    }
    let mut inputs: Vec<InputSource> = Vec::with_capacity(submitted.len());
    for (index, submitted) in submitted.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        let source = source(submitted.source.unwrap_or_default(), &path, findings);
        let target = submitted.target.unwrap_or_default();
        let alias = submitted.alias.unwrap_or_default();
        let place = format!("{path}.Alias");
        if alias.contains('/') || alias == "." || alias == ".." {
            findings.refuse(&place, "must be the name of one file, without '/'");
        } else if !alias.is_empty() {
            findings.check_name(&place, &alias);
        }
        let place = format!("{path}.Target");
        if target.is_empty() {
            findings.refuse(&place, "is required: the absolute path at which the task sees it");
        } else {
            findings.check_task_path(&place, &target, Use::Input, engine);
        }
        findings.check_targets(&place, (source.as_ref(), &target, &alias), &inputs);
        if let Some(source) = source {
            inputs.push(InputSource { source, target, alias });
        }
    }
    inputs
}

fn source(submitted: TypedSubmission, path: &str, findings: &mut Findings) -> Option<SourceSpec> {
    let place = format!("{path}.Source.Type");
    let Some(word) = submitted.kind.filter(|word| !word.is_empty()) else {
        findings.refuse(place, format!("is required; known: {}", params::known_sources()));
        return None;
    };
    let source_type: SourceType = findings.take(&place, word.parse())?;
    let place = format!("{path}.Source.Params");
    let params = submitted.params.unwrap_or_default();
    let params = params::check(params, params::of_source(source_type), &place, findings);
    if source_type == SourceType::S3 {
        check_prefix(&params, &place, findings);
    }
    Some(SourceSpec { source_type, params })
}

/// A `Key` that is a prefix has many objects, or none of a particular version.
fn check_prefix(params: &Params, path: &str, findings: &mut Findings) {
    let text = |field| params.get(field).and_then(|value| value.as_str()).unwrap_or_default();
    let key = text("Key");
    if !key.ends_with(['/', '*']) {
        return;
    }
    for field in ["VersionID", "ChecksumSHA256"].into_iter().filter(|field| !text(field).is_empty())
    {
        let reason = format!("applies to one object, and the Key '{key}' is a prefix");
        findings.refuse(format!("{path}.{field}"), reason);
    }
}

fn result_paths(
    submitted: Vec<ResultPathSubmission>,
    engine: Option<EngineType>,
    findings: &mut Findings,
) -> Vec<ResultPath> {
    let path = of_task!("ResultPaths");
    if submitted.len() > MAX_RESULT_PATHS {
        findings.refuse(path, format!("must not be more than {MAX_RESULT_PATHS}"));
        return Vec::new();
    }
    let mut names = HashSet::new();
    let mut result_paths = Vec::with_capacity(submitted.len());
    for (index, submitted) in submitted.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = submitted.name.unwrap_or_default();
        let place = format!("{path}.Name");
        if name.is_empty() {
            findings.refuse(&place, "is required: its directory in the published archive");
        } else if name.contains('/') || name == "." || name == ".." {
            findings.refuse(&place, "must be the name of one directory, without '/'");
        } else if ARCHIVE_NAMES.contains(&name.as_str()) {
            findings.refuse(&place, format!("'{name}' is reserved in the archive"));
        } else {
            findings.check_name(&place, &name);
        }
        if !name.is_empty() && !names.insert(name.clone()) {
            findings.refuse(&place, format!("'{name}' is the name of another result path"));
        }
        let kept = submitted.path.unwrap_or_default();
        let place = format!("{path}.Path");
        if kept.is_empty() {
            findings.refuse(&place, "is required: an absolute path inside the task");
        } else {
            findings.check_task_path(&place, &kept, Use::Result, engine);
        }
        result_paths.push(ResultPath { name, path: kept });
    }
    result_paths
}

fn network(submitted: NetworkSubmission, findings: &mut Findings) -> Option<NetworkSpec> {
    let network_type = match submitted.network_type.filter(|word| !word.is_empty()) {
        Some(word) => findings.take(of_task!("Network.Type"), word.parse())?,
        None => NetworkType::None,
    };
    if network_type == NetworkType::Http {
        // No engine restricts a task to domains, so every node would decline it for ever.
        let why = "HTTP is not available yet; available: None, Full";
        findings.refuse(of_task!("Network.Type"), why);
    }
    let domains = submitted.domains.unwrap_or_default();
    let place = of_task!("Network.Domains");
    match network_type {
        NetworkType::None | NetworkType::Full if !domains.is_empty() => {
            findings.refuse(place, format!("is only allowed with Type HTTP, not {network_type}"));
        }
        NetworkType::Http if domains.is_empty() => {
            findings.refuse(place, "Type HTTP requires at least one domain");
        }
        NetworkType::None | NetworkType::Full | NetworkType::Http => {}
    }
    if domains.len() > MAX_DOMAINS {
        findings.refuse(place, format!("must not be more than {MAX_DOMAINS}"));
    }
    for (index, domain) in domains.iter().enumerate().take(MAX_DOMAINS) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._*".contains(c);
        if domain.is_empty() || domain.len() > MAX_DOMAIN_BYTES || !domain.chars().all(allowed) {
            findings.refuse(format!("{place}[{index}]"), format!("'{domain}' is not a domain"));
        }
    }
    Some(NetworkSpec { network_type, domains })
}

fn timeouts(submitted: TimeoutsSubmission, findings: &mut Findings) -> Timeouts {
    let mut seconds = |field: &str, value: Option<i64>, most: i64| {
        let value = value.unwrap_or(0);
        if !(0..=most).contains(&value) {
            let reason = format!("must be whole seconds between 0 (none) and {most}, got {value}");
            findings.refuse(format!("{TASK}.Timeouts.{field}"), reason);
        }
        u64::try_from(value).unwrap_or(0)
    };
    let most = MAX_TIMEOUT_SECONDS;
    Timeouts {
        execution_timeout: seconds("ExecutionTimeout", submitted.execution_timeout, most),
        queue_timeout: seconds("QueueTimeout", submitted.queue_timeout, most),
        total_timeout: seconds("TotalTimeout", submitted.total_timeout, most),
        lost_after: seconds("LostAfter", submitted.lost_after, MAX_LOST_AFTER_SECONDS),
    }
}
