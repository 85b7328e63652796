//! Task output, line by line: stdout to stdout, stderr to stderr.
//!
//! A followed stream that breaks is opened again, and the lines of each execution that were already
//! shown are skipped by count: the service returns them in the same order every time. With `--tail`
//! there is no line to count from, and the command fails instead.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use anyhow::{Context, Result};
use api_client::{Client, JobLogsQuery};
use api_types::job::{Job, JobType};
use api_types::log::{LogLine, LogSource, LogStream};
use api_types::{ExecutionId, JobId};
use futures_util::StreamExt;

use crate::output::{Out, SpinnerHandle, note};
use crate::reconnect::Reconnect;

/// The execution and stream of a line.
type Source = (ExecutionId, LogStream);

/// Writes lines to the terminal.
#[derive(Debug)]
pub(crate) struct Printer {
    out: Out,
    /// Lines have the execution as a prefix.
    prefixed: bool,
    timestamps: bool,
    shown: HashMap<Source, u64>,
    /// Lines to skip after a stream was opened again.
    to_skip: HashMap<Source, u64>,
    /// Sources whose last line is incomplete on the terminal.
    unfinished: HashSet<Source>,
    remarks: HashSet<(ExecutionId, String)>,
    spinner: SpinnerHandle,
}

/// Shows the existing output.
pub(crate) async fn all(client: &Client, job: &Job, out: Out) -> Result<()> {
    let mut printer = Printer::new(out).of(job);
    read(client, &job.id.to_string(), &JobLogsQuery::default(), &mut printer).await
}

/// Shows the output live until the job is over.
pub(crate) async fn follow(
    client: &Client,
    id: JobId,
    out: Out,
    spinner: &mut SpinnerHandle,
) -> Result<()> {
    let mut printer = Printer::new(out).of(&client.describe_job(id).await?);
    printer.spinner = std::mem::take(spinner);
    let query = JobLogsQuery { follow: true, ..JobLogsQuery::default() };
    read(client, &id.to_string(), &query, &mut printer).await
}

/// Shows the lines of a query.
pub(crate) async fn read(
    client: &Client,
    job: &str,
    query: &JobLogsQuery,
    printer: &mut Printer,
) -> Result<()> {
    let mut reconnect = Reconnect::default();
    loop {
        let error = match client.job_logs(job, query).await {
            Ok(mut lines) => {
                reconnect.succeeded();
                loop {
                    match lines.next().await {
                        Some(Ok(line)) => printer.print(&line)?,
                        Some(Err(error)) => break error,
                        None => return Ok(()),
                    }
                }
            }
            Err(error) => error,
        };
        if !query.follow || query.tail.is_some() {
            return Err(error).context("the output stream broke");
        }
        tokio::time::sleep(reconnect.retry_delay(error)?).await;
        printer.skip_shown();
    }
}

// === impl Printer ===

impl Printer {
    pub(crate) fn new(out: Out) -> Self {
        Self {
            out,
            prefixed: false,
            timestamps: false,
            shown: HashMap::new(),
            to_skip: HashMap::new(),
            unfinished: HashSet::new(),
            remarks: HashSet::new(),
            spinner: SpinnerHandle::default(),
        }
    }

    /// Enables prefixes as in the service's plain text: for jobs with several executions at a time.
    pub(crate) fn of(mut self, job: &Job) -> Self {
        self.prefixed = match job.spec.job_type {
            JobType::Batch | JobType::Service => job.spec.count > 1,
            JobType::Ops | JobType::Daemon => true,
        };
        self
    }

    pub(crate) fn with_timestamps(mut self) -> Self {
        self.timestamps = true;
        self
    }

    fn skip_shown(&mut self) {
        self.to_skip.clone_from(&self.shown);
    }

    fn print(&mut self, line: &LogLine) -> Result<()> {
        let stream = match line.source {
            LogSource::Stdout => LogStream::Stdout,
            LogSource::Stderr => LogStream::Stderr,
            LogSource::Service => {
                if self.remarks.insert((line.execution_id, line.line.clone())) {
                    self.spinner.clear();
                    note(&format!("jobctl: {}: {}", line.execution_id.short(), line.line));
                }
                return Ok(());
            }
        };
        let source = (line.execution_id, stream);
        if let Some(left) = self.to_skip.get_mut(&source).filter(|left| **left > 0) {
            *left -= 1;
            return Ok(());
        }
        *self.shown.entry(source).or_default() += 1;
        self.spinner.clear();
        let text = self.text(source, line);
        match stream {
            LogStream::Stdout => self.out.text(&text),
            LogStream::Stderr => Ok(std::io::stderr().write_all(text.as_bytes())?),
        }
    }

    /// Joins the pieces of a partial line, unless lines have prefixes.
    fn text(&mut self, source: Source, line: &LogLine) -> String {
        let mut text = String::new();
        let is_continuation = self.unfinished.remove(&source);
        if !is_continuation {
            if self.timestamps {
                text.push_str(&format!("{} ", line.time));
            }
            if self.prefixed {
                text.push_str(&format!("{} | ", line.execution_id.short()));
            }
        }
        text.push_str(&line.line);
        // Pieces of several executions could mix, so each becomes a line.
        if line.partial && !self.prefixed {
            self.unfinished.insert(source);
        } else {
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(execution: u8, text: &str, partial: bool) -> LogLine {
        let id = format!("e-0000000{execution}-0000-4000-8000-000000000000");
        LogLine {
            execution_id: id.parse().unwrap(),
            source: LogSource::Stdout,
            time: "T".to_owned(),
            line: text.to_owned(),
            partial,
            offset: None,
        }
    }

    fn text(printer: &mut Printer, line: &LogLine) -> String {
        printer.text((line.execution_id, LogStream::Stdout), line)
    }

    #[test]
    fn the_pieces_of_a_line_are_joined() {
        let mut printer = Printer::new(Out::new()).with_timestamps();
        assert_eq!(text(&mut printer, &line(1, "ab", true)), "T ab");
        assert_eq!(text(&mut printer, &line(1, "cd", false)), "cd\n");
        assert_eq!(text(&mut printer, &line(1, "ef", false)), "T ef\n");
    }

    #[test]
    fn lines_of_several_executions_have_a_prefix() {
        let mut printer = Printer { prefixed: true, ..Printer::new(Out::new()) };
        assert_eq!(text(&mut printer, &line(1, "ab", true)), "e-00000001 | ab\n");
        assert_eq!(text(&mut printer, &line(2, "cd", false)), "e-00000002 | cd\n");
    }

    #[test]
    fn shown_lines_are_skipped_after_a_break() {
        let mut printer = Printer::new(Out::new());
        let source = (line(1, "", false).execution_id, LogStream::Stdout);
        printer.print(&line(1, "a line of a test", false)).unwrap();
        printer.skip_shown();
        printer.print(&line(1, "a line of a test", false)).unwrap();
        assert_eq!(printer.shown[&source], 1);
        printer.print(&line(1, "another line of a test", false)).unwrap();
        assert_eq!(printer.shown[&source], 2);
    }
}
