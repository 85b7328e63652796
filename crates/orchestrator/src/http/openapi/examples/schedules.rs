//! Examples of schedules.

use api_types::schedule::{
    CatchUp, DescribeSchedule, ListScheduleRuns, ListSchedules, Overlap, PutSchedule, RunOutcome,
    Schedule, ScheduleRun,
};
use serde_json::{Value, json};

use super::records::{JOB, MOMENT};

const NAME: &str = "nightly";
const CRON: &str = "30 2 * * *";
const ZONE: &str = "Europe/Berlin";

fn job() -> Value {
    json!({
        "Type": "batch",
        "Tasks": [{
            "Name": "main",
            "Engine": {
                "Type": "docker",
                "Params": {"Image": "busybox:stable", "Parameters": ["date"]},
            },
        }],
    })
}

fn run() -> ScheduleRun {
    ScheduleRun {
        scheduled_time: MOMENT.rfc3339_seconds(),
        time: MOMENT.rfc3339(),
        outcome: RunOutcome::Started,
        reason: String::new(),
        job_id: JOB.to_string(),
        triggered: false,
    }
}

fn schedule() -> Schedule {
    Schedule {
        name: NAME.to_owned(),
        namespace: "ci".to_owned(),
        cron: CRON.to_owned(),
        time_zone: ZONE.to_owned(),
        overlap: Overlap::Skip,
        catch_up: CatchUp::Latest,
        catch_up_seconds: 0,
        jitter_seconds: 0,
        paused: false,
        job: Some(job()),
        masked: false,
        next_times: vec![MOMENT.rfc3339_seconds()],
        queued: 0,
        last_run: Some(run()),
        create_time: MOMENT.rfc3339(),
        modify_time: MOMENT.rfc3339(),
    }
}

pub(in crate::http) fn list_schedules() -> ListSchedules {
    ListSchedules { schedules: vec![Schedule { job: None, ..schedule() }] }
}

pub(in crate::http) fn describe_schedule() -> DescribeSchedule {
    DescribeSchedule { schedule: schedule(), warnings: Vec::new() }
}

pub(in crate::http) fn put_schedule() -> PutSchedule {
    PutSchedule {
        cron: CRON.to_owned(),
        time_zone: Some(ZONE.to_owned()),
        job: Some(job()),
        ..PutSchedule::default()
    }
}

pub(in crate::http) fn list_schedule_runs() -> ListScheduleRuns {
    ListScheduleRuns { runs: vec![run()] }
}
