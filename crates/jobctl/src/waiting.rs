//! Waiting for a job: what is asked of the service meanwhile, and what its end means.

mod interrupt;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api_client::{Client, ExecutionsQuery};
use api_types::execution::{ComputeState, Execution};
use api_types::job::{Job, JobStateType};

use crate::cli::Goal;
use crate::exit::Exit;
use crate::output::{Progress, note};
use crate::pages::collect;
use crate::patience::Patience;

pub(crate) use interrupt::{Interrupts, attended};

/// How long one request asks the service to wait for a change, well within its own bounds.
const LONG_POLL: Duration = Duration::from_secs(30);

/// Between two questions, when the service answers at once although nothing changed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How waiting for a job came to its end.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The goal is reached.
    Reached(Box<Job>),
    /// The time was over first.
    TimedOut,
    /// A person left; the job goes on.
    Left,
}

/// Waits until the job has reached the goal.
pub(crate) async fn until(
    client: &Client,
    id: &str,
    goal: Goal,
    timeout: Option<Duration>,
    progress: &mut Progress,
) -> Result<Waited> {
    let begin = Instant::now();
    let mut patience = Patience::default();
    // Revisions begin at 1: the first question is answered at once.
    let mut revision = 0;
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        let wait = left.map_or(LONG_POLL, |left| left.min(LONG_POLL));
        let asked = Instant::now();
        let answer = client.await_job(id, wait, revision).await;
        let pause = match answer {
            Ok(job) => {
                patience.answered();
                let state = job.state.state_type;
                progress.say(&standing(&job));
                if is_reached(goal, state) {
                    return Ok(Waited::Reached(Box::new(job)));
                }
                let news = job.revision > revision;
                revision = job.revision;
                if news { Duration::ZERO } else { POLL_INTERVAL.saturating_sub(asked.elapsed()) }
            }
            Err(error) => {
                let pause = patience.forgive(error)?;
                progress.say(&format!("{id}: the service does not answer; asking again"));
                pause
            }
        };
        let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Waited::TimedOut);
        }
        tokio::time::sleep(left.map_or(pause, |left| left.min(pause))).await;
    }
}

const fn is_reached(goal: Goal, state: JobStateType) -> bool {
    match (goal, state) {
        (_, JobStateType::Completed | JobStateType::Failed | JobStateType::Stopped)
        | (Goal::Running, JobStateType::Running) => true,
        (Goal::End, JobStateType::Running) | (_, JobStateType::Pending | JobStateType::Queued) => {
            false
        }
    }
}

/// Where the job stands, in a line.
fn standing(job: &Job) -> String {
    let (id, state, message) = (job.id.short(), job.state.state_type, &job.state.message);
    if message.is_empty() { format!("{id}: {state}") } else { format!("{id}: {state}: {message}") }
}

/// All executions of a job, the oldest first.
pub(crate) async fn executions(client: &Client, id: &str) -> Result<Vec<Execution>> {
    let collected = collect(None, async |rows, token| {
        let query = ExecutionsQuery {
            limit: Some(rows),
            next_token: token,
            order_by: Some("create_time".to_owned()),
            ..ExecutionsQuery::default()
        };
        client.job_executions(id, &query).await.map(|page| (page.executions, page.next_token))
    })
    .await
    .context("list the executions")?;
    Ok(collected.items)
}

/// The exit code that stands for the end of the job, and a word on stderr when it is not 0.
pub(crate) fn verdict(job: &Job, executions: &[Execution]) -> Exit {
    match job.state.state_type {
        JobStateType::Completed
        | JobStateType::Running
        | JobStateType::Pending
        | JobStateType::Queued => Exit::Done,
        JobStateType::Stopped => {
            note(&format!("jobctl: {}", standing(job)));
            Exit::JobFailed
        }
        JobStateType::Failed => {
            note(&format!("jobctl: {}", standing(job)));
            // An execution that was retried is not what the job failed by.
            let failed = executions.iter().find(|execution| {
                execution.compute_state.state_type == ComputeState::Failed
                    && execution.next_execution.is_none()
            });
            let Some(execution) = failed else { return Exit::JobFailed };
            passed_on(execution.run_output.exit_code)
        }
    }
}

/// A process cannot end with more than eight bits, and a failure never looks like success.
fn passed_on(exit_code: i32) -> Exit {
    match u8::try_from(exit_code.rem_euclid(256)) {
        _ if exit_code == 0 => Exit::JobFailed,
        Ok(0) | Err(_) => Exit::Task(1),
        Ok(code) => Exit::Task(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_without_an_exit_code_did_not_fail_by_itself() {
        assert_eq!(passed_on(0), Exit::JobFailed);
        assert_eq!(passed_on(3), Exit::Task(3));
        assert_eq!(passed_on(137), Exit::Task(137));
        assert_eq!(passed_on(256), Exit::Task(1));
        assert_eq!(passed_on(-1), Exit::Task(255));
    }

    #[test]
    fn whoever_waits_for_a_running_job_does_not_wait_for_one_that_ended() {
        assert!(is_reached(Goal::Running, JobStateType::Running));
        assert!(is_reached(Goal::Running, JobStateType::Failed));
        assert!(!is_reached(Goal::Running, JobStateType::Queued));
        assert!(!is_reached(Goal::End, JobStateType::Running));
        assert!(is_reached(Goal::End, JobStateType::Stopped));
    }
}
