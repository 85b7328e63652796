//! Waits for a job by long polls, and derives the exit code from its end.

mod interrupt;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api_client::{Client, ExecutionsQuery};
use api_types::execution::{ComputeState, Execution, NO_EXIT_CODE};
use api_types::job::{Job, JobStateType};

use crate::cli::Goal;
use crate::exit::Exit;
use crate::output::{Progress, note, with_local_times};
use crate::pages::collect;
use crate::reconnect::Reconnect;

pub(crate) use interrupt::{Interrupts, wait_interruptible};

/// Time for which one request waits for a change, well below the service's limit.
const LONG_POLL: Duration = Duration::from_secs(30);

/// Interval between requests if the service responds immediately without a change.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The outcome of waiting for a job.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The job reached the goal.
    Reached(Box<Job>),
    /// The timeout expired.
    TimedOut,
    /// The user interrupted the command; the job continues.
    Interrupted,
}

/// Waits until the job reaches the goal.
pub(crate) async fn until(
    client: &Client,
    id: &str,
    goal: Goal,
    timeout: Option<Duration>,
    progress: &mut Progress,
) -> Result<Waited> {
    let begin = Instant::now();
    let mut reconnect = Reconnect::default();
    // Revisions begin at 1, so the first request returns immediately.
    let mut revision = 0;
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        let wait = left.map_or(LONG_POLL, |left| left.min(LONG_POLL));
        let asked = Instant::now();
        let response = client.await_job(id, wait, revision).await;
        let pause = match response {
            Ok(job) => {
                reconnect.succeeded();
                let state = job.state.state_type;
                // The command says how the job failed.
                if !matches!(state, JobStateType::Failed | JobStateType::Stopped) {
                    progress.show(&state_line(&job));
                }
                if is_reached(goal, state) {
                    return Ok(Waited::Reached(Box::new(job)));
                }
                let has_changed = job.revision > revision;
                revision = job.revision;
                if has_changed {
                    Duration::ZERO
                } else {
                    POLL_INTERVAL.saturating_sub(asked.elapsed())
                }
            }
            Err(error) => {
                let pause = reconnect.retry_delay(error)?;
                progress.show(&format!("{id}: the service does not respond; retrying"));
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

/// The state of the job in one line.
fn state_line(job: &Job) -> String {
    let (id, state) = (job.id.short(), job.state.state_type);
    let message = with_local_times(&job.state.message);
    if message.is_empty() { format!("{id}: {state}") } else { format!("{id}: {state}: {message}") }
}

/// All executions of a job, oldest first.
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

/// The exit code for the end of a job; reports a failure on stderr.
pub(crate) fn job_exit(job: &Job, executions: &[Execution]) -> Exit {
    match job.state.state_type {
        JobStateType::Completed
        | JobStateType::Running
        | JobStateType::Pending
        | JobStateType::Queued => Exit::Done,
        JobStateType::Stopped => {
            note(&format!("jobctl: {}", state_line(job)));
            Exit::JobFailed
        }
        JobStateType::Failed => {
            note(&format!("jobctl: {}", state_line(job)));
            // A retried execution is not the reason why the job failed.
            let failed = executions.iter().find(|execution| {
                execution.compute_state.state_type == ComputeState::Failed
                    && execution.next_execution.is_none()
            });
            let Some(execution) = failed else { return Exit::JobFailed };
            task_exit(execution.run_output.exit_code)
        }
    }
}

/// Maps the exit code of a task to the eight bits of a process, and never a failure to 0.
fn task_exit(exit_code: i32) -> Exit {
    match u8::try_from(exit_code.rem_euclid(256)) {
        _ if [0, NO_EXIT_CODE].contains(&exit_code) => Exit::JobFailed,
        Ok(0) | Err(_) => Exit::Task(1),
        Ok(code) => Exit::Task(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_task_never_exits_with_0() {
        assert_eq!(task_exit(0), Exit::JobFailed);
        assert_eq!(task_exit(3), Exit::Task(3));
        assert_eq!(task_exit(137), Exit::Task(137));
        assert_eq!(task_exit(256), Exit::Task(1));
        assert_eq!(task_exit(-2), Exit::Task(254));
        assert_eq!(task_exit(-1), Exit::JobFailed, "no process has ended");
    }

    #[test]
    fn an_ended_job_satisfies_a_wait_for_running() {
        assert!(is_reached(Goal::Running, JobStateType::Running));
        assert!(is_reached(Goal::Running, JobStateType::Failed));
        assert!(!is_reached(Goal::Running, JobStateType::Queued));
        assert!(!is_reached(Goal::End, JobStateType::Running));
        assert!(is_reached(Goal::End, JobStateType::Stopped));
    }
}
