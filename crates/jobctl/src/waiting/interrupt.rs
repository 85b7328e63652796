//! Ctrl-C while the user waits: asks once whether to stop the job, or says how to return to it.

use std::io::{BufRead, IsTerminal, Write};
use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::Client;
use api_types::JobId;
use futures_util::FutureExt;
use futures_util::future::{Fuse, FusedFuture};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::{Waited, until};
use crate::cli::Goal;
use crate::output::{Progress, note};
use crate::prompt::is_yes;

/// The reason in the history of a job that is stopped this way.
const STOP_REASON: &str = "interrupted at the terminal";

/// Time limit for the remaining output of an ended job.
const LAST_OUTPUT: Duration = Duration::from_secs(30);

/// Ctrl-C signals, from before the job is created.
#[derive(Debug)]
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    pub(crate) fn listen() -> Result<Self> {
        signal(SignalKind::interrupt()).map(Self).context("listen for Ctrl-C")
    }

    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// Waits for the job's end or Ctrl-C; `reader` shows the task's output until then.
pub(crate) async fn wait_interruptible(
    client: &Client,
    id: JobId,
    timeout: Option<Duration>,
    mut progress: Progress,
    interrupts: &mut Interrupts,
    reader: impl Future<Output = ()>,
) -> Result<Waited> {
    let full_id = id.to_string();
    let mut reader = pin!(reader.fuse());
    tokio::select! {
        waited = read_until(client, &full_id, timeout, &mut progress, reader.as_mut()) => {
            return waited;
        }
        () = interrupts.next() => {}
    }
    progress.pause();
    if !confirms_stop(interrupts, id).await {
        note(&format!(
            "the job continues; return to it with 'jobctl logs -f {id}' or 'jobctl wait {id}', stop it \
             with 'jobctl stop {id}'"
        ));
        return Ok(Waited::Interrupted);
    }
    client.stop_job(id, STOP_REASON).await.context("stop the job")?;
    progress.resume();
    // The job is already being stopped, so another Ctrl-C only ends the command.
    tokio::select! {
        waited = read_until(client, &full_id, timeout, &mut progress, reader) => waited,
        () = interrupts.next() => Ok(Waited::Interrupted),
    }
}

/// Waits for the end, and then for the remaining output.
async fn read_until(
    client: &Client,
    id: &str,
    timeout: Option<Duration>,
    progress: &mut Progress,
    mut reader: Pin<&mut Fuse<impl Future<Output = ()>>>,
) -> Result<Waited> {
    let mut waiting = pin!(until(client, id, Goal::End, timeout, progress));
    let waited = loop {
        tokio::select! {
            waited = &mut waiting => break waited?,
            () = reader.as_mut(), if !reader.is_terminated() => {}
        }
    };
    let has_ended = matches!(waited, Waited::Reached(_));
    if has_ended
        && !reader.is_terminated()
        && tokio::time::timeout(LAST_OUTPUT, reader).await.is_err()
    {
        note(&format!("jobctl: the end of the output is missing; 'jobctl logs {id}' shows it"));
    }
    Ok(waited)
}

/// Asks whether to stop the job. Without a terminal the job continues: it is meant to outlive it.
async fn confirms_stop(interrupts: &mut Interrupts, id: JobId) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    let question = format!("\nstop job {id}? [y/N] (Ctrl-C leaves it running) ");
    let _ = std::io::stderr().write_all(question.as_bytes());
    let (sender, reply) = oneshot::channel();
    // A separate thread: a read cannot be cancelled, and must not delay the exit.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(line);
    });
    tokio::select! {
        line = reply => line.is_ok_and(|line| is_yes(&line)),
        () = interrupts.next() => {
            note("");
            false
        }
    }
}
