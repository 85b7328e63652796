//! The environment variables that every task gets.

use std::collections::BTreeMap;

use api_types::protocol::Work;
use api_types::quantity::{Resources, parse_cpu_millis};
use api_types::{ExecutionId, NodeId};

/// By which common runtimes of programs learn how many threads to start. They count the machine's
/// cores otherwise.
pub(crate) const THREADS: [&str; 2] = ["GOMAXPROCS", "OMP_NUM_THREADS"];

/// `SERVICE_…`; `docs/api.md`, "Environment of a task".
pub(crate) fn of_service(
    id: ExecutionId,
    node_id: NodeId,
    work: &Work,
) -> BTreeMap<String, String> {
    let Resources { cpu_millis, memory_bytes, .. } = work.resources.into();
    let cores =
        (cpu_millis > 0).then(|| (cpu_millis.min(machine_millis()) as f64 / 1000.0).to_string());
    let memory = (memory_bytes > 0).then(|| memory_bytes.to_string());
    [
        ("JOB_ID", Some(work.job_id.to_string())),
        ("JOB_NAME", Some(work.job_name.clone())),
        ("JOB_TYPE", Some(work.job_type.to_string())),
        ("EXECUTION_ID", Some(id.to_string())),
        ("EXECUTION_INDEX", Some(work.index.to_string())),
        ("EXECUTION_COUNT", Some(work.count.to_string())),
        ("NODE_ID", Some(node_id.to_string())),
        ("CPU", cores),
        ("MEMORY", memory),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((format!("SERVICE_{name}"), value?)))
    .collect()
}

/// [`THREADS`], for a job that asks for whole cores.
pub(crate) fn of_threads(work: &Work) -> impl Iterator<Item = (&'static str, String)> {
    let asked = parse_cpu_millis(&work.task.resources.cpu).unwrap_or(0);
    let asked = asked.min(machine_millis());
    let cores = (asked > 0 && asked.is_multiple_of(1000)).then(|| (asked / 1000).to_string());
    THREADS.into_iter().filter_map(move |name| Some((name, cores.clone()?)))
}

/// The cores of this machine, which a configured capacity may exceed.
pub(crate) fn machine_millis() -> u64 {
    std::thread::available_parallelism()
        .map_or(u64::MAX, |cores| (cores.get() as u64).saturating_mul(1000))
}
