//! What scheduling needs of a specification, and how that is stored with it.
//!
//! A specification may hold megabytes of inline input; its plan is at most about a hundred bytes. A
//! start reads the plans of all live jobs, and no specification. The stored form is a JSON object
//! with short names that leaves out what is [usual](Usual), and says its format: a release that does
//! not know it derives the plan from the specification, as it does for a job without one.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::engine::{EngineType, PublisherType};
use api_types::job::{JobSpec, JobType, OnConflict, RetryPolicy, Task, Timeouts};
use api_types::rerun;
use api_types::selector::{Requirement, Test};
use api_types::source::SourceType;
use api_types::{JobId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::demand::{Demand, Fit, InvalidDemand, Need};
use crate::rank::Rank;
use crate::time::Moment;

/// The format of a stored plan whose slots wait for those of another job one by one. Increment it
/// when an older release would misread a newer plan.
const FORMAT: u32 = 4;

/// The format of one with another gate, a tolerance or the count of another job.
const GATED_FORMAT: u32 = 3;

/// The format of every other plan.
const PLAIN_FORMAT: u32 = 2;

/// The first format, which left out less.
const FIRST_FORMAT: u32 = 1;

/// What a stored plan leaves out. These are the defaults of most jobs, but part of the format: a
/// change of a default must not change what is stored.
struct Usual;

/// The parts of a specification that scheduling needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPlan {
    pub(crate) job_type: JobType,
    pub(crate) priority: u32,
    pub(crate) namespace: String,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeouts: Timeouts,
    /// Whether the task names secrets or credentials of its namespace.
    pub(crate) names_secrets: bool,
    /// Executions that may be live at the same time; 0 for no limit.
    pub(crate) max_running: u32,
    /// How many slots may fail before the job does; -1 for any number.
    pub(crate) max_failed: i32,
    /// The concurrency groups that it names.
    pub(crate) groups: Vec<String>,
    /// Whether it stops the jobs that came before it in its group.
    pub(crate) replaces: bool,
    /// What has to become of other jobs before anything of the job starts.
    pub(crate) depends_on: Vec<Dependency>,
    /// The number of slots that a job is told which runs some slots of another one; 0 for its own.
    pub(crate) told_count: u32,
    pub(crate) demand: Demand,
}

/// What scheduling knows of a live job's specification, apart from its demand.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) job_type: JobType,
    pub(crate) rank: Rank,
    /// Wall time, for display only.
    pub(crate) create_time: Timestamp,
    /// One text for all jobs of a class.
    pub(crate) namespace: Arc<str>,
    /// Whether the task names secrets or credentials of the namespace.
    pub(crate) names_secrets: bool,
    pub(crate) retry: RetryPolicy,
    timeouts: Timeouts,
}

/// A specification that validation should have refused, or that is damaged.
#[derive(Debug, thiserror::Error)]
pub enum Unplannable {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Demand(#[from] InvalidDemand),
}

/// A stored plan that this release cannot read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadablePlan {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("its format is {0}")]
    Format(u32),
    #[error("'{0}' is not a test of a label")]
    Test(String),
}

/// [`JobPlan`] as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    #[serde(rename = "V")]
    format: u32,
    #[serde(rename = "T", default, skip_serializing_if = "Option::is_none")]
    job_type: Option<JobType>,
    #[serde(rename = "P", default, skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    #[serde(rename = "N", borrow, default, skip_serializing_if = "Option::is_none")]
    namespace: Option<Cow<'a, str>>,
    /// Attempts, delay, longest delay.
    #[serde(rename = "R", default, skip_serializing_if = "Option::is_none")]
    retry: Option<[u32; 3]>,
    /// Execution, queue, total, lost after.
    #[serde(rename = "O", default, skip_serializing_if = "is_default")]
    timeouts: [u64; 4],
    #[serde(rename = "S", default, skip_serializing_if = "is_default")]
    names_secrets: bool,
    #[serde(rename = "X", default, skip_serializing_if = "is_default")]
    max_running: u32,
    #[serde(rename = "F", default, skip_serializing_if = "is_default")]
    max_failed: i32,
    #[serde(rename = "Y", borrow, default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Cow<'a, str>>,
    #[serde(rename = "W", default, skip_serializing_if = "is_default")]
    replaces: bool,
    #[serde(rename = "A", default, skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<StoredDependency>,
    #[serde(rename = "K", default, skip_serializing_if = "is_default")]
    told_count: u32,
    #[serde(rename = "E")]
    engine: EngineType,
    #[serde(rename = "U", default, skip_serializing_if = "Option::is_none")]
    publisher: Option<PublisherType>,
    #[serde(rename = "I", default, skip_serializing_if = "Vec::is_empty")]
    sources: Vec<SourceType>,
    #[serde(rename = "L", default, skip_serializing_if = "Vec::is_empty")]
    constraints: Vec<StoredRequirement>,
    #[serde(rename = "C", default, skip_serializing_if = "is_default")]
    cpu_millis: Option<u64>,
    #[serde(rename = "M", default, skip_serializing_if = "is_default")]
    memory_bytes: Option<u64>,
    #[serde(rename = "D", default, skip_serializing_if = "is_default")]
    disk_bytes: u64,
    #[serde(rename = "G", default, skip_serializing_if = "is_default")]
    gpus: u64,
}

/// A job, the condition on it, its name, and whether each slot waits for the same one there.
#[derive(Serialize, Deserialize)]
struct StoredDependency(
    JobId,
    Condition,
    String,
    #[serde(default, skip_serializing_if = "is_default")] bool,
);

/// The key of a label, the word of a test, and the values of the test.
#[derive(Serialize, Deserialize)]
struct StoredRequirement(String, String, Vec<String>);

// === impl JobPlan ===

impl JobPlan {
    pub fn from_spec(spec: &JobSpec) -> Result<Self, InvalidDemand> {
        let task = spec.tasks.first().ok_or(InvalidDemand::NoTask)?;
        let names_some = |task: &Task| !task.secrets.is_empty() || !task.credentials().is_empty();
        Ok(Self {
            job_type: spec.job_type,
            priority: spec.priority,
            namespace: spec.namespace.clone(),
            retry: spec.retry_policy,
            timeouts: task.timeouts,
            names_secrets: spec.tasks.iter().any(names_some),
            max_running: spec.max_running,
            max_failed: spec.max_failed,
            groups: spec.concurrency_groups.clone(),
            replaces: spec.on_conflict == OnConflict::Replace,
            depends_on: spec.depends_on.clone(),
            told_count: rerun::told_count(&spec.meta),
            demand: Demand::from_spec(spec)?,
        })
    }

    /// The plan of the specification that this is the JSON of.
    pub fn of_json(spec: &str) -> Result<Self, Unplannable> {
        let spec: JobSpec = serde_json::from_str(spec)?;
        Ok(Self::from_spec(&spec)?)
    }

    /// The stored form.
    pub fn to_text(&self) -> String {
        let Self { job_type, priority, namespace, retry, timeouts, .. } = self;
        let Self { names_secrets, max_running, max_failed, groups, replaces, .. } = self;
        let Self { depends_on, told_count, demand, .. } = self;
        let Demand { fit, need } = demand;
        let Fit { engine, publisher, sources, constraints } = fit;
        let Need { cpu_millis, memory_bytes, disk_bytes, gpus } = *need;
        let RetryPolicy { attempts, delay, max_delay } = *retry;
        let Timeouts { execution_timeout, queue_timeout, total_timeout, lost_after } = *timeouts;
        let is_ungated = groups.is_empty() && depends_on.is_empty();
        let is_plain = *max_running == 0 && *max_failed == 0 && is_ungated && *told_count == 0;
        let stored = Stored {
            format: match depends_on.iter().any(|dependency| !dependency.indexes.is_all()) {
                true => FORMAT,
                false if is_plain => PLAIN_FORMAT,
                false => GATED_FORMAT,
            },
            job_type: unless(*job_type, &Usual::JOB_TYPE),
            priority: unless(*priority, &Usual::PRIORITY),
            namespace: unless(namespace.as_str(), &Usual::NAMESPACE).map(Cow::Borrowed),
            retry: unless([attempts, delay, max_delay], &Usual::RETRY),
            timeouts: [execution_timeout, queue_timeout, total_timeout, lost_after],
            names_secrets: *names_secrets,
            max_running: *max_running,
            max_failed: *max_failed,
            groups: groups.iter().map(|name| Cow::Borrowed(name.as_str())).collect(),
            replaces: *replaces,
            depends_on: depends_on.iter().map(StoredDependency::new).collect(),
            told_count: *told_count,
            engine: *engine,
            publisher: unless(*publisher, &Usual::PUBLISHER),
            sources: sources.clone(),
            constraints: constraints.iter().map(StoredRequirement::new).collect(),
            cpu_millis,
            memory_bytes,
            disk_bytes,
            gpus,
        };
        serde_json::to_string(&stored).expect("a plan is plain data")
    }

    /// Reads the stored form.
    pub fn from_text(text: &str) -> Result<Self, UnreadablePlan> {
        let stored: Stored<'_> = serde_json::from_str(text)?;
        if !(FIRST_FORMAT..=FORMAT).contains(&stored.format) {
            return Err(UnreadablePlan::Format(stored.format));
        }
        let [attempts, delay, max_delay] = stored.retry.unwrap_or(Usual::RETRY);
        let [execution_timeout, queue_timeout, total_timeout, lost_after] = stored.timeouts;
        let constraints = stored.constraints.into_iter().map(StoredRequirement::read);
        let fit = Fit {
            engine: stored.engine,
            publisher: stored.publisher.unwrap_or(Usual::PUBLISHER),
            sources: stored.sources,
            constraints: constraints.collect::<Result<_, _>>()?,
        };
        let need = Need {
            cpu_millis: stored.cpu_millis,
            memory_bytes: stored.memory_bytes,
            disk_bytes: stored.disk_bytes,
            gpus: stored.gpus,
        };
        Ok(Self {
            job_type: stored.job_type.unwrap_or(Usual::JOB_TYPE),
            priority: stored.priority.unwrap_or(Usual::PRIORITY),
            namespace: stored.namespace.as_deref().unwrap_or(Usual::NAMESPACE).into(),
            retry: RetryPolicy { attempts, delay, max_delay },
            timeouts: Timeouts { execution_timeout, queue_timeout, total_timeout, lost_after },
            names_secrets: stored.names_secrets,
            max_running: stored.max_running,
            max_failed: stored.max_failed,
            groups: stored.groups.into_iter().map(Cow::into_owned).collect(),
            replaces: stored.replaces,
            depends_on: stored.depends_on.into_iter().map(StoredDependency::read).collect(),
            told_count: stored.told_count,
            demand: Demand { fit, need },
        })
    }
}

// === impl Usual ===

impl Usual {
    const JOB_TYPE: JobType = JobType::Batch;
    const PRIORITY: u32 = 50;
    const NAMESPACE: &'static str = "default";
    const RETRY: [u32; 3] = [1, 1, 60];
    const PUBLISHER: PublisherType = PublisherType::None;
}

// === impl Plan ===

impl Plan {
    pub(crate) fn new(
        plan: &JobPlan,
        namespace: Arc<str>,
        job: JobId,
        create_time: Timestamp,
        created: Moment,
    ) -> Self {
        let JobPlan { job_type, priority, retry, timeouts, names_secrets, .. } = *plan;
        Self {
            job_type,
            rank: Rank { priority: Reverse(priority), created, job },
            create_time,
            namespace,
            names_secrets,
            retry,
            timeouts,
        }
    }

    /// The longest that a run of the job takes, if its specification bounds it.
    pub(crate) fn longest_run(&self) -> Option<Duration> {
        bound(self.timeouts.execution_timeout).filter(|_| self.job_type.is_finite())
    }

    pub(crate) fn queue_timeout(&self) -> Option<Duration> {
        bound(self.timeouts.queue_timeout)
    }

    pub(crate) fn total_timeout(&self) -> Option<Duration> {
        bound(self.timeouts.total_timeout)
    }

    /// How long a node may be silent before its executions are replaced, if the job sets it.
    pub(crate) fn lost_after(&self) -> Option<Duration> {
        bound(self.timeouts.lost_after)
    }

    /// Whether the job has one slot per node rather than a count.
    pub(crate) fn is_per_node(&self) -> bool {
        match self.job_type {
            JobType::Batch | JobType::Service => false,
            JobType::Ops | JobType::Daemon => true,
        }
    }
}

// === impl StoredDependency ===

impl StoredDependency {
    fn new(dependency: &Dependency) -> Self {
        let Dependency { job_id, job, condition, indexes } = dependency;
        Self(*job_id, *condition, job.clone(), *indexes == Indexes::Same)
    }

    fn read(self) -> Dependency {
        let Self(job_id, condition, job, is_same) = self;
        let indexes = if is_same { Indexes::Same } else { Indexes::All };
        Dependency { job_id, job, condition, indexes }
    }
}

// === impl StoredRequirement ===

impl StoredRequirement {
    fn new(requirement: &Requirement) -> Self {
        let Requirement { key, test } = requirement;
        let (word, values) = match test {
            Test::Exists => ("exists", Vec::new()),
            Test::Absent => ("absent", Vec::new()),
            Test::In(values) => ("in", values.clone()),
            Test::NotIn(values) => ("notin", values.clone()),
            Test::Greater(bound) => ("gt", [bound.to_string()].into()),
            Test::Less(bound) => ("lt", [bound.to_string()].into()),
        };
        Self(key.clone(), word.into(), values)
    }

    fn read(self) -> Result<Requirement, UnreadablePlan> {
        let Self(key, word, values) = self;
        let bound = || values.first().and_then(|bound| bound.parse().ok());
        let test = match word.as_str() {
            "exists" => Some(Test::Exists),
            "absent" => Some(Test::Absent),
            "gt" => bound().map(Test::Greater),
            "lt" => bound().map(Test::Less),
            "in" => Some(Test::In(values)),
            "notin" => Some(Test::NotIn(values)),
            _ => None,
        };
        let test = test.ok_or(UnreadablePlan::Test(word))?;
        Ok(Requirement { key, test })
    }
}

/// 0 is no bound.
fn bound(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn unless<T: PartialEq>(value: T, usual: &T) -> Option<T> {
    (value != *usual).then_some(value)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
