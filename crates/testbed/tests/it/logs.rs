//! Task output for readers: live and later, of one or all executions, with fast and slow readers.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use api_client::{ClientError, JobLogsQuery, LogsQuery};
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::log::{LogLine, LogSource, LogStream};
use api_types::{Code, ExecutionId, JobId};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, TIMEOUT, batch, eventually};

fn all() -> JobLogsQuery {
    JobLogsQuery::default()
}

fn follow() -> JobLogsQuery {
    JobLogsQuery { follow: true, ..all() }
}

fn only(id: impl ToString) -> JobLogsQuery {
    JobLogsQuery { execution_id: Some(id.to_string()), ..all() }
}

async fn lines(cluster: &Cluster, job: JobId, query: &JobLogsQuery) -> Vec<LogLine> {
    let lines = cluster.client().job_logs(job, query).await.expect("the logs open");
    lines.try_collect().await.expect("the stream is complete")
}

async fn text(cluster: &Cluster, job: JobId, query: &JobLogsQuery) -> Vec<u8> {
    let pieces = cluster.client().job_logs_text(job, query).await.expect("the logs open");
    pieces.try_collect::<Vec<_>>().await.expect("the stream is complete").concat()
}

async fn next(stream: &mut BoxStream<'static, Result<LogLine, ClientError>>) -> LogLine {
    let next = tokio::time::timeout(TIMEOUT, stream.next()).await;
    next.expect("a line in time").expect("the stream continues").expect("a line")
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("line {number}")).collect()
}

fn of_source(lines: &[LogLine], source: LogSource) -> Vec<String> {
    lines.iter().filter(|line| line.source == source).map(|line| line.line.clone()).collect()
}

#[tokio::test]
async fn a_task_is_followed_while_it_runs_and_to_its_end() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&batch(&cluster.image, &["lines", "40", "both", "100"])).await;
    // The request precedes the first output.
    let mut stream = cluster.client().job_logs(job, &follow()).await.unwrap();
    let first = next(&mut stream).await;
    assert_eq!(first.line, "line 0");
    let state = cluster.execution(job).await.compute_state.state_type;
    assert_eq!(state, ComputeState::BidAccepted, "the output is available while the task runs");
    let mut lines = vec![first];
    while let Some(line) = stream.next().await {
        lines.push(line.unwrap());
    }
    assert_eq!(of_source(&lines, LogSource::Stdout), numbered(40));
    assert_eq!(of_source(&lines, LogSource::Stderr), numbered(40));
    let execution = cluster.execution(job).await;
    assert!(lines.iter().all(|line| line.execution_id == execution.id && !line.partial));
    for source in [LogSource::Stdout, LogSource::Stderr] {
        let times: Vec<_> =
            lines.iter().filter(|line| line.source == source).map(|line| &line.time).collect();
        assert!(times.is_sorted() && times.iter().all(|time| time.ends_with('Z')), "{times:?}");
    }
    cluster.wait_for_job(job, JobStateType::Completed).await;
    // The node's disk has the same lines with the same times.
    let kept = self::lines(&cluster, job, &all()).await;
    let of_stderr = |lines: &[LogLine]| {
        let mut lines = lines.to_vec();
        lines.retain(|line| line.source == LogSource::Stderr);
        lines
    };
    assert_eq!((kept.len(), of_stderr(&kept)), (80, of_stderr(&lines)));
}

#[tokio::test]
async fn executions_are_followed_across_nodes_including_later_ones() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("1")).agent(AgentSpec::new().cpu("1"));
    let Some(cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["lines", "200", "stdout", "10"]);
    // Two fit on each node; the others start when these end.
    job["Count"] = json!(6);
    let job = cluster.submit(&job).await;
    let text = cluster.client().job_logs_text(job, &follow()).await.unwrap();
    let text = tokio::spawn(text.try_collect::<Vec<_>>());
    let lines = lines(&cluster, job, &follow()).await;
    cluster.wait_for_job(job, JobStateType::Completed).await;
    let executions = cluster.executions(job).await;
    let nodes: BTreeSet<_> = executions.iter().map(|execution| execution.node_id).collect();
    assert_eq!((executions.len(), nodes.len()), (6, 2));

    let mut of_each: BTreeMap<ExecutionId, Vec<String>> = BTreeMap::new();
    for line in lines {
        assert_eq!(line.source, LogSource::Stdout, "{line:?}");
        of_each.entry(line.execution_id).or_default().push(line.line);
    }
    assert_eq!(of_each.len(), 6);
    for (id, lines) in &of_each {
        assert_eq!(lines, &numbered(200), "{id}");
    }
    // In plain text each line has a prefix.
    let text = String::from_utf8(text.await.unwrap().unwrap().concat()).unwrap();
    for id in of_each.keys() {
        let prefix = format!("{} | ", id.short());
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        assert_eq!(lines, numbered(200), "{id}");
    }
    assert_eq!(text.lines().count(), 6 * 200);

    // A single execution has no prefix; the id may be short.
    let one = executions[3].id;
    let plain = self::text(&cluster, job, &only(one.short())).await;
    assert_eq!(plain, (numbered(200).join("\n") + "\n").into_bytes());
    // An execution of another job is not found.
    let other = cluster.submit(&batch(&cluster.image, &["echo"])).await;
    let refusal = cluster.client().job_logs(other, &only(one)).await.err().unwrap();
    assert_eq!(refusal.code(), Some(Code::ExecutionNotFound));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_slow_and_three_fast_readers_of_one_busy_task_lose_nothing() {
    const LINES: usize = 2000;
    const WIDTH: usize = 800;
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let count = LINES.to_string();
    // Long lines, so that no buffer can hold the whole output.
    let job = cluster.submit(&batch(&cluster.image, &["wide", &count, &WIDTH.to_string()])).await;
    let expected: Vec<_> =
        (0..LINES).map(|number| format!("line {number} {}", "x".repeat(WIDTH))).collect();
    let mut readers = Vec::new();
    for number in 0..6 {
        let mut stream = cluster.client().job_logs(job, &follow()).await.unwrap();
        let is_slow = number < 3;
        readers.push(tokio::spawn(async move {
            let mut lines = Vec::with_capacity(2 * LINES);
            while let Some(line) = stream.next().await {
                lines.push(line.unwrap());
                if is_slow && lines.len().is_multiple_of(250) {
                    tokio::time::sleep(Duration::from_millis(150)).await;
                }
            }
            lines
        }));
    }
    for (number, reader) in readers.into_iter().enumerate() {
        let lines = tokio::time::timeout(4 * TIMEOUT, reader).await.expect("in time").unwrap();
        for source in [LogSource::Stdout, LogSource::Stderr] {
            let received = of_source(&lines, source);
            assert_eq!(received.len(), LINES, "reader {number}, {source:?}");
            assert!(
                received == expected,
                "reader {number}, {source:?}: different order or content"
            );
        }
        assert_eq!(lines.len(), 2 * LINES, "reader {number}");
    }
    cluster.wait_for_job(job, JobStateType::Completed).await;
}

#[tokio::test]
async fn a_stalled_reader_blocks_neither_the_task_nor_the_node() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&batch(&cluster.image, &["wide", "5000", "800"])).await;
    let mut stuck = cluster.client().job_logs(job, &follow()).await.unwrap();
    next(&mut stuck).await;
    cluster.wait_for_job(job, JobStateType::Completed).await;
    let execution = cluster.execution(job).await;
    assert_eq!(execution.run_output.exit_code, 0);
    // After the removal of the container, the reader continues from the node's disk.
    cluster.no_container_left().await;
    let mut count = 1;
    while let Some(line) = stuck.next().await {
        line.unwrap();
        count += 1;
    }
    assert_eq!(count, 10_000);
}

#[tokio::test]
async fn a_reader_can_select_a_stream_and_the_last_lines() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&batch(&cluster.image, &["lines", "100", "both"])).await;
    cluster.wait_for_job(job, JobStateType::Completed).await;
    let query = JobLogsQuery { stream: Some(LogStream::Stderr), tail: Some(3), ..all() };
    assert_eq!(text(&cluster, job, &query).await, b"line 97\nline 98\nline 99\n");
    let query = JobLogsQuery { tail: Some(0), ..all() };
    assert_eq!(text(&cluster, job, &query).await, b"");
    let query = JobLogsQuery { tail: Some(1000), ..all() };
    assert_eq!(lines(&cluster, job, &query).await.len(), 200);
    // The node-local API has the same parameters.
    let agent = cluster.agents[0].client();
    let id = cluster.execution(job).await.id.to_string();
    let query = LogsQuery { tail: Some(1), stream: Some("stdout".to_owned()), follow: true };
    let pieces = agent.agent_execution_logs(&id, &query).await.unwrap();
    assert_eq!(pieces.try_collect::<Vec<_>>().await.unwrap().concat(), b"line 99\n");

    // The last lines of a running task, then its new output.
    let job = cluster.submit(&batch(&cluster.image, &["lines", "60", "stdout", "50"])).await;
    eventually("ten lines", async || {
        let count = lines(&cluster, job, &all()).await.len();
        if count >= 10 { Ok(()) } else { Err(count.to_string()) }
    })
    .await;
    let query = JobLogsQuery { tail: Some(2), ..follow() };
    let received: Vec<_> =
        lines(&cluster, job, &query).await.into_iter().map(|line| line.line).collect();
    assert_eq!(received, numbered(60)[60 - received.len()..]);
    assert!(received.len() <= 52, "{}", received.len());
}

#[tokio::test]
async fn binary_output_is_returned_unchanged() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&batch(&cluster.image, &["binary"])).await;
    cluster.wait_for_job(job, JobStateType::Completed).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    assert_eq!(text(&cluster, job, &all()).await, every_byte);
    let lines = lines(&cluster, job, &all()).await;
    assert_eq!(lines.len(), 2, "byte 10 ends a line, and the last has no end");
    assert!(lines[1].line.ends_with('\u{FFFD}'));
    // Docker splits lines of more than 16 KiB and drops their line ends.
    for width in [40_000, 16_384 - "line 0 ".len()] {
        let job = cluster.submit(&batch(&cluster.image, &["wide", "3", &width.to_string()])).await;
        cluster.wait_for_job(job, JobStateType::Completed).await;
        let query = JobLogsQuery { stream: Some(LogStream::Stdout), ..all() };
        let lines: Vec<_> =
            (0..3).map(|number| format!("line {number} {}", "x".repeat(width))).collect();
        assert!(text(&cluster, job, &query).await == lines.join("\n").into_bytes(), "{width}");
    }
    // A line without a line end that exceeds every buffer.
    let job = cluster.submit(&batch(&cluster.image, &["bytes", "1000000"])).await;
    cluster.wait_for_job(job, JobStateType::Completed).await;
    let expected: Vec<u8> = b"0123456789".iter().copied().cycle().take(1_000_000).collect();
    assert!(text(&cluster, job, &all()).await == expected);
}

#[tokio::test]
async fn the_output_of_a_lost_node_comes_from_the_record() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let short = cluster.submit(&batch(&cluster.image, &["echo", "short"])).await;
    let long = cluster.submit(&batch(&cluster.image, &["lines", "1000"])).await;
    cluster.wait_for_job(short, JobStateType::Completed).await;
    cluster.wait_for_job(long, JobStateType::Completed).await;
    let running = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let execution = cluster.wait_for_execution(running, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();

    assert_eq!(text(&cluster, short, &all()).await, b"short\n");
    let stored = lines(&cluster, long, &all()).await;
    let kept = of_source(&stored, LogSource::Stdout);
    assert!(kept.len() < 1000 && kept[..100] == numbered(1000)[..100], "{}", kept.len());
    assert_eq!(kept[kept.len() - 100..], numbered(1000)[900..], "its end is kept as well");
    let remarks = of_source(&stored, LogSource::Service);
    assert!(remarks.len() == 1 && remarks[0].contains("its last 2048 bytes"), "{remarks:?}");

    // Output that exists only on the lost node is reported as missing.
    let missing = lines(&cluster, running, &all()).await;
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].source, LogSource::Service);
    let broken = cluster.client().job_logs_text(running, &all()).await.unwrap();
    broken.try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(execution.job_id, running);
}

#[tokio::test]
async fn the_reason_of_a_failure_outlives_its_node() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    // Prints a megabyte, which counts as four by its many lines, and fails for the limit of its disk.
    let mut job = batch(&cluster.image, &["lines", "100000"]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Disk": "4MB" });
    let failed = cluster.submit(&job).await;
    cluster.wait_for_job(failed, JobStateType::Failed).await;
    cluster.agents[0].kill();

    let stored = lines(&cluster, failed, &all()).await;
    let kept = of_source(&stored, LogSource::Stdout);
    let last: usize = kept.iter().rev().take(5000).map(|line| line.len() + 1).sum();
    assert!(last > 50_000 && kept[kept.len() - 5000..] == numbered(100_000)[95_000..]);
    assert_eq!(kept[..100], numbered(100_000)[..100]);
    let remarks = of_source(&stored, LogSource::Service);
    assert!(remarks.len() == 1 && remarks[0].contains("its last 65536 bytes"), "{remarks:?}");
    let tail = JobLogsQuery { tail: Some(2), ..all() };
    let tail = lines(&cluster, failed, &tail).await;
    assert_eq!(of_source(&tail, LogSource::Stdout), numbered(100_000)[99_998..]);
    // Plain text says it where it is so.
    let plain = String::from_utf8(text(&cluster, failed, &all()).await).unwrap();
    assert!(plain.starts_with("line 0\n") && plain.ends_with("line 99999\n"), "{}", plain.len());
    assert!(plain.contains("[1 MB of stdout are missing here"), "{}", &plain[2000..2400]);
}

#[tokio::test]
async fn a_reader_survives_a_restart_of_the_agent() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&batch(&cluster.image, &["lines", "300", "both", "20"])).await;
    let mut stream = cluster.client().job_logs(job, &follow()).await.unwrap();
    let mut lines = Vec::new();
    while lines.len() < 40 {
        lines.push(next(&mut stream).await);
    }
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    while let Some(line) = stream.next().await {
        lines.push(line.unwrap());
    }
    assert_eq!(of_source(&lines, LogSource::Stdout), numbered(300));
    assert_eq!(of_source(&lines, LogSource::Stderr), numbered(300));
    assert_eq!(lines.len(), 600);
    cluster.wait_for_job(job, JobStateType::Completed).await;
}

/// Each line once, whatever breaks in between.
#[tokio::test]
async fn jobctl_follows_over_restarts_of_the_orchestrator() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&batch(&cluster.image, &["lines", "400", "both", "20"])).await;
    cluster.wait_for_execution(job, ComputeState::BidAccepted).await;
    let program = tokio::task::spawn_blocking(|| programs::binary("jobctl")).await.unwrap();
    let follower = |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(program);
        command.args(["logs", "--follow"]).args(arguments).arg(job.to_string());
        command.env("JOBCTL_URL", cluster.client().base_url());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn().expect("the program starts")
    };
    let (all, tail) = (follower(&[]), follower(&["--tail", "6"]));
    for _ in 0..2 {
        // Some lines later.
        let before = lines(&cluster, job, &all_of_stdout()).await.len();
        eventually("more lines", async || {
            let count = lines(&cluster, job, &all_of_stdout()).await.len();
            if count >= before + 40 { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
        cluster.orchestrator.kill();
        cluster.orchestrator.restart().await;
    }
    let text = |bytes: Vec<u8>| -> Vec<String> {
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    };
    let ended = tokio::time::timeout(TIMEOUT, all.wait_with_output()).await.unwrap().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(text(ended.stdout), numbered(400));
    assert_eq!(text(ended.stderr), numbered(400));
    let ended = tokio::time::timeout(TIMEOUT, tail.wait_with_output()).await.unwrap().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let got = text(ended.stdout);
    assert!(got.len() > 100 && got[..] == numbered(400)[400 - got.len()..], "{}", got.len());
}

fn all_of_stdout() -> JobLogsQuery {
    JobLogsQuery { stream: Some(LogStream::Stdout), ..all() }
}

#[tokio::test]
async fn the_output_on_a_silent_node_is_refused_and_served_again_when_it_is_back() {
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "2").agent(AgentSpec::new());
    let Some(cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["lines", "600", "stdout", "100"]);
    job["Tasks"][0]["Timeouts"] = json!({ "LostAfter": 600 });
    let id = cluster.submit(&job).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.agents[0].pause();
    eventually("its output is refused", async || {
        match cluster.client().job_logs(id, &all()).await {
            Err(error) if error.code() == Some(Code::NodeUnavailable) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("it is served".to_owned()),
        }
    })
    .await;
    cluster.agents[0].resume();
    eventually("its output is served", async || {
        cluster.client().job_logs(id, &all()).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(cluster.execution(id).await.compute_state.state_type, ComputeState::BidAccepted);
    cluster.client().stop_job(id, "").await.unwrap();
    cluster.no_container_left().await;
}
