//! The environment variables that every task gets.

use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId};

/// `SERVICE_…`; `docs/api.md`, "Environment of a task".
pub(crate) fn of_service(id: ExecutionId, node_id: NodeId, work: &Work) -> [(String, String); 7] {
    [
        ("JOB_ID", work.job_id.to_string()),
        ("JOB_NAME", work.job_name.clone()),
        ("JOB_TYPE", work.job_type.to_string()),
        ("EXECUTION_ID", id.to_string()),
        ("EXECUTION_INDEX", work.index.to_string()),
        ("EXECUTION_COUNT", work.count.to_string()),
        ("NODE_ID", node_id.to_string()),
    ]
    .map(|(name, value)| (format!("SERVICE_{name}"), value))
}
