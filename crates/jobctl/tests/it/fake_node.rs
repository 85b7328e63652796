//! A simulated node: it accepts every offer, and the job's image selects its behaviour.

use std::collections::{BTreeMap, BTreeSet};

use api_client::{Client, REQUEST_TIMEOUT};
use api_types::engine::{DockerParams, EngineType, Params, PublisherType};
use api_types::execution::{ComputeState, DesiredState, PublishedResult, RunOutput};
use api_types::log::{
    ArchiveHead, ArchiveRequest, LogData, LogFrame, LogOutput, LogPosition, LogStream,
    MAX_FRAME_OUTPUT_BYTES, StreamRequest,
};
use api_types::node::ComputeNodeInfo;
use api_types::protocol::{Assignment, AssignmentLine, Report, ReportBatch, SessionRequest, Work};
use api_types::quantity::Capacity;
use api_types::source::SourceType;
use api_types::version::VersionRecord;
use api_types::{ExecutionId, NodeId, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::service::Service;

const CAPACITY: Capacity =
    Capacity { cpu: 4.0, memory: 8_000_000_000, disk: 100_000_000_000, gpu: 0 };

/// A simulated node; dropping it stops it.
pub(crate) struct FakeNode {
    pub(crate) id: NodeId,
    running: Option<JoinHandle<()>>,
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

/// Lists are ordered by id, so that the number is also the position.
fn node_id(number: u32) -> NodeId {
    format!("n-{number:08}-0000-4000-8000-000000000000").parse().expect("a node ID")
}

fn hostname(number: u32) -> String {
    ["alpha", "beta", "gamma"][number as usize - 1].to_owned()
}

impl FakeNode {
    /// A node that joins and ignores all offers.
    pub(crate) async fn idle(service: &Service, number: u32) -> Self {
        join(&service.client, number).await;
        Self { id: node_id(number), running: None }
    }

    /// A node that behaves as the image of a job says: `ok` prints a line and completes, `exit-N`
    /// fails with exit code N, `relayed` completes with a result that it sends through the service,
    /// `forever` runs until it is stopped.
    pub(crate) async fn start(service: &Service, number: u32) -> Self {
        let client = service.client.clone();
        let session = join(&client, number).await;
        let id = node_id(number);
        let lines = client.assignments(id, session).await.expect("the stream opens");
        let running = tokio::spawn(async move {
            let mut lines = lines;
            let over = watch::channel(BTreeSet::new()).0;
            let mut simulation = Simulation { client, id, session, known: BTreeMap::new(), over };
            while let Some(Ok(line)) = lines.next().await {
                match line {
                    AssignmentLine::Assignment(assignment) => simulation.act(*assignment).await,
                    AssignmentLine::Stream(request) => simulation.send_output(&request),
                    // What its tasks use is not known.
                    AssignmentLine::Usage(_)
                    | AssignmentLine::Snapshot { .. }
                    | AssignmentLine::KeepAlive
                    | AssignmentLine::Unknown => {}
                }
            }
        });
        Self { id, running: Some(running) }
    }
}

async fn join(client: &Client, number: u32) -> u64 {
    let zone = if number == 1 { "a" } else { "b" };
    let request = SessionRequest {
        name: String::new(),
        addrs: vec![format!("/ip4/10.0.0.{number}/tcp/1234")],
        labels: BTreeMap::from([
            ("hostname".to_owned(), hostname(number)),
            ("zone".to_owned(), zone.to_owned()),
        ]),
        compute_node_info: ComputeNodeInfo {
            execution_engines: vec![EngineType::Docker],
            publishers: vec![PublisherType::Local],
            storage_sources: vec![SourceType::Inline],
            max_capacity: CAPACITY,
            max_job_requirements: CAPACITY,
            ..ComputeNodeInfo::default()
        },
        default_resources: Capacity { cpu: 0.5, memory: 512_000_000, disk: 0, gpu: 0 },
        service_version: VersionRecord {
            git_version: "v0.1.0".to_owned(),
            ..VersionRecord::default()
        },
        probes: false,
        process: None,
    };
    client.join(node_id(number), &request).await.expect("the node joins").session
}

struct Simulation {
    client: Client,
    id: NodeId,
    session: u64,
    /// Parameters of each execution, and the number of reports sent.
    known: BTreeMap<ExecutionId, (DockerParams, u64)>,
    /// Executions whose output is complete.
    over: watch::Sender<BTreeSet<ExecutionId>>,
}

impl Simulation {
    async fn act(&mut self, assignment: Assignment) {
        let id = assignment.execution_id;
        if let Some(work) = &assignment.work {
            self.known.entry(id).or_insert_with(|| (docker(work), 0));
        }
        match assignment.desired_state {
            DesiredState::Pending => self.report(id, ComputeState::AskForBidAccepted).await,
            DesiredState::Running => {
                let docker = self.known[&id].0.clone();
                self.report(id, ComputeState::BidAccepted).await;
                self.end(id, &docker).await;
            }
            DesiredState::Stopped => self.report(id, ComputeState::Cancelled).await,
        }
    }

    async fn end(&mut self, id: ExecutionId, docker: &DockerParams) {
        let mut report = Report::new(id, 0, ComputeState::Undefined);
        match docker.image.as_str() {
            "forever" => return,
            "ok" | "colours" => {
                report.compute_state = ComputeState::Completed;
                report.run_output =
                    Some(RunOutput { stdout: "hello\n".to_owned(), ..RunOutput::default() });
            }
            "relayed" => {
                report.compute_state = ComputeState::Completed;
                report.run_output = Some(RunOutput::default());
                report.published_result = Some(PublishedResult {
                    publisher_type: PublisherType::Local,
                    params: Params::new(),
                });
            }
            image => {
                let exit_code: i32 =
                    image.strip_prefix("exit-").and_then(|code| code.parse().ok()).expect(image);
                report.compute_state = ComputeState::Failed;
                report.message = format!("exit code {exit_code}");
                report.run_output = Some(RunOutput {
                    stderr: "it did not work\n".to_owned(),
                    exit_code,
                    ..RunOutput::default()
                });
            }
        }
        self.send(report).await;
    }

    async fn report(&mut self, id: ExecutionId, compute_state: ComputeState) {
        self.send(Report::new(id, 0, compute_state)).await;
    }

    /// Sends the output of the execution; with `follow`, until it is over.
    fn send_output(&self, request: &StreamRequest) {
        let execution = request.execution_id;
        let Some((docker, _)) = self.known.get(&execution) else { return };
        if let (Some(archive), "relayed") = (&request.archive, docker.image.as_str()) {
            return self.send_archive(request, archive);
        }
        let (stream, text) = output(&docker.image);
        let time = Timestamp::parse("2026-01-02T03:04:05Z").expect("a moment");
        let data = LogData::Text(text);
        let frames = [
            LogFrame::Begin(LogPosition::default()),
            LogFrame::Output(LogOutput { stream, time, data }),
        ];
        let mut over = self.over.subscribe();
        let follow = request.follow;
        let end = async move {
            if follow {
                drop(over.wait_for(|over| over.contains(&execution)).await);
            }
            LogFrame::End
        };
        let frames = stream::iter(frames).chain(stream::once(end)).map(|frame| {
            let mut line = serde_json::to_vec(&frame).expect("JSON");
            line.push(b'\n');
            Ok::<_, std::io::Error>(Bytes::from(line))
        });
        self.answer(request, frames);
    }

    /// Sends what is left of the archive; the first time, half of it.
    fn send_archive(&self, request: &StreamRequest, archive: &ArchiveRequest) {
        let whole = crate::get::archive();
        let (size, start) = (whole.len() as u64, archive.start);
        let rest = whole[usize::try_from(start).expect("it is small")..].to_vec();
        let sent = if start == 0 { rest.len() / 2 } else { rest.len() };
        let head = ArchiveHead { size, start, length: rest.len() as u64, tag: "tag".to_owned() };
        let content = rest[..sent].chunks(MAX_FRAME_OUTPUT_BYTES / 2);
        let content = content.map(|bytes| LogFrame::Content { base64: STANDARD.encode(bytes) });
        let frames = std::iter::once(LogFrame::Archive(head)).chain(content);
        let lines = frames.map(|frame| {
            let mut line = serde_json::to_vec(&frame).expect("JSON");
            line.push(b'\n');
            Ok::<_, std::io::Error>(Bytes::from(line))
        });
        self.answer(request, stream::iter(lines.collect::<Vec<_>>()));
    }

    fn answer(
        &self,
        request: &StreamRequest,
        lines: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) {
        let (client, id, stream_id) = (self.client.clone(), self.id, request.stream_id);
        tokio::spawn(async move {
            // The reader may have disconnected.
            drop(client.answer_stream(id, stream_id, lines).await);
        });
    }

    async fn send(&mut self, mut report: Report) {
        let Some((_, sequence)) = self.known.get_mut(&report.execution_id) else { return };
        *sequence += 1;
        report.sequence = *sequence;
        let (execution, is_last) = (report.execution_id, report.compute_state.is_terminal());
        let batch = ReportBatch { session: self.session, reports: vec![report] };
        self.client.report(self.id, &batch, REQUEST_TIMEOUT).await.expect("the report is accepted");
        if is_last {
            self.over.send_if_modified(|over| over.insert(execution));
        }
    }
}

/// The output of a task with this image.
fn output(image: &str) -> (LogStream, String) {
    match image {
        "ok" => (LogStream::Stdout, "hello\n".to_owned()),
        // A colour, the clipboard, a title, and a screen that is cleared.
        "colours" => (
            LogStream::Stdout,
            "\x1b[31mred\x1b[0m \x1b]52;c;c2VjcmV0\x07\x1b]0;title\x1b\\\x1b[2Jplain\n".to_owned(),
        ),
        "forever" => (LogStream::Stdout, "tick\n".to_owned()),
        _ => (LogStream::Stderr, "it did not work\n".to_owned()),
    }
}

fn docker(work: &Work) -> DockerParams {
    let params = serde_json::Value::Object(work.task.engine.params.clone());
    serde_json::from_value::<DockerParams>(params).expect("docker's parameters")
}
