//! What a submitted job asks for that the quota of its namespace never allows.

use api_types::error::FieldError;
use api_types::job::{JobSpec, JobType};
use api_types::quantity::{Bytes, Millis};
use scheduler::demand::Demand;

use crate::namespaces::StoredNamespace;

/// What would make the job wait until the quota is raised. The scheduler checks the number of
/// executions that wait when it takes the job. What a task leaves to its node is not known here.
pub(crate) fn check(namespace: &StoredNamespace, spec: &JobSpec) -> Vec<FieldError> {
    let quota = &namespace.quota;
    let Ok(amounts) = quota.amounts() else { return Vec::new() };
    let mut problems = Vec::new();
    let mut check = |path: &str, asked: Option<u64>, most: Option<u64>, text: fn(u64) -> String| {
        let Some((asked, most)) = asked.zip(most).filter(|(asked, most)| asked > most) else {
            return;
        };
        let reason = format!(
            "must be at most {}, the quota of namespace '{}', got {}",
            text(most),
            spec.namespace,
            text(asked)
        );
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    let count = match spec.job_type {
        JobType::Batch | JobType::Service => Some(u64::from(spec.count)),
        JobType::Ops | JobType::Daemon => None,
    };
    check("Count", count, quota.queued_executions.map(u64::from), |it| it.to_string());
    if let Ok(Demand { need, .. }) = Demand::from_spec(spec) {
        let path = |name: &str| format!("Tasks[0].Resources.{name}");
        check(&path("CPU"), need.cpu_millis, amounts.cpu_millis, |it| Millis(it).to_string());
        check(&path("Memory"), need.memory_bytes, amounts.memory_bytes, |it| Bytes(it).to_string());
        check(&path("GPU"), Some(need.gpus), amounts.gpus, |it| it.to_string());
    }
    problems
}
