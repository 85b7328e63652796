//! What executions leave behind: their output, what they used, and where their results are.

use std::collections::BTreeMap;

use api_types::ExecutionId;
use api_types::execution::{PublishedResult, RunOutput};
use api_types::log::{OutputTail, StreamTail};
use api_types::usage::Usage;
use scheduler::change::OutputRow;

use super::Writing;
use crate::store::postgres::values::{Param, Rows, Template, cells};
use crate::store::row::curve::to_bytes;
use crate::store::row::{Id, bad_record};
use crate::store::{MAX_TAILS_BYTES, StoreError};

/// Tails of a job that one commit removes at most to make room; more go with the next.
const REMOVED_AT_ONCE: i64 = 1000;

/// An execution that is not stored makes the number null, which fails the commit.
const RUN: Template = Template::new(
    "INSERT INTO run_output (execution, exit_code, stdout_truncated, stderr_truncated, stdout,
        stderr, runner_error, usage, stdout_tail, stdout_bytes, stderr_tail, stderr_bytes, omitted)
     SELECT e.number, u.exit_code, u.stdout_truncated, u.stderr_truncated, u.stdout, u.stderr,
        u.runner_error, u.usage, u.stdout_tail, u.stdout_bytes, u.stderr_tail, u.stderr_bytes,
        u.omitted
     FROM {rows} AS u (id, exit_code, stdout_truncated, stderr_truncated, stdout, stderr,
            runner_error, usage, stdout_tail, stdout_bytes, stderr_tail, stderr_bytes, omitted)
        LEFT JOIN execution AS e ON e.id = u.id
     ON CONFLICT (execution) DO UPDATE SET exit_code = excluded.exit_code,
        stdout_truncated = excluded.stdout_truncated,
        stderr_truncated = excluded.stderr_truncated, stdout = excluded.stdout,
        stderr = excluded.stderr, runner_error = excluded.runner_error, usage = excluded.usage,
        stdout_tail = excluded.stdout_tail, stdout_bytes = excluded.stdout_bytes,
        stderr_tail = excluded.stderr_tail, stderr_bytes = excluded.stderr_bytes,
        omitted = excluded.omitted",
    "bnnnbbbbbnbnb",
);

const PUBLISHED: Template = Template::new(
    "INSERT INTO published (job, slot, create_time, id, result)
     SELECT e.job, e.slot, e.create_time, u.id, u.result
     FROM {rows} AS u (id, result) LEFT JOIN execution AS e ON e.id = u.id
     ON CONFLICT (job, slot, create_time, id) DO UPDATE SET result = excluded.result",
    "bb",
);

const CURVE: Template = Template::new(
    "INSERT INTO usage_curve (execution, curve)
     SELECT e.number, u.curve FROM {rows} AS u (id, curve) LEFT JOIN execution AS e ON e.id = u.id
     ON CONFLICT (execution) DO UPDATE SET curve = excluded.curve",
    "bb",
);

/// A repeated report replaces what the first one brought.
const FORMER_TAIL: Template = Template::new(
    "WITH gone AS (
        DELETE FROM output_tail AS t USING {rows} AS u (id) JOIN execution AS e ON e.id = u.id
        WHERE t.job = e.job AND t.execution = e.number RETURNING t.job, t.bytes)
     UPDATE output_tail_total AS s SET bytes = s.bytes - g.bytes
     FROM (SELECT job, sum(bytes)::bigint AS bytes FROM gone GROUP BY job) AS g
     WHERE s.job = g.job",
    "b",
);

const TAIL: Template = Template::new(
    "INSERT INTO output_tail (number, job, execution, bytes, stdout_offset, stderr_offset, stdout,
        stderr)
     SELECT u.number, e.job, e.number, u.bytes, u.stdout_offset, u.stderr_offset, u.stdout,
        u.stderr
     FROM {rows} AS u (id, number, bytes, stdout_offset, stderr_offset, stdout, stderr)
        LEFT JOIN execution AS e ON e.id = u.id",
    "bnnnnbb",
);

const TOTAL: Template = Template::new(
    "INSERT INTO output_tail_total AS s (job, bytes)
     SELECT e.job, sum(u.bytes)::bigint
     FROM {rows} AS u (id, bytes) JOIN execution AS e ON e.id = u.id GROUP BY e.job
     ON CONFLICT (job) DO UPDATE SET bytes = s.bytes + excluded.bytes",
    "bn",
);

/// Removes the oldest tails of these executions' jobs, but not those that just came, until the rest
/// is within the bound.
const ROOM: Template = Template::new(
    "WITH gone AS (
        DELETE FROM output_tail AS t
        USING (SELECT DISTINCT e.job FROM {rows} AS u (id) JOIN execution AS e ON e.id = u.id) AS j
            JOIN output_tail_total AS s ON s.job = j.job
            CROSS JOIN LATERAL (
                SELECT o.number, sum(o.bytes) OVER (ORDER BY o.execution) - o.bytes AS before
                FROM (SELECT number, execution, bytes FROM output_tail
                    WHERE job = s.job AND number < $2::bigint
                    ORDER BY execution LIMIT $4::bigint) AS o) AS old
        WHERE s.bytes > $3::bigint AND old.before < s.bytes - $3::bigint AND t.number = old.number
        RETURNING t.job, t.bytes)
     UPDATE output_tail_total AS s SET bytes = s.bytes - g.bytes
     FROM (SELECT job, sum(bytes)::bigint AS bytes FROM gone GROUP BY job) AS g
     WHERE s.job = g.job",
    "b",
);

impl Writing<'_> {
    /// A result with an empty type means that nothing was published, and is not stored. Of several
    /// reports of one execution the last one counts.
    pub(super) fn outputs(&mut self, outputs: &[OutputRow]) -> Result<(), StoreError> {
        let (mut runs, mut tails, mut curves, mut results) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let empty = PublishedResult::default().publisher_type;
        for output in outputs {
            runs.extend(output.run_output.as_ref().map(|run| (output.id, (run, output.usage))));
            tails.extend(output.tail.as_ref().map(|tail| (output.id, tail)));
            curves.extend(output.curve.as_ref().map(|curve| (output.id, curve)));
            let published = output.published_result.as_ref();
            let published = published.filter(|result| result.publisher_type != empty);
            results.extend(published.map(|result| (output.id, result)));
        }
        let mut rows = Rows::new(RUN);
        for (id, (run, usage)) in runs {
            push_run(&mut rows, id, run, usage)?;
        }
        self.add(rows);
        let mut rows = Rows::new(CURVE);
        for (id, curve) in curves {
            rows.push(cells![&id.bytes(), to_bytes(curve).as_slice()]);
        }
        self.add(rows);
        self.tails(&tails)?;
        let mut rows = Rows::new(PUBLISHED);
        for (id, result) in results {
            let json = serde_json::to_string(result).map_err(bad_record)?;
            rows.push(cells![&id.bytes(), json.as_str()]);
        }
        self.add(rows);
        Ok(())
    }

    fn tails(&mut self, tails: &BTreeMap<ExecutionId, &OutputTail>) -> Result<(), StoreError> {
        let first = self.known.last_tail + 1;
        let (mut former, mut new) = (Rows::new(FORMER_TAIL), Rows::new(TAIL));
        let (mut totals, mut room) = (Rows::new(TOTAL), Rows::new(ROOM));
        for (id, tail) in tails {
            let bytes = |tail: &StreamTail| {
                let bytes = tail.data.clone().into_bytes();
                bytes.ok_or_else(|| bad_record(format!("the end of the output of {id}")))
            };
            let (stdout, stderr) = (bytes(&tail.stdout)?, bytes(&tail.stderr)?);
            let size = i64::try_from(stdout.len() + stderr.len()).unwrap_or(i64::MAX);
            self.known.last_tail += 1;
            let id = id.bytes();
            former.push(cells![&id]);
            new.push(cells![
                &id,
                self.known.last_tail,
                size,
                tail.stdout.offset,
                tail.stderr.offset,
                stdout.as_slice(),
                stderr.as_slice(),
            ]);
            totals.push(cells![&id, size]);
            room.push(cells![&id]);
        }
        [former, new, totals].into_iter().for_each(|rows| self.add(rows));
        let bounds = [first, MAX_TAILS_BYTES.cast_signed(), REMOVED_AT_ONCE];
        self.steps.extend(room.step_with(bounds.map(Param::number)));
        Ok(())
    }
}

fn push_run(
    rows: &mut Rows,
    id: ExecutionId,
    run: &RunOutput,
    usage: Option<Usage>,
) -> Result<(), StoreError> {
    let usage = usage.map(|usage| serde_json::to_string(&usage)).transpose().map_err(bad_record)?;
    let omitted = (!run.omitted.is_empty()).then(|| serde_json::to_string(&run.omitted));
    let omitted = omitted.transpose().map_err(bad_record)?;
    rows.push(cells![
        &id.bytes(),
        run.exit_code,
        run.stdout_truncated,
        run.stderr_truncated,
        run.stdout.as_str(),
        run.stderr.as_str(),
        run.runner_error.as_str(),
        usage.as_deref(),
        run.stdout_tail.as_str(),
        run.stdout_bytes,
        run.stderr_tail.as_str(),
        run.stderr_bytes,
        omitted.as_deref(),
    ]);
    Ok(())
}
