//! Ctrl-C while a person waits: asks once whether the job is to be stopped, and says how to come
//! back to one that is left alone.

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

/// What goes into the history of a job that is stopped this way.
const STOP_REASON: &str = "interrupted at the terminal";

/// How long the output of a job that has ended may still be on its way.
const LAST_OUTPUT: Duration = Duration::from_secs(30);

/// Ctrl-C, from the moment on at which a job may have been made.
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

/// Waits for the job's end, and minds Ctrl-C; `reader` shows meanwhile what the task prints.
pub(crate) async fn attended(
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
    if !is_asked_to_stop(interrupts, id).await {
        note(&format!(
            "the job goes on; come back to it with 'jobctl logs -f {id}' or 'jobctl wait {id}', end it \
             with 'jobctl stop {id}'"
        ));
        return Ok(Waited::Left);
    }
    client.stop_job(id, STOP_REASON).await.context("stop the job")?;
    progress.resume();
    // From here on Ctrl-C just leaves: the job is being stopped already.
    tokio::select! {
        waited = read_until(client, &full_id, timeout, &mut progress, reader) => waited,
        () = interrupts.next() => Ok(Waited::Left),
    }
}

/// Waits for the end, and then for the last of the output.
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
        note(&format!("jobctl: the end of the output is missing; 'jobctl logs {id}' has it"));
    }
    Ok(waited)
}

/// Without a person to ask, the job is left alone: it was submitted to outlive the terminal.
async fn is_asked_to_stop(interrupts: &mut Interrupts, id: JobId) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    let question = format!("\nstop job {id}? [y/N] (Ctrl-C leaves it running) ");
    let _ = std::io::stderr().write_all(question.as_bytes());
    let (sender, answer) = oneshot::channel();
    // A thread of its own: reading cannot be taken back, and must not hold up the end.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(line);
    });
    tokio::select! {
        line = answer => line.is_ok_and(|line| is_yes(&line)),
        () = interrupts.next() => {
            note("");
            false
        }
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_stops_a_job() {
        assert!(is_yes("y\n") && is_yes("YES\n"));
        assert!(!is_yes("\n") && !is_yes("") && !is_yes("n\n") && !is_yes("yellow\n"));
    }
}
