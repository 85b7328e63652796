//! A full disk of the orchestrator or of a node, and its recovery.

use std::time::{Duration, Instant};

use api_client::JobsQuery;
use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::Connection;
use serde_json::{Value, json};
use testbed::harness::{
    AgentSpec, Cluster, ClusterSpec, Ending, SmallDisk, batch, eventually, noop,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Slightly more than an empty database and its log need.
const MEGABYTES: u32 = 16;

/// Output that the record of an execution keeps.
const OUTPUT_KEPT: usize = 2048;

#[tokio::test]
async fn an_orchestrator_with_a_full_disk_refuses_jobs_loses_nothing_and_recovers() {
    let Some(disk) = SmallDisk::mount(MEGABYTES) else { return };
    let data = disk.path().join("data").display().to_string();
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_DATA_DIR", &data);
    let agent = AgentSpec::new().engines("docker,noop");
    let Some(mut cluster) = spec.agent(agent).start().await else { return };
    let running = cluster.submit(&batch(&cluster.image, &["await"])).await;
    cluster.wait_for_execution(running, ComputeState::BidAccepted).await;

    disk.fill();
    // The rest of the log file's last page still accepts some jobs.
    let mut accepted = Vec::new();
    let refusal = loop {
        let response = submit(&cluster, &noop()).await;
        if response.starts_with("HTTP/1.1 503 ") {
            break response;
        }
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        accepted.push(response);
        disk.fill();
    };
    let head = refusal.to_ascii_lowercase();
    assert!(head.contains("\r\nretry-after: "), "{refusal}");
    let body: Value = serde_json::from_str(refusal.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["Status"], 503, "{body}");
    let stored = cluster.client().list_jobs(&JobsQuery::default()).await.unwrap().jobs;
    assert_eq!(stored.len(), 1 + accepted.len(), "no job is stored partially, and reads succeed");
    cluster.signal(running).await;
    wait_for_idle_agent(&cluster).await;

    disk.free();
    let after = cluster.submit_with_retries(&noop(), "after").await;
    assert_eq!(cluster.ending(after).await.state, JobStateType::Completed);
    let ending = cluster.ending(running).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    assert!(!cluster.orchestrator.restart_if_crashed().await, "the orchestrator did not crash");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn an_agent_with_a_full_disk_keeps_its_lease_and_its_tasks_continue() {
    let lease = Duration::from_secs(3);
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", &lease.as_secs().to_string());
    keeps_everything(spec, 3 * lease).await;
}

#[tokio::test]
#[ignore = "long"]
async fn an_agent_whose_disk_is_full_for_five_minutes_keeps_its_lease_and_its_tasks_continue() {
    keeps_everything(ClusterSpec::new(), Duration::from_mins(5)).await;
}

/// The disk of an agent is full for this long.
async fn keeps_everything(spec: ClusterSpec, full_for: Duration) {
    let Some(disk) = SmallDisk::mount(MEGABYTES) else { return };
    let data = disk.path().join("data").display().to_string();
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_DATA_DIR", &data);
    let Some(mut cluster) = spec.agent(agent).start().await else { return };
    let ending = cluster.submit(&batch(&cluster.image, &["await"])).await;
    // A line every quarter of a second: it outlasts the full disk.
    let lines = 4 * full_for.as_secs() + 24;
    let command = ["lines", &lines.to_string(), "stdout", "250"];
    let printing = cluster.submit(&batch(&cluster.image, &command)).await;
    let ended = cluster.wait_for_execution(ending, ComputeState::BidAccepted).await;
    cluster.wait_for_execution(printing, ComputeState::BidAccepted).await;

    disk.fill();
    let mut job = batch(&cluster.image, &["echo", "x"]);
    job["Count"] = json!(2);
    let waiting = cluster.submit(&job).await;
    // What the full node lost would run here as well.
    cluster.add_agent(&AgentSpec::new()).await;
    eventually("the ledger cannot be written", async || {
        disk.fill();
        let log = cluster.agents[0].log_tail();
        if log.contains("cannot write the ledger") { Ok(()) } else { Err(log) }
    })
    .await;
    cluster.signal_execution(ended.id).await;
    keeps_its_lease(&cluster, &[ending, printing], full_for).await;
    eventually("the task has ended", async || {
        let containers = cluster.containers().await;
        let its = containers.iter().find(|one| one.execution_id == ended.id.to_string());
        match its.map(|one| one.state.as_str()) {
            None | Some("exited") => Ok(()),
            Some(state) => Err(state.to_owned()),
        }
    })
    .await;

    disk.free();
    let once = Ending { state: JobStateType::Completed, executions: 1 };
    for id in [ending, printing] {
        assert_eq!(cluster.ending(id).await, once);
    }
    // What the full node did not answer was offered to the other one.
    assert_eq!(cluster.ending(waiting).await.state, JobStateType::Completed);
    let output = cluster.execution(printing).await.run_output.stdout;
    let mut printed: String = (0..lines).map(|line| format!("line {line}\n")).collect();
    printed.truncate(OUTPUT_KEPT);
    assert_eq!(output, printed);
    assert_eq!(cluster.restart_crashed().await, 0, "no daemon crashed");
    cluster.no_container_left().await;
}

/// The first node stays connected for several leases, with the same executions.
async fn keeps_its_lease(cluster: &Cluster, running: &[JobId], full_for: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < full_for {
        let node = cluster
            .client()
            .describe_node(cluster.agents[0].node_id())
            .await
            .expect("the orchestrator answers");
        assert_eq!(node.connection, Connection::Connected, "after {:?}", begin.elapsed());
        for id in running {
            let execution = cluster.execution(*id).await;
            assert_eq!(execution.compute_state.state_type, ComputeState::BidAccepted);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Submits a job and returns the raw response, head and body.
async fn submit(cluster: &Cluster, job: &Value) -> String {
    let body = json!({ "Job": job }).to_string();
    let request = format!(
        "PUT /api/v1/orchestrator/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(cluster.orchestrator.address()).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        std::io::Result::Ok(response)
    };
    exchange.await.expect("the orchestrator responds")
}

async fn wait_for_idle_agent(cluster: &Cluster) {
    let agent = cluster.agents[0].client().clone();
    eventually("the task has ended on its node", async || {
        let executions = agent.agent_executions().await.map_err(|error| error.to_string())?;
        let live: Vec<_> = executions.iter().filter(|one| one.phase != "Completed").collect();
        if live.is_empty() { Ok(()) } else { Err(format!("{live:?}")) }
    })
    .await;
}
