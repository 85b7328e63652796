//! Schedules and their runs for people.

use api_types::schedule::{RunOutcome, Schedule, ScheduleRun};

use crate::output::{Cell, Fields, LOCAL_TIME, Layout, Listed, Tone, local_text};

impl Listed for Schedule {
    const NOUN: &'static str = "schedules";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["NAMESPACE", "NAME", "CRON", "TIME ZONE", "NEXT", "LAST RUN", "SCHEDULED FOR"]
    }

    fn cells(&self, _: &Layout) -> Vec<Cell> {
        let next = match self.next_times.first() {
            Some(next) => local_text(next),
            None if self.paused => "paused".to_owned(),
            None => "never".to_owned(),
        };
        let (outcome, due) = match &self.last_run {
            Some(run) => (outcome(run.outcome), local_text(&run.scheduled_time)),
            None => (Cell::plain("-"), "-".to_owned()),
        };
        vec![
            Cell::plain(&self.namespace),
            Cell::plain(&self.name),
            Cell::plain(&self.cron),
            Cell::plain(&self.time_zone),
            Cell::plain(next),
            outcome,
            Cell::plain(due),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Listed for ScheduleRun {
    const NOUN: &'static str = "runs";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["SCHEDULED FOR", LOCAL_TIME, "OUTCOME", "JOB", "REASON"]
    }

    fn cells(&self, _: &Layout) -> Vec<Cell> {
        let job = self.job_id.get(..10).unwrap_or(&self.job_id);
        let by = if self.triggered { "triggered" } else { &self.reason };
        vec![
            Cell::plain(local_text(&self.scheduled_time)),
            Cell::plain(local_text(&self.time)),
            outcome(self.outcome),
            Cell::plain(if job.is_empty() { "-" } else { job }),
            Cell::plain(by),
        ]
    }

    fn name(&self) -> String {
        self.job_id.clone()
    }
}

fn outcome(outcome: RunOutcome) -> Cell {
    let tone = match outcome {
        RunOutcome::Started => Tone::Good,
        RunOutcome::Queued | RunOutcome::Skipped => Tone::Waiting,
        RunOutcome::Refused => Tone::Bad,
    };
    Cell::new(outcome.as_str(), tone)
}

/// A schedule by itself.
pub(crate) fn schedule_fields(schedule: &Schedule) -> Fields {
    let mut fields = Fields::default();
    fields.add("Name", &schedule.name).add("Namespace", &schedule.namespace);
    fields.add("Cron", &schedule.cron).add("Time zone", &schedule.time_zone);
    fields.add("Overlap", schedule.overlap.as_str());
    let catch_up = match schedule.catch_up_seconds {
        0 => schedule.catch_up.to_string(),
        bound => format!("{} of the last {bound} s", schedule.catch_up),
    };
    fields.add("Catch up", catch_up);
    if schedule.jitter_seconds > 0 {
        fields.add("Jitter", format!("up to {} s", schedule.jitter_seconds));
    }
    let next: Vec<_> = schedule.next_times.iter().map(|time| local_text(time)).collect();
    fields.add("Next", if schedule.paused { "paused".to_owned() } else { next.join(", ") });
    if schedule.queued > 0 {
        fields.add("Queued", format!("{} runs wait for the earlier job", schedule.queued));
    }
    if let Some(run) = &schedule.last_run {
        let time = local_text(&run.scheduled_time);
        fields.add("Last run", format!("{} for {time}", run.outcome));
        fields.add_some("Job", &run.job_id).add_some("Reason", &run.reason);
    }
    if let Some(job) = &schedule.job {
        fields.add("Starts", job.to_string());
    }
    fields
        .add("Created", local_text(&schedule.create_time))
        .add("Changed", local_text(&schedule.modify_time));
    fields
}
