//! What the demo tells: the nodes, the job as it goes on, its outputs, a history, what to try.

use std::time::{Duration, Instant};

use api_client::{Client, ExecutionsQuery, HistoryQuery};
use api_types::execution::{ComputeState, Execution};
use api_types::history::HistoryEvent;
use api_types::job::{Job, JobStateType};
use api_types::node::{Node, NodeType};
use api_types::quantity::{Bytes, Millis, Resources};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use super::DemoError;
use super::cluster::{DEFAULT_ADDRESS, DemoCluster};
use super::terminal::{Terminal, Tone};
use super::text::{self, COUNT, Counts, TITLE};

/// How long the job may take before the demo gives up.
const JOB_PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at the job.
const INTERVAL: Duration = Duration::from_millis(25);

/// Widths of the columns, by what is in them.
const SHORT_ID: usize = 11;
const TIME: usize = 9;
const STATE: usize = 18;
const NUMBER: usize = 6;

/// Says what runs where.
pub fn introduce(
    terminal: &mut Terminal,
    cluster: &DemoCluster,
    nodes: &[Node],
) -> Result<(), DemoError> {
    terminal.heading("Cluster")?;
    for node in nodes {
        let id = node.peer_info.id.short();
        let (role, about) = match node.node_type {
            NodeType::Requester => ("orchestrator", format!("http://{}", cluster.address())),
            NodeType::Compute => {
                let zone = node.labels.get("zone").map_or("", String::as_str);
                let room = Resources::from(node.compute_node_info.max_capacity);
                let (cpu, memory) = (Millis(room.cpu_millis), Bytes(room.memory_bytes));
                ("agent", format!("zone={zone}, {cpu} CPU, {memory} of memory"))
            }
        };
        terminal.row(&[
            (SHORT_ID + 2, Tone::Plain, role),
            (SHORT_ID, Tone::Faint, &id),
            (0, Tone::Plain, &about),
        ])?;
    }
    if cluster.address() != DEFAULT_ADDRESS {
        terminal.line(&format!(
            "Port {} is taken, so the API is on port {}.",
            DEFAULT_ADDRESS.port(),
            cluster.address().port()
        ))?;
    }
    Ok(())
}

/// Submits the word count.
pub async fn submit(
    terminal: &mut Terminal,
    client: &Client,
    image: &str,
) -> Result<JobId, DemoError> {
    let counts = Counts::of_text();
    terminal.heading("Job")?;
    terminal.line(&format!(
        "Count the words of \"{TITLE}\" ({} lines), shared by {COUNT} executions.",
        counts.lines
    ))?;
    let created = text::create(client, image).await?;
    terminal.line(&format!("Accepted as {}", created.job_id))?;
    for warning in &created.warnings {
        terminal.row(&[(0, Tone::Busy, warning)])?;
    }
    Ok(created.job_id)
}

/// Shows every recorded change as it comes, until the job has ended.
pub async fn follow(terminal: &mut Terminal, client: &Client, id: JobId) -> Result<Job, DemoError> {
    terminal.heading("States as they change")?;
    let begin = Instant::now();
    let mut shown = 0;
    loop {
        // The job first: the history that is read after its end has the end in it.
        let job = client.describe_job(id).await?;
        let query = HistoryQuery { limit: Some(1000), ..HistoryQuery::default() };
        let history = client.job_history(id, &query).await?.history;
        for event in history.iter().skip(shown) {
            show_change(terminal, event, job.create_time)?;
        }
        shown = history.len();
        if job.state.state_type.is_terminal() {
            return Ok(job);
        }
        if begin.elapsed() > JOB_PATIENCE {
            return Err(DemoError::Story(format!(
                "the job is still {} after {} s: {}",
                job.state.state_type,
                JOB_PATIENCE.as_secs(),
                job.state.message
            )));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Shows what each execution printed, and whether it adds up; answers whether it does.
pub async fn show_outputs(
    terminal: &mut Terminal,
    client: &Client,
    job: &Job,
) -> Result<bool, DemoError> {
    terminal.heading("Outputs")?;
    terminal.row(&[
        (SHORT_ID, Tone::Faint, "execution"),
        (SHORT_ID, Tone::Faint, "node"),
        (NUMBER, Tone::Faint, "exit"),
        (NUMBER, Tone::Faint, "lines"),
        (NUMBER, Tone::Faint, "words"),
        (NUMBER, Tone::Faint, "bytes"),
    ])?;
    let mut sum = Counts::default();
    for execution in executions_by_name(client, job.id).await? {
        let output = &execution.run_output;
        let exit = output.exit_code.to_string();
        let (id, node) = (execution.id.short(), execution.node_id.short());
        let head = [(SHORT_ID, Tone::Plain, id.as_str()), (SHORT_ID, Tone::Faint, node.as_str())];
        match Counts::parse(&output.stdout) {
            Some(counts) => {
                sum = sum.plus(counts);
                show_counts(terminal, &head, &exit, counts)?;
            }
            None => {
                let reason =
                    [&output.stdout, &output.stderr, &output.runner_error].map(|t| t.trim());
                let reason = reason.join(" ");
                let tail = [(NUMBER, Tone::Bad, exit.as_str()), (0, Tone::Bad, reason.as_str())];
                terminal.row(&[head.as_slice(), &tail].concat())?;
            }
        }
    }
    let head = [(SHORT_ID, Tone::Heading, "sum"), (SHORT_ID, Tone::Plain, "")];
    show_counts(terminal, &head, "", sum)?;
    let right = job.state.state_type == JobStateType::Completed && sum == Counts::of_text();
    let (tone, verdict) = if right {
        (Tone::Good, "The job completed, and the counts add up to the whole text.".to_owned())
    } else {
        let message = &job.state.message;
        (Tone::Bad, format!("The job is {}: {message}", job.state.state_type))
    };
    terminal.row(&[(0, tone, &verdict)])?;
    Ok(right)
}

/// Shows the recorded life of the job's first execution.
pub async fn show_history(
    terminal: &mut Terminal,
    client: &Client,
    id: JobId,
) -> Result<(), DemoError> {
    let Some(execution) = executions_by_name(client, id).await?.into_iter().next() else {
        return Ok(());
    };
    terminal.heading(&format!("History of {}", execution.id))?;
    let query =
        HistoryQuery { execution_id: Some(execution.id.to_string()), ..HistoryQuery::default() };
    for event in client.job_history(id, &query).await?.history {
        let Some(change) = event.execution_state else { continue };
        let numbers = format!("{} -> {}", u8::from(change.previous), u8::from(change.new));
        terminal.row(&[
            (NUMBER, Tone::Faint, &event.new_revision.to_string()),
            (NUMBER + 2, Tone::Plain, &numbers),
            (STATE, tone_of(change.new), &format!("{:?}", change.new)),
            (0, Tone::Plain, &event.comment),
        ])?;
    }
    Ok(())
}

/// Says what to try next.
pub fn show_curl_lines(
    terminal: &mut Terminal,
    client: &Client,
    id: JobId,
) -> Result<(), DemoError> {
    terminal.heading("Try it")?;
    let url = client.base_url();
    let short = id.short();
    for path in [
        "orchestrator/jobs?pretty".to_owned(),
        format!("orchestrator/jobs/{short}?pretty"),
        format!("orchestrator/jobs/{short}/executions?pretty"),
        format!("orchestrator/jobs/{short}/history?pretty&event_type=job"),
        "orchestrator/nodes?pretty&labels=zone%3Da".to_owned(),
    ] {
        terminal.line(&format!("curl -s '{url}/api/v1/{path}'"))?;
    }
    Ok(())
}

fn show_change(
    terminal: &mut Terminal,
    event: &HistoryEvent,
    begin: Timestamp,
) -> Result<(), DemoError> {
    let since = Timestamp::parse(&event.time).unwrap_or(begin).since(begin);
    let time = format!("{:>6.3} s", since.as_secs_f64());
    let execution = event.execution_id.map(ExecutionId::short).unwrap_or_default();
    let node = event.node_id.map(NodeId::short).unwrap_or_default();
    let (what, state, tone) = match (event.job_state, event.execution_state) {
        (Some(change), _) => ("job", change.new.to_string(), tone_of_job(change.new)),
        (None, Some(change)) => {
            (execution.as_str(), format!("{:?}", change.new), tone_of(change.new))
        }
        (None, None) => (execution.as_str(), String::new(), Tone::Plain),
    };
    terminal.row(&[
        (TIME, Tone::Faint, &time),
        (SHORT_ID, Tone::Plain, what),
        (SHORT_ID, Tone::Faint, &node),
        (STATE, tone, &state),
        (0, Tone::Plain, &event.comment),
    ])?;
    Ok(())
}

fn show_counts(
    terminal: &mut Terminal,
    head: &[(usize, Tone, &str)],
    exit: &str,
    counts: Counts,
) -> Result<(), DemoError> {
    let numbers = [counts.lines, counts.words, counts.bytes].map(|number| number.to_string());
    let mut cells = head.to_vec();
    cells.push((NUMBER, Tone::Plain, exit));
    cells.extend(numbers.iter().map(|number| (NUMBER, Tone::Plain, number.as_str())));
    terminal.row(&cells)?;
    Ok(())
}

async fn executions_by_name(client: &Client, id: JobId) -> Result<Vec<Execution>, DemoError> {
    let mut executions = client.job_executions(id, &ExecutionsQuery::default()).await?.executions;
    executions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(executions)
}

fn tone_of_job(state: JobStateType) -> Tone {
    match state {
        JobStateType::Pending => Tone::Faint,
        JobStateType::Queued | JobStateType::Running => Tone::Busy,
        JobStateType::Completed => Tone::Good,
        JobStateType::Failed | JobStateType::Stopped => Tone::Bad,
    }
}

fn tone_of(state: ComputeState) -> Tone {
    match state {
        ComputeState::Undefined | ComputeState::New | ComputeState::AskForBid => Tone::Faint,
        ComputeState::AskForBidAccepted | ComputeState::BidAccepted => Tone::Busy,
        ComputeState::Completed => Tone::Good,
        ComputeState::AskForBidRejected
        | ComputeState::BidRejected
        | ComputeState::Failed
        | ComputeState::Cancelled => Tone::Bad,
    }
}
