//! The demo's story: nodes, progress of the job, outputs, a history, and examples.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api_client::{Client, ExecutionsQuery, HistoryQuery};
use api_types::execution::Execution;
use api_types::job::{Job, JobStateType};
use api_types::node::{Node, NodeType};
use api_types::quantity::{Bytes, Millis, Resources};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use super::changes::{State, grouped};
use super::cluster::{DEFAULT_ADDRESS, DemoCluster};
use super::error::DemoError;
use super::terminal::{Terminal, Tone};
use super::text::{self, COUNT, Counts, TITLE};

/// Time limit of the job.
const JOB_TIMEOUT: Duration = Duration::from_secs(120);

/// Interval between requests for the job.
const INTERVAL: Duration = Duration::from_millis(25);

/// Widths of the columns.
const SHORT_ID: usize = 11;
const NAME: usize = 14;
const TIME: usize = 10;
const STATE: usize = 18;
const NUMBER: usize = 6;

/// Runs and shows one job on the cluster.
pub struct Story<'a> {
    terminal: &'a mut Terminal,
    client: &'a Client,
    cluster: &'a DemoCluster,
    /// Names of the nodes in the demo.
    names: BTreeMap<NodeId, String>,
}

// === impl Story ===

impl<'a> Story<'a> {
    /// Shows the nodes.
    pub fn begin(
        terminal: &'a mut Terminal,
        cluster: &'a DemoCluster,
        nodes: &[Node],
    ) -> Result<Self, DemoError> {
        terminal.heading("The cluster: one orchestrator and two agents in this process")?;
        let mut names = BTreeMap::new();
        for node in nodes {
            let id = node.peer_info.id;
            let (name, about) = match node.node_type {
                NodeType::Requester => {
                    ("orchestrator".to_owned(), format!("http://{}", cluster.address()))
                }
                NodeType::Compute => {
                    let zone = node.labels.get("zone").map_or("", String::as_str);
                    let capacity = Resources::from(node.compute_node_info.max_capacity);
                    let (cpu, memory) = (Millis(capacity.cpu_millis), Bytes(capacity.memory_bytes));
                    let engines: Vec<_> = node
                        .compute_node_info
                        .execution_engines
                        .iter()
                        .map(ToString::to_string)
                        .collect();
                    let engines = engines.join(" and ");
                    let about =
                        format!("{engines}, {cpu} CPU, {memory} of memory, label zone={zone}");
                    (format!("agent {zone}"), about)
                }
            };
            terminal.row(&[
                (NAME, Tone::Plain, &name),
                (SHORT_ID, Tone::Faint, &id.short()),
                (0, Tone::Plain, &about),
            ])?;
            names.insert(id, name);
        }
        if cluster.address() != DEFAULT_ADDRESS {
            let (preferred, actual) = (DEFAULT_ADDRESS.port(), cluster.address().port());
            let note = format!("Port {preferred} is in use; the API is on port {actual}.");
            terminal.row(&[(0, Tone::Busy, &note)])?;
        }
        if let Some(note) = cluster.engine.note() {
            terminal.row(&[(0, Tone::Busy, &note)])?;
        }
        Ok(Self { terminal, client: &cluster.client, cluster, names })
    }

    /// Submits the word count.
    pub async fn submit(&mut self) -> Result<JobId, DemoError> {
        let lines = Counts::of_text().lines;
        self.terminal
            .heading(&format!("The job: a word count in {}", self.cluster.engine.kind()))?;
        self.terminal.line(&format!(
            "{COUNT} executions each count a share of the {lines} lines of \"{TITLE}\"."
        ))?;
        let created = text::create(self.client, &self.cluster.engine).await?;
        self.terminal.row(&[
            (0, Tone::Plain, "PUT /api/v1/orchestrator/jobs"),
            (0, Tone::Faint, "created"),
            (0, Tone::Good, &created.job_id.to_string()),
        ])?;
        for warning in &created.warnings {
            self.terminal.row(&[(0, Tone::Busy, warning)])?;
        }
        let page = format!("{}/jobs/{}", self.client.base_url(), created.job_id.short());
        self.terminal
            .row(&[(0, Tone::Plain, "Look at it in a browser:"), (0, Tone::Good, &page)])?;
        Ok(created.job_id)
    }

    /// Shows every recorded change until the job has ended.
    pub async fn follow(&mut self, id: JobId) -> Result<Job, DemoError> {
        self.terminal.heading("State changes")?;
        let begin = Instant::now();
        let mut shown = 0;
        let mut numbers = BTreeMap::new();
        loop {
            // The job is read first, so that the history after its end is complete.
            let job = self.client.describe_job(id).await?;
            let query = HistoryQuery { limit: Some(1000), ..HistoryQuery::default() };
            let history = self.client.job_history(id, &query).await?.history;
            let news = &history[shown..];
            let is_unknown = |id: ExecutionId| !numbers.contains_key(&id);
            if news.iter().filter_map(|event| event.execution_id).any(is_unknown) {
                let executions = self.executions(id).await?;
                numbers = executions.iter().map(|one| (one.id, number_of(one))).collect();
            }
            for change in grouped(news, &numbers) {
                let at = Timestamp::parse(&change.time).unwrap_or(job.create_time);
                let time = format!("{:>7.3} s", at.since(job.create_time).as_secs_f64());
                self.terminal.row(&[
                    (TIME, Tone::Faint, &time),
                    (COUNT * "[0] ".len(), Tone::Plain, &change.subject.text()),
                    (STATE, change.state.tone(), &change.state.text()),
                    (0, Tone::Plain, &change.comment),
                ])?;
            }
            shown = history.len();
            if job.state.state_type.is_terminal() {
                return Ok(job);
            }
            if begin.elapsed() > JOB_TIMEOUT {
                return Err(DemoError::Story(format!(
                    "the job is still {} after {} s: {}",
                    job.state.state_type,
                    JOB_TIMEOUT.as_secs(),
                    job.state.message
                )));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Shows the output of each execution, and returns whether the sum is correct.
    pub async fn show_outputs(&mut self, job: &Job) -> Result<bool, DemoError> {
        self.terminal.heading("Outputs, from the executions' RunOutput")?;
        self.counts_row(
            Tone::Faint,
            ["execution", "node", "id"],
            "exit",
            ["lines", "words", "bytes"],
        )?;
        let mut sum = Counts::default();
        for execution in self.executions(job.id).await? {
            let output = &execution.run_output;
            let exit = output.exit_code.to_string();
            let (id, node) = (execution.id.short(), self.name_of(execution.node_id));
            let head = [execution.name.as_str(), &node, &id];
            if let Some(counts) = Counts::parse(&output.stdout) {
                sum = sum.plus(counts);
                self.counts_row(
                    Tone::Plain,
                    head,
                    &exit,
                    counts.texts().each_ref().map(String::as_str),
                )?;
            } else {
                let texts = [&output.stdout, &output.stderr, &output.runner_error];
                let text = texts.map(|text| text.trim()).join(" ");
                self.counts_row(Tone::Bad, head, &exit, [&text, "", ""])?;
            }
        }
        self.counts_row(
            Tone::Heading,
            ["sum", "", ""],
            "",
            sum.texts().each_ref().map(String::as_str),
        )?;
        let whole = Counts::of_text();
        let is_correct = job.state.state_type == JobStateType::Completed && sum == whole;
        if is_correct {
            let summary = "✓ The job completed, and the counts add up to the whole text.";
            self.terminal.row(&[(0, Tone::Good, summary)])?;
        } else {
            let (state, message) = (job.state.state_type, &job.state.message);
            let summary = format!(
                "✗ The job is {state} ({message}); the whole text has {} lines, {} words, {} bytes.",
                whole.lines, whole.words, whole.bytes
            );
            self.terminal.row(&[(0, Tone::Bad, &summary)])?;
        }
        Ok(is_correct)
    }

    /// Shows the history of the job's first execution.
    pub async fn show_history(&mut self, id: JobId) -> Result<(), DemoError> {
        let Some(execution) = self.executions(id).await?.into_iter().next() else {
            return Ok(());
        };
        self.terminal.heading(&format!("History of {}, {}", execution.name, execution.id))?;
        let query = HistoryQuery {
            execution_id: Some(execution.id.to_string()),
            ..HistoryQuery::default()
        };
        for event in self.client.job_history(id, &query).await?.history {
            let Some(change) = event.execution_state else { continue };
            let state = State::Execution(change.new);
            let numbers = format!("{} → {}", u8::from(change.previous), u8::from(change.new));
            self.terminal.row(&[
                (NUMBER, Tone::Faint, &format!("{:>3}", event.new_revision)),
                (NUMBER + 2, Tone::Plain, &numbers),
                (STATE, state.tone(), &state.text()),
                (0, Tone::Plain, &event.comment),
            ])?;
        }
        Ok(())
    }

    /// Shows example requests.
    pub fn show_what_to_try(&mut self, id: JobId) -> Result<(), DemoError> {
        self.terminal.heading("Try it from another terminal")?;
        let url = self.client.base_url();
        let short = id.short();
        for path in [
            "orchestrator/jobs?pretty".to_owned(),
            format!("orchestrator/jobs/{short}/executions?pretty"),
            format!("orchestrator/jobs/{short}/history?pretty&event_type=job"),
            "orchestrator/nodes?pretty&labels=zone%3Da".to_owned(),
        ] {
            self.terminal.line(&format!("curl -s '{url}/api/v1/{path}'"))?;
        }
        let header = "-H 'Content-Type: application/json'";
        self.terminal
            .line(&format!("curl -s -X PUT {url}/api/v1/orchestrator/jobs {header} -d '"))?;
        let [beginning, end] = self.cluster.engine.hello();
        self.terminal.line(&format!("  {beginning}"))?;
        self.terminal.line(&format!("    {end}'"))?;
        self.terminal.blank()?;
        let page = format!("The cluster stays up until Ctrl-C; its pages are at {url}/");
        self.terminal.row(&[(0, Tone::Heading, &page)])?;
        Ok(())
    }

    fn counts_row(
        &mut self,
        tone: Tone,
        [name, node, id]: [&str; 3],
        exit: &str,
        counts: [&str; 3],
    ) -> Result<(), DemoError> {
        let [exit, lines, words, bytes] =
            [exit, counts[0], counts[1], counts[2]].map(|text| format!("{text:>NUMBER$}"));
        self.terminal.row(&[
            (NAME, tone, name),
            (NAME, tone, node),
            (SHORT_ID, Tone::Faint, id),
            (NUMBER, tone, &exit),
            (NUMBER, tone, &lines),
            (NUMBER, tone, &words),
            (NUMBER, tone, &bytes),
        ])?;
        Ok(())
    }

    fn name_of(&self, node: NodeId) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| node.short())
    }

    /// The executions, sorted by number.
    async fn executions(&self, id: JobId) -> Result<Vec<Execution>, DemoError> {
        let query = ExecutionsQuery::default();
        let mut executions = self.client.job_executions(id, &query).await?.executions;
        executions.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(executions)
    }
}

/// `[2]` of `word-count[2]`.
fn number_of(execution: &Execution) -> String {
    let at = execution.name.rfind('[').unwrap_or(0);
    execution.name[at..].to_owned()
}
