//! Schedules: jobs that start at the times of a cron expression.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::word::words;

words!(
    /// What becomes of a run that is due while an earlier job of its schedule is live.
    Overlap, "an overlap", {
        /// It is left out.
        Skip = "Skip",
        /// It waits for the end of the earlier job.
        Queue = "Queue",
        /// The earlier job is stopped.
        Replace = "Replace",
        /// Both run.
        Allow = "Allow",
    }
);

words!(
    /// What becomes of runs that fell due while the service was away.
    CatchUp, "a way to catch up", {
        /// They are left out.
        None = "None",
        /// The newest one takes place.
        Latest = "Latest",
        /// All of them take place, of which the newest hundred.
        All = "All",
    }
);

words!(
    /// What became of a due time.
    RunOutcome, "an outcome of a run", {
        /// It has a job.
        Started = "Started",
        /// It waits for the end of an earlier job.
        Queued = "Queued",
        /// `Overlap` or `CatchUp` left it out.
        Skipped = "Skipped",
        /// Its job was refused as a submission.
        Refused = "Refused",
    }
);

/// The body of Put Schedule. It takes effect from that moment on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct PutSchedule {
    /// Minute, hour, day of the month, month, day of the week.
    pub cron: String,
    /// A name of the IANA database; `UTC` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What becomes of a run while an earlier job is live; `Skip` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Overlap))]
    pub overlap: Option<String>,
    /// What becomes of runs that the service was not there for; `Latest` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = CatchUp))]
    pub catch_up: Option<String>,
    /// Runs that are later than this are not caught up; 0 and absent mean no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_seconds: Option<u32>,
    /// The schedule's runs start later by a fixed time of up to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<u32>,
    /// Whether nothing is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// A batch or ops job, as Create Job takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(required = true, value_type = crate::submission::JobSubmission)
    )]
    pub job: Option<Value>,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Schedule {
    pub name: String,
    pub namespace: String,
    pub cron: String,
    pub time_zone: String,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    pub catch_up_seconds: u32,
    pub jitter_seconds: u32,
    pub paused: bool,
    /// As it was written; absent in lists, and for viewers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub job: Option<Value>,
    /// Whether `Job` was left out because the caller may not see it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub masked: bool,
    /// The next five times that are due, RFC 3339, UTC; none while the schedule is paused.
    pub next_times: Vec<String>,
    /// Runs that wait for the end of an earlier job.
    pub queued: u32,
    /// The newest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<ScheduleRun>,
    /// RFC 3339, UTC.
    pub create_time: String,
    /// RFC 3339, UTC.
    pub modify_time: String,
}

/// What became of one due time, or of several that were missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ScheduleRun {
    /// RFC 3339, UTC; of several, the newest.
    pub scheduled_time: String,
    /// When it was decided, RFC 3339, UTC.
    pub time: String,
    pub outcome: RunOutcome,
    /// Why there is no job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(rename = "JobID", default, skip_serializing_if = "String::is_empty")]
    pub job_id: String,
    /// Whether a caller asked for it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub triggered: bool,
}

/// Response of List Schedules.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListSchedules {
    pub schedules: Vec<Schedule>,
}

/// Response of Describe, Put and Delete Schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSchedule {
    pub schedule: Schedule,
    /// What is unusual about the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Response of List Schedule Runs: the newest twenty, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListScheduleRuns {
    pub runs: Vec<ScheduleRun>,
}
