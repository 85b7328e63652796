//! Jobs: their rows, specifications and labels.

use std::collections::HashSet;
use std::sync::Arc;

use api_types::JobId;
use scheduler::change::{Changes, JobRow, NewJobRow};

use super::Writing;
use crate::store::StoreError;
use crate::store::postgres::known::KnownJob;
use crate::store::postgres::values::{Rows, Template, cells};
use crate::store::row::indexes::indexes;
use crate::store::row::name::NameColumns;
use crate::store::row::{Cell, Id, bad_record, job_state_code, job_type_code, moment_value};

const JOB: Template = Template::new(
    "INSERT INTO job (number, id, create_time, created_at, type, priority, namespace, name, stem)
     SELECT * FROM {rows}",
    "nbnnnnbbb",
);

const RUN: Template = Template::new(
    "INSERT INTO job_run (number, id, create_time, namespace, named, state, live, version, revision,
        modify_time, start_time, slots, fresh, running, completed, failed, failed_slots, evaluation,
        last_event_time, waiting_since, ended_at, indexes, message)
     SELECT * FROM {rows}",
    "nbnbnnnnnnnnnnnnnbnnnbb",
);

const PLAN: Template =
    Template::new("INSERT INTO job_plan (job, version, plan) SELECT * FROM {rows}", "nnb");

const SPEC: Template =
    Template::new("INSERT INTO job_spec (job, version, json) SELECT * FROM {rows}", "nnb");

const LABEL: Template = Template::new(
    "INSERT INTO label (id, key, create_time, job, value, integer) SELECT * FROM {rows}",
    "bbnnbn",
);

const UPDATE: Template = Template::new(
    "UPDATE job_run AS r SET state = u.state, live = u.live, version = u.version,
        revision = u.revision, modify_time = u.modify_time, start_time = u.start_time,
        slots = u.slots, fresh = u.fresh, running = u.running, completed = u.completed,
        failed = u.failed, failed_slots = u.failed_slots, evaluation = u.evaluation,
        last_event_time = u.last_event_time, waiting_since = u.waiting_since,
        ended_at = u.ended_at, indexes = u.indexes, message = u.message
     FROM {rows} AS u (number, state, live, version, revision, modify_time, start_time, slots,
        fresh, running, completed, failed, failed_slots, evaluation, last_event_time,
        waiting_since, ended_at, indexes, message)
     WHERE r.number = u.number",
    "nnnnnnnnnnnnnbnnnbb",
);

/// The rows of new jobs.
struct NewRows {
    jobs: Rows,
    runs: Rows,
    plans: Rows,
    specs: Rows,
    labels: Rows,
}

impl Writing<'_> {
    /// Inserts new jobs in the order of their creation, so that the indexes grow at their ends.
    pub(super) fn jobs(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let mut new: Vec<_> = changes.new_jobs.iter().collect();
        new.sort_unstable_by_key(|job| (job.create_time, job.id));
        let mut rows = NewRows::new();
        let mut inserted = HashSet::new();
        for job in new {
            let row = changes
                .jobs
                .get(&job.id)
                .ok_or_else(|| bad_record(format!("new job {} without its state", job.id)))?;
            self.known.last_job += 1;
            let number = self.known.last_job;
            rows.push(number, job, row);
            if !row.live {
                self.count_ended(&job.namespace, 1);
            }
            let namespace = Arc::from(job.namespace.as_str());
            let known = KnownJob { number, namespace, live: row.live, named: 0 };
            self.known.note(job.id, known);
            inserted.insert(job.id);
        }
        let NewRows { jobs, runs, plans, specs, labels } = rows;
        [jobs, runs, plans, specs, labels].into_iter().for_each(|rows| self.add(rows));

        let mut updates = Rows::new(UPDATE);
        for row in changes.jobs.values().filter(|row| !inserted.contains(&row.id)) {
            push_run(&mut updates, cells![self.known.number(row.id)?], row);
            self.change_kept(row.id, |job| job.live = row.live);
        }
        self.add(updates);
        Ok(())
    }

    /// This many more jobs of the namespace have ended and are named by none.
    pub(super) fn count_ended(&mut self, namespace: &str, more: i64) {
        self.more_ended += more;
        self.ended.add(namespace, more);
    }

    /// Changes what keeps a job from retention.
    pub(super) fn change_kept(&mut self, id: JobId, change: impl FnOnce(&mut KnownJob)) {
        let Some(job) = self.known.get_mut(id) else { return };
        let before = job.is_kept();
        change(job);
        let (after, namespace) = (job.is_kept(), Arc::clone(&job.namespace));
        match (before, after) {
            (true, false) => self.count_ended(&namespace, 1),
            (false, true) => self.count_ended(&namespace, -1),
            (true, true) | (false, false) => {}
        }
    }
}

// === impl NewRows ===

impl NewRows {
    fn new() -> Self {
        Self {
            jobs: Rows::new(JOB),
            runs: Rows::new(RUN),
            plans: Rows::new(PLAN),
            specs: Rows::new(SPEC),
            labels: Rows::new(LABEL),
        }
    }

    fn push(&mut self, number: i64, job: &NewJobRow, row: &JobRow) {
        let id = job.id.bytes();
        let name = NameColumns::new(&job.name, job.id);
        self.jobs.push(cells![
            number,
            &id,
            job.create_time.0,
            moment_value(job.created_at),
            job_type_code(job.job_type),
            job.priority,
            job.namespace.as_str(),
            name.name,
            name.stem,
        ]);
        let unchanging = cells![number, &id, job.create_time.0, job.namespace.as_str(), 0_i64];
        push_run(&mut self.runs, unchanging, row);
        self.plans.push(cells![number, row.version, &*job.plan]);
        self.specs.push(cells![number, row.version, &*job.spec_json]);
        for (key, value) in &job.labels {
            self.labels.push(cells![
                &id,
                key.as_str(),
                job.create_time.0,
                number,
                value.as_str(),
                // The values that `gt` and `lt` of a selector read as integers.
                value.parse::<i64>().ok(),
            ]);
        }
    }
}

/// Adds a row with what changes of a job, after these columns.
fn push_run<const FIRST: usize>(rows: &mut Rows, first: [Cell<'_>; FIRST], row: &JobRow) {
    let (evaluation, indexes) = (row.evaluation.bytes(), indexes(&row.slots));
    rows.push(first.into_iter().chain(cells![
        job_state_code(row.state),
        row.live,
        row.version,
        row.revision,
        row.modify_time.0,
        row.start_time.map(|time| time.0),
        row.slots.len(),
        row.fresh,
        row.running,
        row.completed,
        row.failed,
        row.failed_slots,
        &evaluation,
        row.last_event_time.0,
        row.waiting_since.map(moment_value),
        row.ended_at.map(moment_value),
        indexes.as_deref(),
        &*row.message,
    ]));
}
