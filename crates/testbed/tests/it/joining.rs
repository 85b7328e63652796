//! Nodes with certificates: real daemons, on two machines where the network matters.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use api_types::access::CreateToken;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::joining::{CreateNodeToken, JoinToken};
use api_types::node::{Connection, NodeAction};
use api_types::quantity::Capacity;
use api_types::{KeyDigest, routes};
use testbed::harness::{
    Agent, AgentSpec, Cluster, ClusterSpec, Link, TIMEOUT, batch, binary, eventually, noop,
};
use tokio::process::Command;

fn noop_agent() -> AgentSpec {
    AgentSpec::new().engines("noop")
}

async fn token(cluster: &Cluster, request: CreateNodeToken) -> String {
    cluster.client().create_node_token(&request).await.expect("a join token").secret
}

/// Runs an agent that cannot join: its exit code, and what it says.
async fn refused(cluster: &Cluster, data: &Path, variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new(binary("compute-agent"));
    command
        .env_clear()
        .env("COMPUTE_AGENT_LISTEN", "127.0.0.1:0")
        .env("COMPUTE_AGENT_DATA_DIR", data)
        .env("COMPUTE_AGENT_ENGINES", "noop")
        .env("COMPUTE_AGENT_ORCHESTRATOR", cluster.orchestrator.base_url())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await.expect("it ends");
    let output = output.expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    let code = output.status.code().expect("no signal");
    (code, String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn a_node_on_another_machine_joins_with_a_token_and_needs_it_once() {
    let Some(link) = Link::create() else { return };
    let mut cluster = ClusterSpec::new()
        .host(link.outside())
        .protected()
        .agent(noop_agent().behind(&link))
        .start_without_docker()
        .await;
    assert!(cluster.orchestrator.base_url().starts_with("https://"));
    let id = cluster.submit(&noop()).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let node = cluster.agents[0].node_id();

    // The token was good for one node; from now on the certificate is what counts.
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let id = cluster.submit(&noop()).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let executions = cluster.executions(id).await;
    assert_eq!(executions[0].node_id, node);
}

/// How many heartbeats the orchestrator has answered.
async fn heartbeats(cluster: &Cluster) -> u64 {
    let file = |name: &str| {
        let path = cluster.orchestrator.data_dir().join(name);
        std::fs::read_to_string(path).expect("the orchestrator writes it")
    };
    let ca = reqwest::Certificate::from_pem(file("ca.crt").as_bytes()).expect("the CA");
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build();
    let url = format!("{}/metrics", cluster.orchestrator.base_url());
    let request = http.expect("a client").get(url).bearer_auth(file("admin.token").trim());
    let metrics = request.send().await.expect("an answer").text().await.expect("the metrics");
    let of_heartbeats = |line: &&str| {
        line.contains("http_requests_total{") && line.contains("/heartbeat") && line.contains("200")
    };
    let count = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
    metrics.lines().filter(of_heartbeats).filter_map(count).sum()
}

/// The local ports of all connections of a process's network namespace, including those that ended
/// within the last minute.
fn connections(pid: u32) -> BTreeSet<String> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("the table");
    let port = |line: &str| line.split_whitespace().nth(1)?.split(':').nth(1).map(str::to_owned);
    table.lines().skip(1).filter_map(port).collect()
}

#[tokio::test]
async fn a_heartbeat_adds_no_handshake() {
    let Some(link) = Link::create() else { return };
    let cluster = ClusterSpec::new()
        .host(link.outside())
        .protected()
        .setting("ORCHESTRATOR_NODE_TTL", "3")
        .agent(noop_agent().behind(&link))
        .start_without_docker()
        .await;
    let agent = cluster.agents[0].pid().expect("it runs");
    let beaten = async |times: u64| {
        let before = heartbeats(&cluster).await;
        eventually(&format!("{times} heartbeats"), async || {
            match heartbeats(&cluster).await - before {
                few if few < times => Err(format!("{few}")),
                _ => Ok(()),
            }
        })
        .await;
    };
    beaten(1).await;
    // A heartbeat that a busy machine delays is given up, with its connection.
    eventually("heartbeats that share their connection", async || {
        let before = connections(agent);
        beaten(5).await;
        let after = connections(agent);
        match !before.is_empty() && after == before {
            true => Ok(()),
            false => Err(format!("a heartbeat has its own: {before:?}, then {after:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_that_does_not_let_a_node_in_ends_its_agent() {
    let cluster = ClusterSpec::new().protected().start_without_agents().await;
    let dir = tempfile::tempdir().expect("a directory");
    let join = async |name: &str, token: &str| {
        let variables = [("COMPUTE_AGENT_JOIN_TOKEN", token)];
        refused(&cluster, &dir.path().join(name), &variables).await
    };
    let (code, said) = refused(&cluster, &dir.path().join("none"), &[]).await;
    assert_eq!(code, 64, "{said}");
    assert!(said.contains("jobctl node token"), "{said}");

    let good = token(&cluster, CreateNodeToken::default()).await;
    let parsed: JoinToken = good.parse().expect("a join token");
    let other_ca = JoinToken { ca: KeyDigest([7; 32]), ..parsed.clone() }.to_string();
    let forged = JoinToken { secret: "A".repeat(43), ..parsed }.to_string();
    let expired = token(&cluster, CreateNodeToken { ttl_seconds: 1, ..Default::default() }).await;
    eventually("the token expires", async || {
        match cluster.client().list_node_tokens().await.expect("a list").node_tokens.len() {
            1 => Ok(()),
            count => Err(format!("{count} tokens are left")),
        }
    })
    .await;
    for (name, token, words) in [
        ("other", &other_ca, "the join token names another CA"),
        ("forged", &forged, "the join token is not valid"),
        ("expired", &expired, "the join token has expired"),
    ] {
        let (code, said) = join(name, token).await;
        assert_eq!(code, 69, "{name}: {said}");
        assert!(said.contains(words), "{name}: {said}");
        assert!(!said.contains(token.as_str()), "{name}: the log has the token");
    }

    // None of them has used it up.
    let mut cluster = cluster;
    cluster.add_agent(&noop_agent().joining(&good)).await;
    let variables = [("COMPUTE_AGENT_JOIN_TOKEN", good.as_str())];
    let (code, said) = refused(&cluster, &dir.path().join("second"), &variables).await;
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("is used up"), "{said}");
}

#[tokio::test]
async fn a_certificate_is_renewed_without_ending_anything() {
    const LIFETIME: Duration = Duration::from_secs(6);
    let Some(cluster) = ClusterSpec::new()
        .protected()
        .setting("ORCHESTRATOR_TLS__NODE_LIFETIME", &LIFETIME.as_secs().to_string())
        .agent(AgentSpec::new().engines("docker,noop"))
        .start()
        .await
    else {
        return;
    };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "16"])).await;
    // Other work comes and goes at the same time.
    let mut others = Vec::new();
    let mut pace = tokio::time::interval(Duration::from_millis(250));
    while !cluster.client().describe_job(id).await.expect("a job").state.state_type.is_terminal() {
        let mut many = noop();
        many["Count"] = serde_json::json!(4);
        let other = cluster.submit(&many).await;
        cluster.wait_for_job(other, JobStateType::Completed).await;
        others.push(other);
        pace.tick().await;
    }
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert!(others.len() > 10, "{}", others.len());
    for other in others {
        assert_eq!(cluster.executions(other).await.len(), 4, "each slot ran once");
    }
    let executions = cluster.executions(id).await;
    assert_eq!(executions.len(), 1, "{executions:#?}");
    let log = cluster.agents[0].log();
    let renewals = log.matches("the certificate of this node is renewed").count();
    assert!(renewals >= 2, "{renewals} renewals\n{log}");
    assert!(!log.contains("the session ended"), "{log}");
    let node = cluster.client().describe_node(cluster.agents[0].node_id()).await.expect("a node");
    assert_eq!(node.connection, Connection::Connected);
}

#[tokio::test]
async fn a_rejected_node_is_cut_off_and_stops_its_tasks() {
    let Some(cluster) = ClusterSpec::new().protected().agent(AgentSpec::new()).start().await else {
        return;
    };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let node = cluster.agents[0].node_id();
    let before = cluster.client().describe_node(node).await.expect("a node").last_heartbeat;
    cluster.client().act_on_node(node, NodeAction::Reject, "stolen").await.expect("it is known");
    eventually("its task is stopped", async || {
        let containers = cluster.containers().await;
        if containers.is_empty() { Ok(()) } else { Err(format!("{containers:?}")) }
    })
    .await;
    // Its heartbeats count no more: at most one was on its way.
    let log = cluster.agents[0].log();
    assert!(log.contains("does not trust this node any more"), "{log}");
    let after = cluster.client().describe_node(node).await.expect("a node").last_heartbeat;
    assert!(after >= before);
}

#[tokio::test]
async fn the_operators_labels_and_bounds_decide_where_work_goes() {
    let mut cluster = ClusterSpec::new().protected().start_without_agents().await;
    let bounded = CreateNodeToken {
        labels: [("zone".to_owned(), "lab".to_owned())].into(),
        max_capacity: Some(Capacity { cpu: 0.25, ..Capacity::default() }),
        ..CreateNodeToken::default()
    };
    let token = token(&cluster, bounded).await;
    // It claims another zone, and many cores.
    let boastful = noop_agent().label("zone", "prod").cpu("1000").joining(&token);
    cluster.add_agent(&boastful).await;
    let node = cluster.agents[0].node_id();
    let record = cluster.client().describe_node(node).await.expect("a node");
    assert_eq!(record.labels["zone"], "lab");
    assert!((record.compute_node_info.max_capacity.cpu - 0.25).abs() < f64::EPSILON);

    let mut job = noop();
    job["Constraints"] =
        serde_json::json!([{ "Key": "zone", "Operator": "=", "Values": ["prod"] }]);
    let id = cluster.submit(&job).await;
    let waiting = cluster.client().describe_job(id).await.expect("a job");
    assert_eq!(waiting.state.state_type, JobStateType::Queued);
}

/// A node that is shown a token can use it: agents take none that opens more than their metrics.
#[tokio::test]
async fn an_agent_is_scraped_with_a_monitors_token_and_read_with_its_own() {
    let mut cluster =
        ClusterSpec::new().protected().agent(noop_agent()).start_without_docker().await;
    let token = async |role: &str| {
        let (name, role) = (role.to_owned(), role.to_owned());
        let request = CreateToken { name, role, ..CreateToken::default() };
        cluster.client().create_token(&request).await.expect("a token").secret
    };
    let (monitor, operator, admin) =
        (token("monitor").await, token("operator").await, token("admin").await);
    let status = async |agent: &Agent, path: &str, token: &str| {
        let url = format!("{}{path}", agent.base_url());
        let request = reqwest::Client::new().get(url).bearer_auth(token);
        request.send().await.expect("an answer").status().as_u16()
    };
    let agent = &cluster.agents[0];
    let executions = routes::AGENT_EXECUTIONS;
    let own = std::fs::read_to_string(agent.data_dir().join("agent.token")).expect("its token");
    for (path, token, expected) in [
        (routes::METRICS, &monitor, 200),
        (routes::METRICS, &operator, 401),
        (routes::METRICS, &admin, 401),
        (executions, &monitor, 403),
        (executions, &operator, 401),
        (executions, &admin, 401),
        (executions, &own.trim().to_owned(), 200),
        (routes::METRICS, &own.trim().to_owned(), 200),
    ] {
        assert_eq!(status(agent, path, token).await, expected, "{path} {token:.4}");
    }
    let revoked = monitor.split('_').nth(1).expect("an ID");
    cluster.client().revoke_token(revoked, false).await.expect("it is there");
    eventually("the agent learns that the token is revoked", async || {
        let status = status(agent, routes::METRICS, &monitor).await;
        if status == 401 { Ok(()) } else { Err(format!("status {status}")) }
    })
    .await;
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    assert_eq!(status(&cluster.agents[0], executions, own.trim()).await, 401);
    cluster.agents[0].client().agent_node().await.expect("the token of this start opens it");
}
