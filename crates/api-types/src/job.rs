//! The job as the service keeps and answers it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::engine::{EngineSpec, NetworkType, PublisherSpec, UnknownWord, words};
use crate::id::{EvaluationId, JobId};
use crate::selector::{Requirement, Test};
use crate::source::{InputSource, ResultPath};
use crate::time::Timestamp;

/// The namespace of a job that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

words!(
    /// How many executions a job has, and when it is done.
    JobType, "a job type", {
        /// Count executions, each to be completed.
        Batch = "batch",
        /// One execution on every matching node, when the job is first placed.
        Ops = "ops",
        /// Keeps Count executions running.
        Service = "service",
        /// Keeps one running on every matching node, nodes that join later included.
        Daemon = "daemon",
    }
);

words!(
    /// Where a job stands; the last three are terminal.
    JobStateType, "a job state", {
        /// Accepted; no execution has started yet.
        Pending = "Pending",
        /// Waits for room; the message says for what.
        Queued = "Queued",
        Running = "Running",
        Completed = "Completed",
        Failed = "Failed",
        Stopped = "Stopped",
    }
);

impl JobStateType {
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Queued | Self::Running => false,
            Self::Completed | Self::Failed | Self::Stopped => true,
        }
    }
}

impl JobType {
    /// Whether the job ends by itself; the others run until they are stopped.
    pub const fn is_finite(self) -> bool {
        match self {
            Self::Batch | Self::Ops => true,
            Self::Service | Self::Daemon => false,
        }
    }
}

/// A job record: what was asked, and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    #[serde(rename = "ID")]
    pub id: JobId,
    #[serde(flatten)]
    pub spec: JobSpec,
    #[serde(rename = "State")]
    pub state: JobState,
    /// Counts changes of the specification, from 1.
    #[serde(rename = "Version")]
    pub version: u64,
    /// Counts changes of the record, from 1.
    #[serde(rename = "Revision")]
    pub revision: u64,
    #[serde(rename = "CreateTime")]
    pub create_time: Timestamp,
    #[serde(rename = "ModifyTime")]
    pub modify_time: Timestamp,
}

/// What was asked, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct JobSpec {
    pub name: String,
    pub namespace: String,
    #[serde(rename = "Type")]
    pub job_type: JobType,
    /// 0 to 100, higher first.
    pub priority: u32,
    pub count: u32,
    pub constraints: Vec<Constraint>,
    pub meta: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub retry_policy: RetryPolicy,
    /// Exactly one.
    pub tasks: Vec<Task>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct JobState {
    pub state_type: JobStateType,
    pub message: String,
}

/// How often and how soon a failed run is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RetryPolicy {
    /// Attempts in all per execution slot; 0 means without limit.
    pub attempts: u32,
    /// Seconds before the first retry; doubles from retry to retry.
    pub delay: u32,
    /// Seconds at which the doubling ends.
    pub max_delay: u32,
}

/// A condition on a node's labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Constraint {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Task {
    pub name: String,
    pub engine: EngineSpec,
    pub publisher: PublisherSpec,
    pub env: BTreeMap<String, String>,
    pub meta: BTreeMap<String, String>,
    pub input_sources: Vec<InputSource>,
    pub result_paths: Vec<ResultPath>,
    pub resources: TaskResources,
    pub network: NetworkSpec,
    pub timeouts: Timeouts,
}

/// Resources as a person wrote them; empty where nothing was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct TaskResources {
    #[serde(rename = "CPU")]
    pub cpu: String,
    #[serde(rename = "Memory")]
    pub memory: String,
    #[serde(rename = "Disk")]
    pub disk: String,
    #[serde(rename = "GPU")]
    pub gpu: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NetworkSpec {
    #[serde(rename = "Type")]
    pub network_type: NetworkType,
    /// Only for `HTTP`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

/// Whole seconds; 0 means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct Timeouts {
    /// From the start of the task's process.
    pub execution_timeout: u64,
    /// How long an execution may wait to be placed.
    pub queue_timeout: u64,
    /// From the job's creation to its end.
    pub total_timeout: u64,
}

/// Answer to Describe Job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeJob {
    pub job: Job,
}

/// Answer to List Jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListJobs {
    pub jobs: Vec<Job>,
    pub next_token: String,
}

/// Answer to Create Job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateJob {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "EvaluationID")]
    pub evaluation_id: EvaluationId,
    #[serde(rename = "Warnings", default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Answer to Stop Job; no evaluation when the job was stopped already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StopJob {
    #[serde(rename = "EvaluationID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::EvaluationIdOrEmpty))]
    pub evaluation_id: Option<EvaluationId>,
}

/// Answer to Create Job with `dry_run=true`: nothing was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DryRun {
    /// The job as it would be stored.
    pub job: Job,
    pub nodes: Vec<DryRunNode>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What a dry run says of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DryRunNode {
    #[serde(rename = "NodeID")]
    pub node_id: crate::id::NodeId,
    /// Whether an execution would be placed on it now.
    #[serde(rename = "Chosen")]
    pub chosen: bool,
    /// Why not, or how many executions it would get.
    #[serde(rename = "Reason")]
    pub reason: String,
}

// === impl RetryPolicy ===

impl RetryPolicy {
    /// What a job of this type has when it says nothing.
    pub const fn default_for(job_type: JobType) -> Self {
        let attempts = if job_type.is_finite() { 1 } else { 0 };
        Self { attempts, delay: 1, max_delay: 60 }
    }
}

// === impl Constraint ===

/// The operators of a constraint.
pub const OPERATORS: &[&str] = &["in", "notin", "exists", "!", "=", "==", "!=", "gt", "lt"];

impl Constraint {
    /// The test on a node's labels, or why this is not one.
    pub fn requirement(&self) -> Result<Requirement, String> {
        let values = &self.values;
        let one = || match values.as_slice() {
            [value] => Ok(value.clone()),
            _ => Err(format!(
                "operator '{}' takes exactly one value, {} came",
                self.operator,
                values.len()
            )),
        };
        let some = || match values.len() {
            0 => Err(format!("operator '{}' takes at least one value", self.operator)),
            _ => Ok(values.clone()),
        };
        let integer = || {
            let text = one()?;
            text.parse::<i64>().map_err(|_| {
                format!("operator '{}' takes an integer, '{text}' came", self.operator)
            })
        };
        let test = match self.operator.to_ascii_lowercase().as_str() {
            "in" => Test::In(some()?),
            "notin" => Test::NotIn(some()?),
            "=" | "==" => Test::In(vec![one()?]),
            "!=" => Test::NotIn(vec![one()?]),
            "gt" => Test::Greater(integer()?),
            "lt" => Test::Less(integer()?),
            "exists" | "!" if !values.is_empty() => {
                return Err(format!("operator '{}' takes no values", self.operator));
            }
            "exists" => Test::Exists,
            "!" => Test::Absent,
            other => {
                return Err(format!(
                    "'{other}' is not an operator; known: {}",
                    OPERATORS.join(", ")
                ));
            }
        };
        Ok(Requirement { key: self.key.clone(), test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint(operator: &str, values: &[&str]) -> Constraint {
        Constraint {
            key: "zone".to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    #[test]
    fn a_constraint_becomes_a_test_on_labels() {
        assert_eq!(
            constraint("in", &["a", "b"]).requirement().unwrap().to_string(),
            "zone in (a,b)"
        );
        assert_eq!(constraint("!", &[]).requirement().unwrap().to_string(), "!zone");
        assert_eq!(constraint("gt", &["3"]).requirement().unwrap().to_string(), "zone>3");
    }

    #[test]
    fn a_constraint_with_the_wrong_values_says_what_it_takes() {
        for (operator, values, reason) in [
            ("in", &[][..], "operator 'in' takes at least one value"),
            ("=", &["a", "b"], "operator '=' takes exactly one value, 2 came"),
            ("exists", &["a"], "operator 'exists' takes no values"),
            ("lt", &["a"], "operator 'lt' takes an integer, 'a' came"),
            (
                "like",
                &["a"],
                "'like' is not an operator; known: in, notin, exists, !, =, ==, !=, gt, lt",
            ),
        ] {
            assert_eq!(constraint(operator, values).requirement().unwrap_err(), reason);
        }
    }
}
