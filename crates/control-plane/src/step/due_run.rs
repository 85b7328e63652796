//! Runs of schedules that come back from the runner: the job and the state of the schedule are one
//! commit.

use api_types::job::CreateJob;
use api_types::schedule::{Overlap, RunOutcome};
use scheduler::Scheduler;
use scheduler::input::Input;
use scheduler::time::Now;

use super::commit_builder::CommitBuilder;
use super::event::{DueRun, NotCreated, Trigger};
use super::schedules::{self, DueTime, Schedules};
use crate::records::{RecordKind, RecordWrite, Records};
use crate::schedule::{Position, Run};

// === impl CommitBuilder: schedules ===

impl<C> CommitBuilder<C> {
    /// Takes a run if its time is still to be decided; otherwise nothing happens.
    pub(super) fn run_due(
        &mut self,
        scheduler: &mut Scheduler,
        records: &mut Records,
        schedules: &mut Schedules,
        now: Now,
        run: DueRun,
    ) {
        let DueRun { time: DueTime { key, version, after, due }, checked } = run;
        // A change since then has decided anew what is due.
        let Some(plan) = schedules.plan(&key, version) else { return };
        let mut position = schedules::position(records, &key);
        let waited = position.queued.iter().position(|queued| *queued == due);
        if plan.paused
            || (waited.is_none() && after != schedules::decided(plan, &position, now.wall))
        {
            return schedules.changed(&key, records, scheduler);
        }
        let live = schedules::live(&position, scheduler);
        let overlaps = match waited {
            // It waits on: a caller has started a job since.
            Some(_) if !live.is_empty() => return schedules.changed(&key, records, scheduler),
            Some(_) => None,
            None => schedules::overlap(plan, &position, &live, due, now.wall),
        };
        if let Some(run) = overlaps {
            schedules::note(&mut position, run);
            return self.store_run(scheduler, records, schedules, &key, &position);
        }
        let replaces = plan.overlap == Overlap::Replace;
        position.queued.retain(|queued| *queued != due);
        position.live = live;
        position.decided(due);
        let refused = |why: String| Run::without_job(due, now.wall, RunOutcome::Refused, why);
        let run = match checked {
            Ok(submission) => {
                if replaces {
                    for job in std::mem::take(&mut position.live) {
                        let reason = "replaced by the next run of its schedule".to_owned();
                        self.handle(scheduler, now, Input::Stop { job, reason });
                    }
                }
                match self.submit(scheduler, now, *submission) {
                    Ok(CreateJob { job_id, .. }) => {
                        position.began(job_id);
                        Run::started(due, now.wall, job_id)
                    }
                    Err(NotCreated::Refused(refusal)) => refused(refusal.to_string()),
                    Err(other) => refused(format!("the job was not created: {}", other.word())),
                }
            }
            Err(why) => refused(why),
        };
        position.note(run);
        self.store_run(scheduler, records, schedules, &key, &position);
    }

    /// Starts a job now, whatever is due; repeats of a request get the first answer.
    pub(super) fn trigger(
        &mut self,
        scheduler: &mut Scheduler,
        records: &mut Records,
        schedules: &mut Schedules,
        now: Now,
        trigger: Trigger,
    ) -> Result<CreateJob, NotCreated> {
        let Trigger { key, due, submission } = trigger;
        let definition = RecordKind::Schedule.key(&*key);
        if records.get(&definition).is_none() {
            return Err(NotCreated::NoSchedule(definition));
        }
        let id = submission.submit.id;
        let created = self.submit(scheduler, now, submission)?;
        if created.job_id == id {
            let mut position = schedules::position(records, &key);
            position.live = schedules::live(&position, scheduler);
            position.began(id);
            position.note(Run { triggered: true, ..Run::started(due, now.wall, id) });
            self.store_run(scheduler, records, schedules, &key, &position);
        }
        Ok(created)
    }

    fn store_run(
        &mut self,
        scheduler: &Scheduler,
        records: &mut Records,
        schedules: &mut Schedules,
        key: &str,
        position: &Position,
    ) {
        let outcome = position.runs.last().map(|run| run.outcome);
        self.write_state(records, schedules::state(key, position), outcome);
        schedules.changed(key, records, scheduler);
    }

    pub(super) fn write_state(
        &mut self,
        records: &mut Records,
        write: RecordWrite,
        outcome: Option<RunOutcome>,
    ) {
        let rows = records.apply(&[write], self.number());
        let rows = rows.expect("a state is small, and there is one for each schedule");
        self.batch_mut().records.extend(rows);
        self.batch_mut().runs.extend(outcome);
    }
}
