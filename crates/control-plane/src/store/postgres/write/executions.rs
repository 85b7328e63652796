//! Executions.

use std::collections::BTreeMap;

use scheduler::change::{Changes, ExecutionRow};

use super::Writing;
use crate::store::postgres::values::{Rows, Template, cells};
use crate::store::row::{Id, exclusion_bytes, moment_value};
use crate::store::{StoreError, is_live};

/// All but what makes it this execution may change: its number, ID, job, version, slot and creation.
const UPSERT: Template = Template::new(
    "INSERT INTO execution AS e (number, id, job, slot, create_time, version, modify_time, compute,
        desired, live, node, session, revision, started_at, cpu_millis, memory_bytes, disk_bytes,
        gpus, attempt, infra_failures, short_runs, exclusions, evaluation, previous, followup,
        desired_message, compute_message, offered_at, accepted_at, process_ended_at, refused_by)
     SELECT * FROM {rows}
     ON CONFLICT (id) DO UPDATE SET modify_time = excluded.modify_time, compute = excluded.compute,
        desired = excluded.desired, live = excluded.live, node = excluded.node,
        session = excluded.session, revision = excluded.revision, started_at = excluded.started_at,
        cpu_millis = excluded.cpu_millis, memory_bytes = excluded.memory_bytes,
        disk_bytes = excluded.disk_bytes, gpus = excluded.gpus, attempt = excluded.attempt,
        infra_failures = excluded.infra_failures, short_runs = excluded.short_runs,
        exclusions = excluded.exclusions, evaluation = excluded.evaluation,
        previous = excluded.previous, followup = excluded.followup,
        desired_message = excluded.desired_message, compute_message = excluded.compute_message,
        offered_at = excluded.offered_at, accepted_at = excluded.accepted_at,
        process_ended_at = excluded.process_ended_at, refused_by = excluded.refused_by",
    "nbnnnnnnnnbnnnnnnnnnnbbbbbbnnnb",
);

const SUCCESSOR: Template = Template::new(
    "UPDATE execution AS e SET next = u.next FROM {rows} AS u (id, next) WHERE e.id = u.id",
    "bb",
);

impl Writing<'_> {
    /// An execution that is stored keeps its number; the one counted here is then not used.
    pub(super) fn executions(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let mut sorted: Vec<_> = changes.executions.values().collect();
        sorted.sort_unstable_by_key(|row| (row.create_time, row.job, row.index, row.id));
        let mut rows = Rows::new(UPSERT);
        for row in sorted {
            self.known.last_execution += 1;
            push(&mut rows, self.known.last_execution, self.known.number(row.job)?, row);
        }
        self.add(rows);
        Ok(())
    }

    pub(super) fn successors(&mut self, changes: &Changes) {
        let last: BTreeMap<_, _> = changes.successors.iter().copied().collect();
        let mut rows = Rows::new(SUCCESSOR);
        for (execution, next) in last {
            rows.push(cells![&execution.bytes(), &next.bytes()]);
        }
        self.add(rows);
    }
}

fn push(rows: &mut Rows, number: i64, job: i64, row: &ExecutionRow) {
    rows.push(cells![
        number,
        &row.id.bytes(),
        job,
        row.index,
        row.create_time.0,
        row.version,
        row.modify_time.0,
        u8::from(row.compute),
        u8::from(row.desired),
        is_live(row.compute),
        &row.node.bytes(),
        row.session,
        row.revision,
        row.started_at.map(moment_value),
        row.resources.cpu_millis,
        row.resources.memory_bytes,
        row.resources.disk_bytes,
        row.resources.gpus,
        row.tries.attempt,
        row.tries.infra_failures,
        row.tries.short_runs,
        exclusion_bytes(&row.tries).as_slice(),
        &row.evaluation.bytes(),
        row.previous.map(Id::bytes).as_ref(),
        row.followup.map(Id::bytes).as_ref(),
        &*row.desired_message,
        &*row.compute_message,
        moment_value(row.offered_at),
        row.accepted_at.map(moment_value),
        row.process_ended_at.map(moment_value),
        row.tries.refused_by.map(Id::bytes).as_ref(),
    ]);
}
