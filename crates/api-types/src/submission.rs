//! A job as a user submits it: every field is optional here, and checked later.
//!
//! The orchestrator checks and normalises these types into a [`JobSpec`](crate::job::JobSpec).
//! Fields that are enums in the record are strings here, so that an unknown word is reported
//! together with every other mistake.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::Params;

/// The body of Create Job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateJobRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = JobSubmission))]
    pub job: Option<JobSubmission>,
}

/// The types of a submission. Braces after a field extend its OpenAPI schema; the orchestrator
/// performs the checks.
macro_rules! submission {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$fdoc:meta])* $wire:literal $field:ident: $type:ty $({ $($schema:tt)* })?,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(default)]
        pub struct $name {
            $($(#[$fdoc])* #[serde(rename = $wire, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(rename = $wire $(, $($schema)*)?))]
            pub $field: Option<$type>,)*
        }
    };
}

submission!(
    /// A job as it is submitted. Keys and the words of closed sets are case-insensitive. Unknown
    /// fields are ignored with a warning.
    JobSubmission {
        /// Used for service and daemon jobs, ignored with a warning for others.
        "ID" id: String,
        /// One line; when absent, the service generates one, such as `busybox-4f2a`.
        "Name" name: String { max_length = 255 },
        /// One word that is not `*`; `default` when absent.
        "Namespace" namespace: String { max_length = 128 },
        "Type" job_type: String { required = true, value_type = crate::job::JobType },
        /// Higher first; 50 when absent.
        "Priority" priority: i64 { minimum = 0, maximum = 100 },
        /// Executions; 0 and absent mean 1. Ignored with a warning above 1 for ops and daemon jobs.
        "Count" count: i64 { minimum = 0, maximum = 1000000 },
        /// Executions that may be live at the same time; 0 and absent mean no limit. Only for batch
        /// and ops jobs.
        "MaxRunning" max_running: i64 { minimum = 0, maximum = 1000000 },
        /// All must hold for the node's labels.
        "Constraints" constraints: Vec<ConstraintSubmission> { max_items = 64 },
        /// Stored without effect; keys under `service.org/` are reserved for the service.
        "Meta" meta: BTreeMap<String, String>,
        /// Labels by which jobs can be selected.
        "Labels" labels: BTreeMap<String, String>,
        "RetryPolicy" retry_policy: RetryPolicySubmission,
        /// For batch and ops jobs: how many indexes may fail before the job does; 0 when absent, -1
        /// for any number.
        "MaxFailed" max_failed: i64 { minimum = -1, maximum = 1000000 },
        /// For batch and ops jobs: concurrency groups of the namespace.
        "ConcurrencyGroups" concurrency_groups: Vec<String> { max_items = 8 },
        /// What the job does to those before it in its group, which needs Limit 1 to replace them;
        /// `Queue` when absent.
        "OnConflict" on_conflict: String { value_type = crate::job::OnConflict },
        /// What has to become of other jobs before anything of the job starts; all must hold.
        "DependsOn" depends_on: Vec<DependencySubmission> { max_items = 20 },
        /// Exactly one.
        "Tasks" tasks: Vec<TaskSubmission>
            { required = true, value_type = Vec<TaskSubmission>, min_items = 1, max_items = 1 },
        /// Ignored with a warning.
        "State" state: Value,
        /// Ignored with a warning.
        "Version" version: Value,
        /// Ignored with a warning.
        "Revision" revision: Value,
        /// Ignored with a warning.
        "CreateTime" create_time: Value,
        /// Ignored with a warning.
        "ModifyTime" modify_time: Value,
    }
);

submission!(
    /// A job that the job waits for: a batch or ops job of the same namespace.
    DependencySubmission {
        "JobID" job_id: String { value_type = crate::id::JobId },
        /// In a graph: the name of another job of the graph, in place of `JobID`.
        "Job" job: String,
        /// `Completed` when absent.
        "Condition" condition: String { value_type = crate::dependency::Condition },
        /// `Same`, for a batch job that depends on one with the same indexes: each index waits for
        /// that of the other job only. `All` when absent.
        "Indexes" indexes: String { value_type = crate::dependency::Indexes },
    }
);

submission!(
    /// A condition on a node's labels.
    ConstraintSubmission {
        "Key" key: String { required = true, value_type = String, min_length = 1 },
        "Operator" operator: String
            { required = true, value_type = crate::openapi::schema::ConstraintOperator },
        /// `in` and `notin` take at least one value, `exists` and `!` none, the others exactly one,
        /// which is an integer for `gt` and `lt`.
        "Values" values: Vec<String> { max_items = 256 },
    }
);

submission!(
    /// How often and how soon a failed run is retried.
    RetryPolicySubmission {
        /// Total per execution slot; 0 means no limit. Default: 1 for batch and ops jobs, 0 for
        /// service and daemon jobs.
        "Attempts" attempts: i64 { minimum = 0, maximum = 1000000 },
        /// Seconds before the first retry, doubled with each retry; 1 when absent.
        "Delay" delay: i64 { minimum = 0, maximum = 86400 },
        /// Upper limit of the delay in seconds; 60 when absent.
        "MaxDelay" max_delay: i64 { minimum = 0, maximum = 86400 },
    }
);

submission!(
    /// A task.
    TaskSubmission {
        "Name" name: String { required = true, value_type = String, min_length = 1, max_length = 255 },
        "Engine" engine: TypedSubmission
            { required = true, value_type = crate::openapi::schema::EngineSubmission },
        "Publisher" publisher: TypedSubmission
            { value_type = Option<crate::openapi::schema::PublisherSubmission> },
        /// Environment variables.
        "Env" env: BTreeMap<String, String>,
        /// Secrets of the job's namespace that the task receives when it starts.
        "Secrets" secrets: Vec<TaskSecretSubmission> { max_items = 64 },
        /// Stored without effect.
        "Meta" meta: BTreeMap<String, String>,
        "InputSources" input_sources: Vec<InputSourceSubmission> { max_items = 64 },
        "ResultPaths" result_paths: Vec<ResultPathSubmission> { max_items = 64 },
        /// Resources that the task needs; the node's default for those that are absent.
        "Resources" resources: ResourcesSubmission,
        /// Another name of `Resources`; if both are present, they must be equal.
        "ResourcesConfig" resources_config: ResourcesSubmission,
        "Network" network: NetworkSubmission,
        "Timeouts" timeouts: TimeoutsSubmission,
    }
);

submission!(
    /// A secret, by its name, and where the task finds it: in a file or in a variable.
    TaskSecretSubmission {
        "Name" name: String { required = true, value_type = String, min_length = 1, max_length = 63 },
        /// Absolute path of the file; `/run/secrets/NAME` when neither is given.
        "Path" path: String { max_length = 4095 },
        /// Name of the environment variable. Prefer a file: variables are visible to everybody who
        /// may inspect containers on the node.
        "Env" env: String { max_length = 256 },
    }
);

submission!(
    /// An engine, a publisher or a source.
    TypedSubmission {
        "Type" kind: String,
        "Params" params: Params { value_type = Option<Object> },
    }
);

submission!(
    /// Data that the task finds when it starts.
    InputSourceSubmission {
        "Source" source: TypedSubmission
            { required = true, value_type = crate::openapi::schema::SourceSubmission },
        /// Absolute path of the input inside the task; unique, and not the root.
        "Target" target: String
            { required = true, value_type = String, pattern = "^/", max_length = 4095 },
        /// The file name when `Target` ends with `/`.
        "Alias" alias: String { pattern = "^[^/]*$", max_length = 255 },
    }
);

submission!(
    /// A directory or file of the task to publish.
    ResultPathSubmission {
        /// Its directory in the archive: unique, and not `stdout`, `stderr` or `exitCode`.
        "Name" name: String
            { required = true, value_type = String, pattern = "^[^/]+$", max_length = 255 },
        /// Absolute path inside the task.
        "Path" path: String
            { required = true, value_type = String, pattern = "^/", max_length = 4095 },
    }
);

submission!(
    /// Requested resources; an empty string is the same as an absent field.
    ResourcesSubmission {
        /// Cores (`0.5`, `2`) or millicores (`500m`), above zero.
        "CPU" cpu: String { pattern = r"^\s*(([0-9]+\.?[0-9]*|\.[0-9]+)m?)?\s*$" },
        /// A number with an optional unit (`512MB`, `1Gi`; default: bytes), above zero.
        "Memory" memory: String
            { pattern = r"^\s*(([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kKmMgGtT][iI]?)?[bB]?)?\s*$" },
        /// Like `Memory`; may be zero.
        "Disk" disk: String
            { pattern = r"^\s*(([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kKmMgGtT][iI]?)?[bB]?)?\s*$" },
        /// A whole number of devices, at most 1,024.
        "GPU" gpu: String { pattern = r"^\s*[0-9]*\s*$" },
    }
);

submission!(
    /// Network access of a task; none when absent.
    NetworkSubmission {
        "Type" network_type: String { value_type = Option<crate::engine::NetworkType> },
        /// Only for `HTTP`, which requires at least one.
        "Domains" domains: Vec<String> { max_items = 256 },
    }
);

submission!(
    /// Whole seconds; 0 and absent mean no timeout.
    TimeoutsSubmission {
        /// From the start of the task's process.
        "ExecutionTimeout" execution_timeout: i64 { minimum = 0, maximum = 3153600000_u32 },
        /// How long an execution may wait to be placed.
        "QueueTimeout" queue_timeout: i64 { minimum = 0, maximum = 3153600000_u32 },
        /// From the job's creation to its end.
        "TotalTimeout" total_timeout: i64 { minimum = 0, maximum = 3153600000_u32 },
        /// How long the service waits for the executions of a silent node before it replaces them;
        /// 0 leaves it to the service.
        "LostAfter" lost_after: i64 { minimum = 0, maximum = 604800 },
    }
);
