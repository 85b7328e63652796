//! Task output, line by line: stdout to stdout, stderr to stderr.
//!
//! A followed stream that breaks is opened again after the last line of each execution that was
//! shown: each line says how many bytes of its stream were before its end. Of more executions than
//! fit into a request, the others begin again, and their lines that were shown are skipped by count.

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use api_client::{Client, JobLogsQuery};
use api_types::job::{Job, JobType};
use api_types::log::{LogLine, LogPosition, LogSource, LogStream};
use api_types::{ExecutionId, JobId};
use futures_util::StreamExt;

use crate::output::{Colours, Out, SpinnerHandle, local_word, note, printable};
use crate::reconnect::Reconnect;

/// The execution and stream of a line.
type Source = (ExecutionId, LogStream);

/// Executions of which a request says where it resumes: their positions have to fit into the head of
/// a request, about 64 KiB.
const MAX_RESUMED: usize = 300;

/// How far an execution was shown.
#[derive(Debug, Default)]
struct Position {
    bytes: LogPosition,
    /// The number of its last line among those of all executions.
    last: u64,
}

/// Writes lines to the terminal.
#[derive(Debug)]
pub(crate) struct Printer {
    out: Out,
    /// Lines have the execution as a prefix.
    prefixed: bool,
    /// The job, for lines of several.
    label: String,
    /// Removes what controls a terminal from each stream.
    colours: HashMap<Source, Colours>,
    timestamps: bool,
    shown: HashMap<Source, u64>,
    /// How far each execution was shown.
    positions: HashMap<ExecutionId, Position>,
    printed: u64,
    /// Lines to skip after a stream was opened again.
    to_skip: HashMap<Source, u64>,
    /// Sources whose last line is incomplete on the terminal.
    unfinished: HashSet<Source>,
    remarks: HashSet<(ExecutionId, String)>,
    spinner: SpinnerHandle,
}

/// Shows the existing output.
pub(crate) async fn all(client: &Client, job: &Job, out: Out) -> Result<()> {
    let mut printer = Printer::new(out).for_job(job);
    read(client, job.id, &JobLogsQuery::default(), &mut printer).await
}

/// Shows the output live until the job is over.
pub(crate) async fn follow(
    client: &Client,
    id: JobId,
    out: Out,
    spinner: &mut SpinnerHandle,
) -> Result<()> {
    let mut printer = Printer::new(out).for_job(&client.describe_job(id).await?);
    printer.spinner = std::mem::take(spinner);
    let query = JobLogsQuery { follow: true, ..JobLogsQuery::default() };
    read(client, id, &query, &mut printer).await
}

/// Shows the lines of a query.
pub(crate) async fn read(
    client: &Client,
    job: JobId,
    query: &JobLogsQuery,
    printer: &mut Printer,
) -> Result<()> {
    let mut reconnect = Reconnect::default();
    let query = &JobLogsQuery { by_time: printer.prefixed, ..query.clone() };
    let mut resumed = query.clone();
    loop {
        let error = match client.job_logs(job, &resumed).await {
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
        if !query.follow || !printer.can_resume(query.tail) {
            return Err(error).context("the output stream broke");
        }
        tokio::time::sleep(reconnect.retry_delay(error)?).await;
        resumed = printer.resume(query);
    }
}

// === impl Printer ===

impl Printer {
    pub(crate) fn new(out: Out) -> Self {
        Self {
            out,
            prefixed: false,
            label: String::new(),
            colours: HashMap::new(),
            timestamps: false,
            shown: HashMap::new(),
            positions: HashMap::new(),
            printed: 0,
            to_skip: HashMap::new(),
            unfinished: HashSet::new(),
            remarks: HashSet::new(),
            spinner: SpinnerHandle::default(),
        }
    }

    /// Enables prefixes as in the service's plain text: for jobs with several executions at a time.
    pub(crate) fn for_job(mut self, job: &Job) -> Self {
        self.prefixed = match job.spec.job_type {
            JobType::Batch | JobType::Service => job.spec.count > 1,
            JobType::Ops | JobType::Daemon => true,
        };
        self
    }

    /// Begins each line with the job and the execution.
    pub(crate) fn labelled(mut self, job: &str) -> Self {
        self.prefixed = true;
        self.label = format!("{} ", printable(job));
        self
    }

    pub(crate) fn with_timestamps(mut self) -> Self {
        self.timestamps = true;
        self
    }

    /// Whether a further request can begin where this output ends. With `--tail 0` no line says
    /// where that is, and of executions beyond those that a request names, the lines before the
    /// tail were not shown and cannot be skipped.
    fn can_resume(&self, tail: Option<u64>) -> bool {
        match tail {
            None => true,
            Some(0) => false,
            Some(_) => self.positions.len() <= MAX_RESUMED,
        }
    }

    /// The request for everything after what was shown.
    fn resume(&mut self, query: &JobLogsQuery) -> JobLogsQuery {
        // The latest: long jobs have many that ended before.
        let mut named: Vec<_> = self.positions.iter().collect();
        named.sort_unstable_by_key(|(_, position)| std::cmp::Reverse(position.last));
        named.truncate(MAX_RESUMED);
        let from = named.iter().map(|(id, position)| {
            let LogPosition { stdout, stderr } = position.bytes;
            format!("{id}.stdout.{stdout},{id}.stderr.{stderr}")
        });
        let from: Vec<_> = from.collect();
        self.to_skip.clone_from(&self.shown);
        for (id, _) in named {
            self.to_skip.remove(&(*id, LogStream::Stdout));
            self.to_skip.remove(&(*id, LogStream::Stderr));
        }
        JobLogsQuery {
            from: (!from.is_empty()).then(|| from.join(",")),
            // An execution that has shown nothing had printed nothing, unless no line came at all.
            tail: query.tail.filter(|_| from.is_empty()),
            ..query.clone()
        }
    }

    fn print(&mut self, line: &LogLine) -> Result<()> {
        let stream = match line.source {
            LogSource::Stdout => LogStream::Stdout,
            LogSource::Stderr => LogStream::Stderr,
            LogSource::Service => {
                if self.remarks.insert((line.execution_id, line.line.clone())) {
                    self.spinner.clear();
                    note(&format!("jobctl: {}: {}", label(line), line.line));
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
        if let Some(offset) = line.offset {
            self.printed += 1;
            let position = self.positions.entry(line.execution_id).or_default();
            *position.bytes.offset_mut(stream) = offset;
            position.last = self.printed;
        }
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
                text.push_str(&format!("{} ", local_word(&line.time)));
            }
            if self.prefixed {
                text.push_str(&format!("{}{} | ", self.label, label(line)));
            }
        }
        let is_cut = line.partial && !self.prefixed;
        if self.is_terminal(source.1) {
            let colours = self.colours.entry(source).or_default();
            text.push_str(&colours.render(&line.line, self.out.colours()));
            if !is_cut {
                text.push_str(colours.end());
            }
        } else {
            text.push_str(&line.line);
        }
        // Pieces of several executions could mix, so each becomes a line.
        if is_cut {
            self.unfinished.insert(source);
        } else {
            text.push('\n');
        }
        text
    }

    fn is_terminal(&self, stream: LogStream) -> bool {
        match stream {
            LogStream::Stdout => self.out.is_terminal(),
            LogStream::Stderr => std::io::stderr().is_terminal(),
        }
    }
}

/// `[2]`; the ID where an older service leaves the index out.
fn label(line: &LogLine) -> String {
    line.index.map_or_else(|| line.execution_id.short(), |index| format!("[{index}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(execution: u8, text: &str, partial: bool) -> LogLine {
        let id = format!("e-0000000{execution}-0000-4000-8000-000000000000");
        LogLine {
            execution_id: id.parse().unwrap(),
            index: Some(execution.into()),
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
        assert_eq!(text(&mut printer, &line(1, "ab", true)), "[1] | ab\n");
        assert_eq!(text(&mut printer, &line(2, "cd", false)), "[2] | cd\n");
    }

    fn shown(lines: &[LogLine]) -> Printer {
        let mut printer = Printer::new(Out::new());
        lines.iter().for_each(|line| printer.print(line).unwrap());
        printer
    }

    #[test]
    fn a_broken_stream_resumes_after_the_last_line_of_each_stream() {
        let at = |execution, stream, offset| LogLine {
            source: stream,
            offset: Some(offset),
            ..line(execution, "a line of a test", false)
        };
        let mut printer = shown(&[
            at(1, LogSource::Stdout, 17),
            at(1, LogSource::Stderr, 9),
            at(1, LogSource::Stdout, 34),
            at(2, LogSource::Stdout, 5),
        ]);
        let query = JobLogsQuery { follow: true, tail: Some(5), ..JobLogsQuery::default() };
        assert!(printer.can_resume(query.tail) && !printer.can_resume(Some(0)));
        let (one, two) = (line(1, "", false).execution_id, line(2, "", false).execution_id);
        let from = format!("{two}.stdout.5,{two}.stderr.0,{one}.stdout.34,{one}.stderr.9");
        let resumed = printer.resume(&query);
        assert_eq!(resumed, JobLogsQuery { follow: true, from: Some(from), ..Default::default() });
        assert!(printer.to_skip.is_empty());
        // Nothing was shown: the same request again.
        assert_eq!(shown(&[]).resume(&query), query);
    }

    #[test]
    fn lines_without_a_position_are_skipped_by_count() {
        let mut printer = shown(&[line(1, "a line of a test", false)]);
        let source = (line(1, "", false).execution_id, LogStream::Stdout);
        printer.resume(&JobLogsQuery::default());
        printer.print(&line(1, "a line of a test", false)).unwrap();
        assert_eq!(printer.shown[&source], 1);
        printer.print(&line(1, "another line of a test", false)).unwrap();
        assert_eq!(printer.shown[&source], 2);
    }
}
