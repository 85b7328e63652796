//! The job as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::JobId;
use api_types::dependency::Dependency;
use api_types::engine::EngineType;
use api_types::error::FieldError;
use api_types::job::{
    Constraint, DEFAULT_NAMESPACE, DEFAULT_PRIORITY, JobSpec, JobType, MAX_PRIORITY, OnConflict,
    RetryPolicy, Task, generated_name,
};
use api_types::submission::{
    ConstraintSubmission, JobSubmission, RetryPolicySubmission, TaskSubmission,
};

use serde_json::Value;

use super::dependencies::{self, Members};
use super::findings::Findings;
use super::text::MapKind;
use super::{
    Accepted, GRAPH, REQUESTER_ID, REQUESTER_KEY, RESERVED_META, Rejected, Requester, groups,
    job_inputs, publisher_key, task,
};

/// The most executions one job may request; ten times the live executions of a whole cluster.
const MAX_COUNT: i64 = 1_000_000;

/// Constraints of one job: each is checked for every node that a placement considers.
const MAX_CONSTRAINTS: usize = 64;

/// Values of these constraints together: a node's label may be compared with each.
const MAX_CONSTRAINT_VALUES: usize = 256;

/// Bytes of a longer component of an image are no part of a name.
const MAX_STEM_BYTES: usize = 128;

/// The most attempts a job may name; 0 means no limit.
const MAX_ATTEMPTS: i64 = 1_000_000;

/// The most failed indexes a job may allow, as many as it may have; -1 allows any number.
const MOST_FAILED: i64 = MAX_COUNT;

/// The longest delay between two attempts: a day.
const MAX_RETRY_DELAY_SECONDS: i64 = 86_400;

/// A checked job; parts are missing when the checks found problems.
pub(super) struct Checked {
    id: JobId,
    id_given: bool,
    job_type: Option<JobType>,
    /// None: the service makes one.
    name: Option<String>,
    namespace: String,
    /// None: the usual one.
    priority: Option<u32>,
    count: u32,
    max_running: u32,
    constraints: Vec<Constraint>,
    meta: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    retry_policy: Option<RetryPolicy>,
    max_failed: i32,
    /// Concurrency groups, and what the job does to those before it.
    groups: (Vec<String>, OnConflict),
    depends_on: Vec<Dependency>,
    task: Option<Task>,
}

pub(super) fn check(
    job: JobSubmission,
    minted: JobId,
    requester: &Requester,
    graph: Option<&dyn Members>,
    findings: &mut Findings,
) -> Checked {
    warn_of_service_fields(&job, findings);
    let job_type = job_type(job.job_type.as_deref(), findings);
    let (id, id_given) = job_id(job.id.as_deref(), job_type, minted, findings);
    let name = job.name.filter(|name| !name.is_empty());
    if let Some(name) = &name {
        findings.check_name("Name", name);
    }
    let namespace = job
        .namespace
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    findings.check_namespace("Namespace", &namespace);
    let labels = job.labels.unwrap_or_default();
    findings.check_map("Labels", &labels, MapKind::Labels);
    let groups = (job.concurrency_groups.unwrap_or_default(), job.on_conflict.as_deref());
    let mut checked = Checked {
        id,
        id_given,
        job_type,
        name,
        namespace,
        priority: priority(job.priority, findings),
        count: count(job.count, job_type, findings),
        max_running: max_running(job.max_running, job_type, findings),
        constraints: constraints(job.constraints.unwrap_or_default(), findings),
        meta: meta(job.meta.unwrap_or_default(), requester, graph, findings),
        labels,
        retry_policy: job_type
            .map(|job_type| retry_policy(job.retry_policy.unwrap_or_default(), job_type, findings)),
        max_failed: max_failed(job.max_failed, job_type, findings),
        groups: groups::check(groups, job_type, findings),
        depends_on: dependencies::check(
            job.depends_on.unwrap_or_default(),
            job_type,
            graph,
            findings,
        ),
        task: only_task(job.tasks.unwrap_or_default(), findings),
    };
    if let (Some(job_type), Some(task)) = (job_type, &mut checked.task) {
        publisher_key::check(&task.publisher, job_type, checked.count, findings);
        job_inputs::check(task, job_type, &checked.depends_on, graph, findings);
    }
    checked
}

fn warn_of_service_fields(job: &JobSubmission, findings: &mut Findings) {
    let fields = [
        ("State", &job.state),
        ("Version", &job.version),
        ("Revision", &job.revision),
        ("CreateTime", &job.create_time),
        ("ModifyTime", &job.modify_time),
    ];
    for (name, value) in fields {
        if value.is_some() {
            findings.warn(format!("{name} is set by the service; the value was ignored"));
        }
    }
}

fn job_type(word: Option<&str>, findings: &mut Findings) -> Option<JobType> {
    match word.filter(|word| !word.is_empty()) {
        Some(word) => findings.take("Type", word.parse()),
        None => {
            findings.refuse("Type", "is required; known: batch, ops, service, daemon");
            None
        }
    }
}

fn job_id(
    text: Option<&str>,
    job_type: Option<JobType>,
    minted: JobId,
    findings: &mut Findings,
) -> (JobId, bool) {
    let Some((text, job_type)) = text.filter(|text| !text.is_empty()).zip(job_type) else {
        return (minted, false);
    };
    if job_type.is_finite() {
        findings.warn(format!(
            "ID is assigned by the service for {job_type} jobs; the value was ignored"
        ));
        return (minted, false);
    }
    match findings.take("ID", text.parse()) {
        Some(id) => (id, true),
        None => (minted, false),
    }
}

fn priority(priority: Option<i64>, findings: &mut Findings) -> Option<u32> {
    let priority = priority?;
    if !(0..=i64::from(MAX_PRIORITY)).contains(&priority) {
        findings
            .refuse("Priority", format!("must be between 0 and {MAX_PRIORITY}, got {priority}"));
    }
    u32::try_from(priority).ok()
}

fn count(count: Option<i64>, job_type: Option<JobType>, findings: &mut Findings) -> u32 {
    if count == Some(0) && job_type.is_none_or(|it| !matches!(it, JobType::Ops | JobType::Daemon)) {
        findings.warn("Count 0 is taken as 1; leave it out for one execution");
    }
    let count = count.unwrap_or(0);
    if count < 0 {
        findings.refuse("Count", format!("must not be negative, got {count}"));
    } else if count > MAX_COUNT {
        findings.refuse("Count", format!("must not be above {MAX_COUNT}, got {count}"));
    }
    if let Some(job_type @ (JobType::Ops | JobType::Daemon)) = job_type
        && count > 1
    {
        findings.warn(format!(
            "Count {count} was ignored: {job_type} jobs run once on every matching node"
        ));
        return 1;
    }
    u32::try_from(count).unwrap_or(0).max(1)
}

fn max_running(most: Option<i64>, job_type: Option<JobType>, findings: &mut Findings) -> u32 {
    let most = most.unwrap_or(0);
    if !(0..=MAX_COUNT).contains(&most) {
        let reason = format!("must be between 0 (no limit) and {MAX_COUNT}, got {most}");
        findings.refuse("MaxRunning", reason);
    } else if let Some(job_type) = job_type.filter(|it| !it.is_finite() && most > 0) {
        let reason = format!(
            "is only allowed for batch and ops jobs: all executions of a {job_type} job run at the \
             same time"
        );
        findings.refuse("MaxRunning", reason);
    }
    u32::try_from(most).unwrap_or(0)
}

fn constraints(submitted: Vec<ConstraintSubmission>, findings: &mut Findings) -> Vec<Constraint> {
    if submitted.len() > MAX_CONSTRAINTS {
        findings.refuse("Constraints", format!("must not be more than {MAX_CONSTRAINTS}"));
        return Vec::new();
    }
    let values: usize = submitted.iter().flat_map(|it| &it.values).map(Vec::len).sum();
    if values > MAX_CONSTRAINT_VALUES {
        let reason = format!("must not list more than {MAX_CONSTRAINT_VALUES} values in all");
        findings.refuse("Constraints", reason);
        return Vec::new();
    }
    let mut constraints = Vec::with_capacity(submitted.len());
    for (index, submitted) in submitted.into_iter().enumerate() {
        let path = format!("Constraints[{index}]");
        let constraint = Constraint {
            key: submitted.key.unwrap_or_default(),
            operator: submitted.operator.unwrap_or_default(),
            values: submitted.values.unwrap_or_default(),
        };
        if constraint.key.trim().is_empty() {
            findings.refuse(format!("{path}.Key"), "is required");
        }
        if constraint.operator.is_empty() {
            findings.refuse(format!("{path}.Operator"), "is required");
        } else {
            findings.take(&path, constraint.requirement());
        }
        constraints.push(constraint);
    }
    constraints
}

fn meta(
    submitted: BTreeMap<String, String>,
    requester: &Requester,
    graph: Option<&dyn Members>,
    findings: &mut Findings,
) -> BTreeMap<String, String> {
    let (reserved, mut meta): (BTreeMap<_, _>, BTreeMap<_, _>) =
        submitted.into_iter().partition(|(key, _)| key.starts_with(RESERVED_META));
    for key in reserved.keys() {
        findings.warn(format!("Meta.{key} is set by the service; the value was ignored"));
    }
    findings.check_map("Meta", &meta, MapKind::Meta);
    meta.insert(REQUESTER_ID.to_owned(), requester.id.clone());
    meta.insert(REQUESTER_KEY.to_owned(), requester.public_key.clone());
    meta.extend(graph.map(|graph| (GRAPH.to_owned(), graph.id().to_string())));
    meta
}

fn retry_policy(
    submitted: RetryPolicySubmission,
    job_type: JobType,
    findings: &mut Findings,
) -> RetryPolicy {
    let default = RetryPolicy::default_for(job_type);
    let mut within = |field: &str, value: Option<i64>, default: u32, most: i64| {
        let Some(value) = value else { return default };
        if !(0..=most).contains(&value) {
            let reason = format!("must be between 0 and {most}, got {value}");
            findings.refuse(format!("RetryPolicy.{field}"), reason);
        }
        u32::try_from(value).unwrap_or(default)
    };
    let attempts = within("Attempts", submitted.attempts, default.attempts, MAX_ATTEMPTS);
    let delay = within("Delay", submitted.delay, default.delay, MAX_RETRY_DELAY_SECONDS);
    // A delay above the default bound raises the bound unless the job names one.
    let bound = default.max_delay.max(delay);
    let max_delay = within("MaxDelay", submitted.max_delay, bound, MAX_RETRY_DELAY_SECONDS);
    if max_delay < delay {
        let reason = format!("must not be below Delay ({delay}), got {max_delay}");
        findings.refuse("RetryPolicy.MaxDelay", reason);
    }
    RetryPolicy { attempts, delay, max_delay }
}

fn max_failed(most: Option<i64>, job_type: Option<JobType>, findings: &mut Findings) -> i32 {
    let most = most.unwrap_or(0);
    if !(-1..=MOST_FAILED).contains(&most) {
        let reason = format!("must be between -1 (any number) and {MOST_FAILED}, got {most}");
        findings.refuse("MaxFailed", reason);
    } else if let Some(job_type) = job_type.filter(|job_type| !job_type.is_finite())
        && most != 0
    {
        let reason =
            format!("is for batch and ops jobs; the executions of a {job_type} job do not end");
        findings.refuse("MaxFailed", reason);
    }
    i32::try_from(most).unwrap_or(0)
}

fn only_task(mut tasks: Vec<TaskSubmission>, findings: &mut Findings) -> Option<Task> {
    if tasks.len() > 1 {
        findings.refuse("Tasks", format!("must be exactly one, got {}", tasks.len()));
        return None;
    }
    match tasks.pop() {
        Some(submitted) => task::check(submitted, findings),
        None => {
            findings.refuse("Tasks", "is required: exactly one task");
            None
        }
    }
}

/// What the name of a job without one begins with: the last component of its image, without tag and
/// digest, or else its engine. The URL of a module is not in it, because viewers do not see that.
fn stem(task: &Task) -> String {
    let engine = &task.engine;
    let image = match engine.engine_type {
        EngineType::Docker => engine.params.get("Image").and_then(Value::as_str),
        EngineType::Wasm | EngineType::Noop => None,
    };
    let component = image.map(|image| {
        let image = image.split('@').next().unwrap_or_default();
        let component = image.rsplit('/').next().unwrap_or_default();
        component.split(':').next().unwrap_or_default().trim()
    });
    let is_name = |stem: &&str| {
        (1..=MAX_STEM_BYTES).contains(&stem.len()) && !stem.chars().any(char::is_control)
    };
    let stem = component.filter(is_name);
    stem.unwrap_or(engine.engine_type.as_str()).to_owned()
}

// === impl Checked ===

/// A specification as it is stored and sent.
pub(super) fn stored_form(spec: &JobSpec) -> Arc<str> {
    serde_json::to_string(spec)
        .expect("a specification has only string keys and finite numbers")
        .into()
}

impl Checked {
    /// Called only without problems, so that nothing is missing.
    pub(super) fn accepted(self, warnings: Vec<String>) -> Result<Accepted, Rejected> {
        let (Some(job_type), Some(retry_policy), Some(task)) =
            (self.job_type, self.retry_policy, self.task)
        else {
            let reason = "cannot be accepted".to_owned();
            return Err(Rejected::Invalid(vec![FieldError { path: "Job".to_owned(), reason }]));
        };
        let name = self.name.unwrap_or_else(|| generated_name(&stem(&task), self.id));
        let spec = JobSpec {
            name,
            namespace: self.namespace,
            job_type,
            priority: self.priority.unwrap_or(DEFAULT_PRIORITY),
            count: self.count,
            max_running: self.max_running,
            constraints: self.constraints,
            meta: self.meta,
            labels: self.labels,
            retry_policy,
            max_failed: self.max_failed,
            concurrency_groups: self.groups.0,
            on_conflict: self.groups.1,
            depends_on: self.depends_on,
            tasks: vec![task],
        };
        let spec_json = stored_form(&spec);
        let (id, id_given, spec) = (self.id, self.id_given, spec.into());
        let priority_given = self.priority.is_some();
        Ok(Accepted { id, id_given, priority_given, spec, spec_json, warnings })
    }
}
