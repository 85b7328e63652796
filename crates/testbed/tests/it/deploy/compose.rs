//! The demo cluster in containers: `deploy/image.sh`, `deploy/compose.yaml`, `deploy/cluster.sh`.

use std::fs;

use api_client::{Credentials, NodesQuery};
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::Connection;
use api_types::secret::PutSecret;
use serde_json::{Value, json};
use task_image::{docker, image};
use testbed::harness::{DataUrl, batch, eventually};

use super::containers::{Containers, executions, has_compose, submit, wait_for_state};
use super::{root, text_of};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn the_cluster_runs_jobs_survives_a_killed_agent_and_leaves_nothing_behind() {
    if !has_compose() {
        return;
    }
    let engine = match docker::connect().await {
        Ok(engine) => engine,
        Err(missing) => {
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            return eprintln!("skipped: {missing}");
        }
    };
    let task = image::ensure(&engine).await.expect("the task image");
    let mut cluster = Containers::start();
    let client = cluster.client();
    signs_in(&cluster).await;

    // Input and secret pass through the agent's volumes, which the Engine mounts from the host.
    let secret = PutSecret::of_bytes(b", and from memory");
    client.put_secret(None, "db", &secret).await.expect("the secret is set");
    let mut job = batch(&task, &["cat", "/in/text", "/run/secrets/db"]);
    job["Tasks"][0]["Secrets"] = json!([{ "Name": "db" }]);
    job["Tasks"][0]["InputSources"] = json!([{
        "Target": "/in/text",
        "Source": { "Type": "inline", "Params": { "URL": DataUrl::text("from the volume") } },
    }]);
    let id = submit(&client, &job).await;
    wait_for_state(&client, id, JobStateType::Completed).await;
    let output = executions(&client, id).await.remove(0).run_output;
    assert_eq!(output.stdout.trim(), "from the volume, and from memory", "{output:?}");

    // The agent of a task is killed; another node takes over.
    let id = submit(&client, &batch(&task, &["sleep", "6000"])).await;
    let first = eventually("it runs", async || match executions(&client, id).await.as_slice() {
        [execution] if execution.compute_state.state_type == ComputeState::BidAccepted => {
            Ok(execution.clone())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
    let node = client.describe_node(first.node_id).await.expect("it is known");
    let service = format!("agent-{}", node.labels["agent"]);
    let killed = cluster.run(&["kill", &service]);
    assert!(killed.status.success(), "{}", text_of(&killed));
    eventually("another node runs it", async || {
        let all = executions(&client, id).await;
        let moved = all.iter().any(|execution| {
            execution.compute_state.state_type == ComputeState::BidAccepted
                && execution.node_id != first.node_id
        });
        if moved { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
    let lost = client.describe_node(first.node_id).await.expect("it is known").connection;
    assert_eq!(lost, Connection::Disconnected);

    let nodes = client.list_nodes(&NodesQuery::default()).await.expect("a page").nodes;
    let down = cluster.run(&["down"]);
    cluster.ended = true;
    assert!(down.status.success(), "{}", text_of(&down));
    assert_eq!(cluster.leftovers(), "", "{}", text_of(&down));
    assert!(!cluster.files.path().join("files").exists(), "its tokens are of no use any more");
    for node in nodes {
        let node = node.peer_info.id.to_string();
        let tasks = docker::containers_of_node(&engine, &node).await;
        assert_eq!(tasks.expect("docker responds"), [], "{}", text_of(&down));
        let sandboxes = docker::sandboxes_of_node(&engine, &node).await;
        assert_eq!(sandboxes.expect("docker responds"), [], "{}", text_of(&down));
    }
}

/// No one gets in without a token; with one, the published port and `cluster.sh exec` work.
async fn signs_in(cluster: &Containers) {
    let anonymous = cluster.client_with(Credentials::None);
    let refused = anonymous.list_nodes(&NodesQuery::default()).await.expect_err("no credentials");
    assert!(refused.to_string().contains("credentials"), "{refused}");
    let token = cluster.files.path().join("files/admin.token").display().to_string();
    let login = cluster.jobctl(&["login", "--url", &cluster.url(), "--token-file", &token]);
    assert!(login.status.success(), "{}", text_of(&login));
    let nodes = cluster.jobctl(&["node", "list", "-o", "name"]);
    assert_eq!(text_of(&nodes).lines().count(), 4, "{}", text_of(&nodes));

    let create = ["token", "create", "prometheus", "--role", "monitor"];
    let exec = [&["exec", "-T", "orchestrator", "jobctl"], &create[..]].concat();
    let created = cluster.run(&exec);
    assert!(created.status.success(), "{}", text_of(&created));
    let token = String::from_utf8_lossy(&created.stdout).trim().to_owned();
    let ca = reqwest::Certificate::from_pem(cluster.file("ca.crt").as_bytes()).expect("the CA");
    let http =
        reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build().expect("a client");
    let scrape = http.get(format!("{}/metrics", cluster.url())).bearer_auth(token).send().await;
    let metrics = scrape.expect("an answer").text().await.expect("a text");
    assert!(metrics.contains("orchestrator_build_info"), "{metrics}");
}

#[test]
fn prometheus_scrapes_every_daemon_of_the_cluster() {
    let read = |path: &str| -> Value {
        let text = fs::read_to_string(root().join(path)).expect("the file exists");
        yaml_serde::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let scraped = read("deploy/prometheus/prometheus.yml");
    let targets: Vec<_> = scraped["scrape_configs"]
        .as_array()
        .expect("jobs")
        .iter()
        .flat_map(|job| job["static_configs"][0]["targets"].as_array().expect("targets").clone())
        .map(|target| target.as_str().expect("text").to_owned())
        .collect();
    let cluster = read("deploy/compose.yaml");
    let daemons: Vec<_> = cluster["services"]
        .as_object()
        .expect("services")
        .keys()
        .filter(|name| !["prometheus", "grafana"].contains(&name.as_str()))
        .map(|name| format!("{name}:1234"))
        .collect();
    assert_eq!(daemons.len(), 4, "{daemons:?}");
    for daemon in &daemons {
        assert!(targets.contains(daemon), "{daemon} is not scraped: {targets:?}");
    }
    assert_eq!(targets.len(), daemons.len(), "{targets:?}");
    for job in scraped["scrape_configs"].as_array().expect("jobs") {
        assert_eq!(job["authorization"]["credentials_file"], "/etc/prometheus/token", "{job}");
    }
    let mounts = cluster["services"]["prometheus"]["volumes"].to_string();
    assert!(mounts.contains("/prometheus.token:/etc/prometheus/token:ro"), "{mounts}");
    assert!(mounts.contains("/ca.crt:/etc/prometheus/ca.crt:ro"), "{mounts}");
    assert_eq!(scraped["rule_files"][0], "/etc/prometheus/rules.yml");
    assert!(mounts.contains("/prometheus/rules.yml:/etc/prometheus/rules.yml:ro"), "{mounts}");
}
