//! A job as a person submits it: everything may be left out, and what is missing is told.
//!
//! These types only carry what came; the orchestrator checks and normalises them into a
//! [`JobSpec`](crate::job::JobSpec). Texts stand where the record has enums, so that an unknown
//! word is reported together with every other mistake.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::Params;

/// The body of Create Job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateJobRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobSubmission>,
}

macro_rules! submission {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $wire:literal $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$fdoc])* #[serde(rename = $wire, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,)*
        }
    };
}

submission!(JobSubmission {
    "ID" id: String,
    "Name" name: String,
    "Namespace" namespace: String,
    "Type" job_type: String,
    "Priority" priority: i64,
    "Count" count: i64,
    "Constraints" constraints: Vec<ConstraintSubmission>,
    "Meta" meta: BTreeMap<String, String>,
    "Labels" labels: BTreeMap<String, String>,
    "RetryPolicy" retry_policy: RetryPolicySubmission,
    "Tasks" tasks: Vec<TaskSubmission>,
    /// Ignored with a warning, like the four below.
    "State" state: Value,
    "Version" version: Value,
    "Revision" revision: Value,
    "CreateTime" create_time: Value,
    "ModifyTime" modify_time: Value,
});

submission!(ConstraintSubmission {
    "Key" key: String,
    "Operator" operator: String,
    "Values" values: Vec<String>,
});

submission!(RetryPolicySubmission {
    "Attempts" attempts: i64,
    "Delay" delay: i64,
    "MaxDelay" max_delay: i64,
});

submission!(TaskSubmission {
    "Name" name: String,
    "Engine" engine: TypedSubmission,
    "Publisher" publisher: TypedSubmission,
    "Env" env: BTreeMap<String, String>,
    "Meta" meta: BTreeMap<String, String>,
    "InputSources" input_sources: Vec<InputSourceSubmission>,
    "ResultPaths" result_paths: Vec<ResultPathSubmission>,
    "Resources" resources: ResourcesSubmission,
    "ResourcesConfig" resources_config: ResourcesSubmission,
    "Network" network: NetworkSubmission,
    "Timeouts" timeouts: TimeoutsSubmission,
});

submission!(
    /// An engine, a publisher or a source.
    TypedSubmission {
        "Type" kind: String,
        "Params" params: Params,
    }
);

submission!(InputSourceSubmission {
    "Source" source: TypedSubmission,
    "Target" target: String,
    "Alias" alias: String,
});

submission!(ResultPathSubmission {
    "Name" name: String,
    "Path" path: String,
});

submission!(ResourcesSubmission {
    "CPU" cpu: String,
    "Memory" memory: String,
    "Disk" disk: String,
    "GPU" gpu: String,
});

submission!(NetworkSubmission {
    "Type" network_type: String,
    "Domains" domains: Vec<String>,
});

submission!(TimeoutsSubmission {
    "ExecutionTimeout" execution_timeout: i64,
    "QueueTimeout" queue_timeout: i64,
    "TotalTimeout" total_timeout: i64,
});
