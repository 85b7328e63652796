//! What tasks print, line by line: standard output to standard output, errors to standard error.
//!
//! A stream that breaks while it is followed is opened anew, and what was shown of each execution
//! is passed over by counting lines: the service tells them in the same order every time. Where
//! only the last lines were asked for there is nothing to count from, and the break is told.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use anyhow::{Context, Result};
use api_client::{Client, JobLogsQuery};
use api_types::job::{Job, JobType};
use api_types::log::{LogLine, LogSource, LogStream};
use api_types::{ExecutionId, JobId};
use futures_util::StreamExt;

use crate::output::{Curtain, Out, note};
use crate::patience::Patience;

/// Whose lines, and on which stream.
type Source = (ExecutionId, LogStream);

/// Where a line of a task belongs.
#[derive(Debug)]
pub(crate) struct Printer {
    out: Out,
    /// Lines of several executions say whose they are.
    prefixed: bool,
    timestamps: bool,
    shown: HashMap<Source, u64>,
    /// How many lines of a stream that was opened anew were shown already.
    passing: HashMap<Source, u64>,
    /// The beginning of this line stands there already.
    unfinished: HashSet<Source>,
    remarks: HashSet<(ExecutionId, String)>,
    curtain: Curtain,
}

/// Everything that is there now.
pub(crate) async fn all(client: &Client, job: &Job, out: Out) -> Result<()> {
    let mut printer = Printer::new(out).of(job);
    read(client, &job.id.to_string(), &JobLogsQuery::default(), &mut printer).await
}

/// Everything, as it comes, until the job is over.
pub(crate) async fn follow(
    client: &Client,
    id: JobId,
    out: Out,
    curtain: &mut Curtain,
) -> Result<()> {
    let mut printer = Printer::new(out).of(&client.describe_job(id).await?);
    printer.curtain = std::mem::take(curtain);
    let query = JobLogsQuery { follow: true, ..JobLogsQuery::default() };
    read(client, &id.to_string(), &query, &mut printer).await
}

/// Shows what the service tells.
pub(crate) async fn read(
    client: &Client,
    job: &str,
    query: &JobLogsQuery,
    printer: &mut Printer,
) -> Result<()> {
    let mut patience = Patience::default();
    loop {
        let error = match client.job_logs(job, query).await {
            Ok(mut lines) => {
                patience.answered();
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
            return Err(error).context("the output broke off");
        }
        tokio::time::sleep(patience.forgive(error)?).await;
        printer.begin_anew();
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
            passing: HashMap::new(),
            unfinished: HashSet::new(),
            remarks: HashSet::new(),
            curtain: Curtain::default(),
        }
    }

    /// Like the service in plain text: a job that has one execution at a time needs no names.
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

    fn begin_anew(&mut self) {
        self.passing.clone_from(&self.shown);
    }

    fn print(&mut self, line: &LogLine) -> Result<()> {
        let stream = match line.source {
            LogSource::Stdout => LogStream::Stdout,
            LogSource::Stderr => LogStream::Stderr,
            LogSource::Service => {
                if self.remarks.insert((line.execution_id, line.line.clone())) {
                    self.curtain.close();
                    note(&format!("jobctl: {}: {}", line.execution_id.short(), line.line));
                }
                return Ok(());
            }
        };
        let source = (line.execution_id, stream);
        if let Some(left) = self.passing.get_mut(&source).filter(|left| **left > 0) {
            *left -= 1;
            return Ok(());
        }
        *self.shown.entry(source).or_default() += 1;
        self.curtain.close();
        let text = self.text(source, line);
        match stream {
            LogStream::Stdout => self.out.text(&text),
            LogStream::Stderr => Ok(std::io::stderr().write_all(text.as_bytes())?),
        }
    }

    /// A line that comes in pieces becomes one line again, where no other comes in between.
    fn text(&mut self, source: Source, line: &LogLine) -> String {
        let mut text = String::new();
        let goes_on = self.unfinished.remove(&source);
        if !goes_on {
            if self.timestamps {
                text.push_str(&format!("{} ", line.time));
            }
            if self.prefixed {
                text.push_str(&format!("{} | ", line.execution_id.short()));
            }
        }
        text.push_str(&line.line);
        // Of several executions pieces might mix: there each is a line of its own.
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
        }
    }

    fn text(printer: &mut Printer, line: &LogLine) -> String {
        printer.text((line.execution_id, LogStream::Stdout), line)
    }

    #[test]
    fn a_line_in_pieces_becomes_one_again() {
        let mut printer = Printer::new(Out::new()).with_timestamps();
        assert_eq!(text(&mut printer, &line(1, "ab", true)), "T ab");
        assert_eq!(text(&mut printer, &line(1, "cd", false)), "cd\n");
        assert_eq!(text(&mut printer, &line(1, "ef", false)), "T ef\n");
    }

    #[test]
    fn lines_of_several_executions_say_whose_they_are() {
        let mut printer = Printer { prefixed: true, ..Printer::new(Out::new()) };
        assert_eq!(text(&mut printer, &line(1, "ab", true)), "e-00000001 | ab\n");
        assert_eq!(text(&mut printer, &line(2, "cd", false)), "e-00000002 | cd\n");
    }

    #[test]
    fn what_was_shown_is_passed_over_after_a_break() {
        let mut printer = Printer::new(Out::new());
        let source = (line(1, "", false).execution_id, LogStream::Stdout);
        printer.print(&line(1, "a line of a test", false)).unwrap();
        printer.begin_anew();
        printer.print(&line(1, "a line of a test", false)).unwrap();
        assert_eq!(printer.shown[&source], 1);
        printer.print(&line(1, "another line of a test", false)).unwrap();
        assert_eq!(printer.shown[&source], 2);
    }
}
