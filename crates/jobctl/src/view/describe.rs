//! All fields of one job, execution or node.

use std::collections::BTreeMap;

use api_types::dependency::Dependency;
use api_types::engine::Params;
use api_types::execution::Execution;
use api_types::job::{Constraint, Job, JobSpec, OnConflict, RetryPolicy, Task, Timeouts};
use api_types::node::{Node, NodeHealth, RefusedAgent};
use api_types::quantity::Resources;
use api_types::rerun::RERUN_OF;
use api_types::words::execution_word;
use api_types::{ExecutionId, Timestamp};
use serde_json::Value;

use super::execution::exit_code;
use super::graph::condition;
use super::node::{status, words};
use super::tone::{compute_tone, job_tone};
use super::usage;
use crate::output::{Fields, age, age_of_text, local, local_text, with_local_times};
use crate::session::name_of;
use crate::submission::SERVICE_META;

pub(crate) fn job_fields(job: &Job, now: Timestamp) -> Fields {
    let spec = &job.spec;
    let state = job.state.state_type;
    let mut fields = Fields::default();
    fields
        .add("ID", job.id.to_string())
        .add("Name", &spec.name)
        .add("Namespace", &spec.namespace)
        .add("Type", spec.job_type.as_str())
        .add_some("Rerun of", spec.meta.get(RERUN_OF).cloned().unwrap_or_default())
        .add_toned("State", state.as_str(), job_tone(state))
        .add_some("Message", with_local_times(&job.state.message))
        .add_some(
            "Failed indexes",
            failed_indexes(&job.state.failed_indexes, job.state.failed_count),
        )
        .add("Count", spec.count.to_string())
        .add_some("Max running", limit(spec.max_running))
        .add_some("Concurrency groups", spec.concurrency_groups.join(", "))
        .add_some("On conflict", on_conflict(spec.on_conflict))
        .add("Priority", spec.priority.to_string())
        .add("Attempts", attempts(spec.retry_policy))
        .add_some("Max failed", max_failed(spec.max_failed))
        .add_some("After", spec.depends_on.iter().map(dependency).collect::<Vec<_>>().join(", "))
        .add_some("Labels", pairs(&spec.labels))
        .add_some("Meta", pairs(&own_meta(spec)))
        .add_some(
            "Constraints",
            spec.constraints.iter().map(constraint).collect::<Vec<_>>().join(", "),
        )
        .add("Version", format!("{}, revision {}", job.version, job.revision))
        .add("Created", time_and_age(job.create_time, now))
        .add("Changed", time_and_age(job.modify_time, now));
    for task in &spec.tasks {
        fields.section(format!("Task {}", task.name), |fields| task_fields(fields, task));
    }
    fields
}

/// `build (completed)`
fn dependency(dependency: &Dependency) -> String {
    format!("{} ({})", dependency.job, condition(dependency.condition, dependency.indexes))
}

/// `Meta` without the keys that the service adds to every job.
fn own_meta(spec: &JobSpec) -> BTreeMap<String, String> {
    let mut meta = spec.meta.clone();
    meta.retain(|key, _| !key.starts_with(SERVICE_META));
    meta
}

fn task_fields(fields: &mut Fields, task: &Task) {
    fields.add("Engine", task.engine.engine_type.as_str());
    for (key, value) in &task.engine.params {
        fields.add(key, plain(value));
    }
    fields
        .add_some("Env", pairs(&task.env))
        .add_some("Meta", pairs(&task.meta))
        .add_some("CPU", &task.resources.cpu)
        .add_some("Memory", &task.resources.memory)
        .add_some("Disk", &task.resources.disk)
        .add_some("GPU", &task.resources.gpu)
        .add("Network", network(task));
    for input in &task.input_sources {
        let kind = input.source.source_type;
        fields.add(format!("Input {}", input.target), params(kind.as_str(), &input.source.params));
    }
    for result in &task.result_paths {
        fields.add(format!("Result {}", result.name), &result.path);
    }
    let publisher = &task.publisher;
    fields
        .add_some("Publisher", params(publisher.publisher_type.as_str(), &publisher.params))
        .add_some("Timeouts", timeouts(&task.timeouts));
}

fn network(task: &Task) -> String {
    let kind = task.network.network_type.as_str();
    match task.network.domains.as_slice() {
        [] => kind.to_owned(),
        domains => format!("{kind} ({})", domains.join(", ")),
    }
}

fn health(health: &NodeHealth) -> String {
    let mut text = health.state.to_string();
    if !health.reason.is_empty() {
        text.push_str(": ");
        text.push_str(&with_local_times(&health.reason));
    }
    if !health.next_try.is_empty() {
        text.push_str("; next try at ");
        text.push_str(&local_text(&health.next_try));
    }
    text
}

fn timeouts(timeouts: &Timeouts) -> String {
    [
        ("execution", timeouts.execution_timeout),
        ("queue", timeouts.queue_timeout),
        ("total", timeouts.total_timeout),
        ("lost after", timeouts.lost_after),
    ]
    .iter()
    .filter(|(_, seconds)| *seconds > 0)
    .map(|(name, seconds)| format!("{name} {seconds} s"))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Empty without a limit.
fn limit(most: u32) -> String {
    if most == 0 { String::new() } else { most.to_string() }
}

fn attempts(policy: RetryPolicy) -> String {
    match policy.attempts {
        0 => format!("without limit, {} to {} s apart", policy.delay, policy.max_delay),
        1 => "1".to_owned(),
        attempts => format!("{attempts}, {} to {} s apart", policy.delay, policy.max_delay),
    }
}

/// `1,7-8 (3)`; empty if none failed, or the only one of most jobs.
pub(crate) fn failed_indexes(indexes: &str, count: u32) -> String {
    if matches!(indexes, "" | "0") { String::new() } else { format!("{indexes} ({count})") }
}

/// Empty if the first failure fails the job.
/// Nothing for a job that waits.
fn on_conflict(word: OnConflict) -> &'static str {
    if word.is_usual() { "" } else { word.as_str() }
}

fn max_failed(most: i32) -> String {
    match most {
        0 => String::new(),
        ..0 => "any number".to_owned(),
        most => most.to_string(),
    }
}

pub(super) fn constraint(constraint: &Constraint) -> String {
    constraint.requirement().map_or_else(|_| constraint.key.clone(), |test| test.to_string())
}

/// `Type (Key=value, …)`.
fn params(kind: &str, params: &Params) -> String {
    if params.is_empty() {
        return kind.to_owned();
    }
    let params: Vec<_> =
        params.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
    format!("{kind} ({})", params.join(", "))
}

fn pairs(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

/// Strings without quotes, everything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The local time, and its age.
fn time_and_age(moment: Timestamp, now: Timestamp) -> String {
    format!("{} ({} ago)", local(moment), age(now, moment))
}

fn reserved(node: &Node) -> String {
    match node.reserved_since.as_str() {
        "" => "no".to_owned(),
        since => format!("since {}, for a job that has waited for too long", local_text(since)),
    }
}

fn idle(node: &Node, now: Timestamp) -> String {
    match node.idle_since.as_str() {
        "" => String::new(),
        since => format!("since {} ({} ago)", local_text(since), age_of_text(now, since)),
    }
}

fn second_agent(node: &Node) -> String {
    let Some(RefusedAgent { machine, since }) = &node.refused_agent else { return String::new() };
    let since = local_text(since);
    format!("on {machine}, with a copy of the data directory; refused since {since}")
}

pub(crate) fn node_fields(node: &Node, now: Timestamp) -> Fields {
    let info = &node.compute_node_info;
    let (status, tone) = status(node);
    let mut fields = Fields::default();
    fields
        .add("ID", node.peer_info.id.to_string())
        .add("Name", name_of(node))
        .add("Type", node.node_type.as_str())
        .add_toned("Status", status, tone)
        .add("Membership", node.membership.as_str())
        .add("Connection", node.connection.as_str())
        .add("Eligibility", node.eligibility.as_str())
        .add("Health", health(&node.health))
        .add("Reserved", reserved(node))
        .add_some("Idle", idle(node, now))
        .add_some("Second agent", second_agent(node))
        .add("Seen", format!("{} ago", age_of_text(now, &node.last_heartbeat)))
        .add("Version", &node.service_version.git_version)
        .add("Addresses", words(&node.peer_info.addrs, ", "))
        .section("Labels", |fields| {
            for (key, value) in &node.labels {
                fields.add(key, value);
            }
        })
        .add("Engines", words(&info.execution_engines, ", "))
        .add("Publishers", words(&info.publishers, ", "))
        .add("Sources", words(&info.storage_sources, ", "))
        .add("Capacity", Resources::from(info.max_capacity).to_string())
        .add("Free", Resources::from(info.available_capacity).to_string())
        .add("Largest job", Resources::from(info.max_job_requirements).to_string())
        .add("Running", info.running_executions.to_string())
        .add("Enqueued", info.enqueued_executions.to_string());
    fields
}

pub(crate) fn execution_fields(execution: &Execution, node: &str, now: Timestamp) -> Fields {
    let state = execution.compute_state.state_type;
    let output = &execution.run_output;
    let held = execution.allocated_resources.tasks.values().next().copied();
    let id = |id: Option<ExecutionId>| id.map(|id| id.to_string()).unwrap_or_default();
    let mut fields = Fields::default();
    fields
        .add("ID", execution.id.to_string())
        .add("Name", &execution.name)
        .add("Namespace", &execution.namespace)
        .add("Job", execution.job_id.to_string())
        .add("Node", format!("{node} ({})", execution.node_id))
        .add_toned("State", execution_word(state), compute_tone(state))
        .add_some("Message", with_local_times(&execution.compute_state.message))
        .add("Exit code", exit_code(execution))
        .add_some(
            "Reserved",
            held.map(|held| Resources::from(held).to_string()).unwrap_or_default(),
        )
        .add_some("Used", usage::words(execution))
        .add_some("Left out", output.omitted.join("; "))
        .add_some("Retry of", id(execution.previous_execution))
        .add_some("Retried by", id(execution.next_execution))
        .add("Created", time_and_age(execution.create_time, now))
        .add("Changed", time_and_age(execution.modify_time, now));
    let published = &execution.published_result;
    fields.add_some("Result", params(published.publisher_type.as_str(), &published.params));
    for (stream, text) in [("Stdout", &output.stdout), ("Stderr", &output.stderr)] {
        fields.add_some(stream, text.trim_end());
    }
    fields
}
