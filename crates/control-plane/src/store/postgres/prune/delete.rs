//! Which rows one removal deletes, and the statements that do.

use api_types::Timestamp;

use super::rows::{Doomed, Left, Parts};
use crate::store::budget::{Budget, TAIL_ROWS, spec_rows};
use crate::store::postgres::values::{Param, Rows, Step, Template, cells};
use crate::store::postgres::write::NO_LONGER_PENDING;
use crate::store::row::mark::second;
use crate::store::{EXECUTION_ROWS, JOB_ROWS};

/// The rows to delete.
#[derive(Default)]
pub(super) struct Deletions {
    /// The namespaces of the jobs that vanish.
    pub(super) begun: Vec<String>,
    /// Whether more is due.
    pub(super) more: bool,
    /// The numbers and IDs of those that vanish.
    jobs: Vec<i64>,
    ids: Vec<Vec<u8>>,
    /// All of whose rows go.
    complete: Vec<i64>,
    /// Of which some stay for the next removal.
    unfinished: Option<i64>,
    touched: Vec<i64>,
    events: Vec<i64>,
    seconds: Vec<i64>,
    published: Vec<(i64, i64, i64, Vec<u8>)>,
    pending: Vec<[i64; 2]>,
    chunks: Vec<[i64; 2]>,
    dependencies: Vec<[i64; 2]>,
    unplaced: Vec<[i64; 2]>,
    executions: Vec<i64>,
    tails: Vec<[i64; 2]>,
}

const PUBLISHED: Template = Template::new(
    "DELETE FROM published AS p USING {rows} AS u (job, slot, create_time, id)
     WHERE p.job = u.job AND p.slot = u.slot AND p.create_time = u.create_time AND p.id = u.id",
    "nnnb",
);

const CHUNK: Template = Template::new(
    "DELETE FROM slot_outcome AS o USING {rows} AS u (job, chunk)
     WHERE o.job = u.job AND o.chunk = u.chunk",
    "nn",
);

const DEPENDENCY: Template = Template::new(
    "DELETE FROM dependency AS d USING {rows} AS u (job, named)
     WHERE d.job = u.job AND d.named = u.named",
    "nn",
);

const UNPLACED: Template = Template::new(
    "DELETE FROM unplaced_slot AS s USING {rows} AS u (job, slot)
     WHERE s.job = u.job AND s.slot = u.slot",
    "nn",
);

const TAIL: Template = Template::new(
    "WITH gone AS (
        DELETE FROM output_tail AS t USING {rows} AS u (job, execution)
        WHERE t.job = u.job AND t.execution = u.execution RETURNING t.job, t.bytes)
     UPDATE output_tail_total AS s SET bytes = s.bytes - g.bytes
     FROM (SELECT job, sum(bytes)::bigint AS bytes FROM gone GROUP BY job) AS g
     WHERE s.job = g.job",
    "nn",
);

/// By numbers of jobs that vanish.
const OF_JOBS: [&str; 5] = [
    "DELETE FROM job_spec WHERE job = ANY ($1::bigint[])",
    "DELETE FROM job_plan WHERE job = ANY ($1::bigint[])",
    "DELETE FROM former_spec WHERE job = ANY ($1::bigint[])",
    "DELETE FROM job_run WHERE number = ANY ($1::bigint[])",
    "DELETE FROM job WHERE number = ANY ($1::bigint[])",
];

const OF_EXECUTIONS: [&str; 3] = [
    "DELETE FROM usage_curve WHERE execution = ANY ($1::bigint[])",
    "DELETE FROM run_output WHERE execution = ANY ($1::bigint[])",
    "DELETE FROM execution WHERE number = ANY ($1::bigint[])",
];

/// By numbers of jobs of which nothing stays. A graph goes with the last of its jobs.
const OF_COMPLETE: [&str; 3] = [
    "WITH gone AS (DELETE FROM graph_job WHERE job = ANY ($1::bigint[]) RETURNING graph)
     DELETE FROM graph AS g WHERE g.number IN (SELECT graph FROM gone) AND NOT EXISTS
        (SELECT 1 FROM graph_job AS j WHERE j.graph = g.number AND j.job <> ALL ($1::bigint[]))",
    "DELETE FROM output_tail_total WHERE job = ANY ($1::bigint[])",
    "DELETE FROM removal WHERE job = ANY ($1::bigint[])",
];

/// Marks around events of these seconds that lead to no event any more; see SQLite's `marks.rs`.
const MARKS_BETWEEN: &str = "
    DELETE FROM event_mark AS m
    USING (SELECT DISTINCT x.second FROM unnest($1::bigint[]) AS u (second)
        CROSS JOIN LATERAL (SELECT second FROM event_mark WHERE second <= u.second
            ORDER BY second DESC LIMIT 2) AS x) AS c
    WHERE m.second = c.second
        AND EXISTS (SELECT 1 FROM event_mark AS n WHERE n.second > m.second)
        AND NOT EXISTS (SELECT 1 FROM event AS e WHERE e.seq >= m.seq AND e.seq <
            (SELECT n.seq FROM event_mark AS n WHERE n.second > m.second
             ORDER BY n.second LIMIT 1))";

/// Marks before which no event of a job is left.
const OLD_MARKS: &str = "
    DELETE FROM event_mark WHERE second IN (
        SELECT o.second FROM
            (SELECT second, seq FROM event_mark ORDER BY second LIMIT $1::bigint) AS o
        WHERE o.seq < coalesce((SELECT min(seq) FROM event
            WHERE job = (SELECT min(number) FROM job)), 9223372036854775807))";

// === impl Deletions ===

impl Deletions {
    /// Takes the jobs one after the other until this many rows are used up.
    pub(super) fn choose(rows: u32, doomed: Vec<Doomed>, mut parts: Parts) -> Self {
        let mut chosen = Self::default();
        let mut budget = Budget(rows);
        for (at, Doomed { number, namespace }) in doomed.into_iter().enumerate() {
            let left = parts.of_jobs.remove(&number).unwrap_or_default();
            if let Some(namespace) = namespace {
                if budget.is_used_up() {
                    chosen.more = true;
                    break;
                }
                chosen.begin(number, namespace, &left, &mut budget);
            }
            if !chosen.take_parts(number, left, &mut budget, |rows| parts.is_cut(at == 0, rows)) {
                chosen.unfinished = Some(number);
                chosen.more = true;
                break;
            }
            chosen.complete.push(number);
        }
        chosen
    }

    /// Hides the job from all reads.
    fn begin(&mut self, number: i64, namespace: String, left: &Left, budget: &mut Budget) {
        self.begun.push(namespace);
        self.jobs.push(number);
        self.ids.push(left.id.clone());
        let spec_rows = spec_rows(left.spec_bytes);
        budget.spend(JOB_ROWS.saturating_add(left.labels).saturating_add(spec_rows));
    }

    /// Returns whether all of the job's other rows go.
    fn take_parts(
        &mut self,
        job: i64,
        left: Left,
        budget: &mut Budget,
        is_cut: impl Fn(usize) -> bool,
    ) -> bool {
        self.touched.push(job);
        let goes_on = |read: usize, taken: usize, cost: u32, budget: &mut Budget| {
            budget.spend(u32::try_from(taken).unwrap_or(u32::MAX).saturating_mul(cost));
            !budget.is_used_up() && taken == read && !is_cut(read)
        };
        let Left { events, published, pending, chunks, dependencies, unplaced, executions, .. } =
            left;
        let taken = first(budget, &events);
        self.events.extend(taken.iter().map(|[seq, _]| *seq));
        self.seconds.extend(taken.iter().map(|[_, time]| second(Timestamp(*time))));
        if !goes_on(events.len(), taken.len(), 1, budget) {
            return false;
        }
        let taken = first(budget, &published);
        let rows = taken.iter().map(|(slot, time, id)| (job, *slot, *time, id.clone()));
        self.published.extend(rows);
        if !goes_on(published.len(), taken.len(), 1, budget) {
            return false;
        }
        for (rows, out) in [
            (&pending, &mut self.pending),
            (&chunks, &mut self.chunks),
            (&unplaced, &mut self.unplaced),
        ] {
            let taken = first(budget, rows);
            out.extend(taken.iter().map(|key| [job, *key]));
            if !goes_on(rows.len(), taken.len(), 1, budget) {
                return false;
            }
        }
        let taken = first(budget, &dependencies);
        self.dependencies.extend(taken);
        if !goes_on(dependencies.len(), taken.len(), 1, budget) {
            return false;
        }
        let most = Left::executions_within(budget.0).min(executions.len());
        for (number, has_tail) in &executions[..most] {
            self.executions.push(*number);
            if *has_tail {
                self.tails.push([job, *number]);
                budget.spend(TAIL_ROWS);
            }
        }
        goes_on(executions.len(), most, EXECUTION_ROWS, budget)
    }

    /// What finds rows by others comes before those go.
    pub(super) fn steps(self, rows: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut by_number = |statements: &[&'static str], numbers: &[i64]| {
            if !numbers.is_empty() {
                let numbers = Param::numbers(numbers.iter().copied());
                steps.extend(statements.iter().map(|sql| Step::new(sql, vec![numbers.clone()])));
            }
        };
        by_number(&OF_JOBS, &self.jobs);
        by_number(&["DELETE FROM event WHERE seq = ANY ($1::bigint[])"], &self.events);
        by_number(&["DELETE FROM first_failure WHERE job = ANY ($1::bigint[])"], &self.touched);
        by_number(&[MARKS_BETWEEN], &self.seconds);
        by_number(
            &["INSERT INTO removal (job) SELECT * FROM unnest($1::bigint[])
               ON CONFLICT (job) DO NOTHING"],
            self.unfinished.as_slice(),
        );
        let pairs = [
            (NO_LONGER_PENDING, &self.pending),
            (CHUNK, &self.chunks),
            (DEPENDENCY, &self.dependencies),
            (UNPLACED, &self.unplaced),
            (TAIL, &self.tails),
        ];
        by_number(&OF_EXECUTIONS, &self.executions);
        by_number(&OF_COMPLETE, &self.complete);
        if !self.ids.is_empty() {
            let labels = "DELETE FROM label WHERE id = ANY ($1::bytea[])";
            steps.push(Step::new(labels, vec![Param::byte_strings(&self.ids)]));
        }
        for (template, keys) in pairs {
            let mut rows = Rows::new(template);
            keys.iter().for_each(|[job, key]| rows.push(cells![*job, *key]));
            steps.extend(rows.step());
        }
        let mut published = Rows::new(PUBLISHED);
        for (job, slot, create_time, id) in &self.published {
            published.push(cells![*job, *slot, *create_time, id.as_slice()]);
        }
        steps.extend(published.step());
        steps.push(Step::new(OLD_MARKS, vec![Param::number(rows.into())]));
        steps
    }
}

/// Those that the budget reaches.
fn first<'a, T>(budget: &Budget, rows: &'a [T]) -> &'a [T] {
    &rows[..rows.len().min(budget.0 as usize)]
}
