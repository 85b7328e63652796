//! Metrics of a running cluster: valid for Prometheus' parser, and complete for the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use api_client::Client;
use api_types::access::PutNamespace;
use api_types::quota::Quota;
use serde_json::{Value, json};
use telemetry::metrics::Exposed;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, DataUrl, eventually, noop};

/// Parses both formats with the strict parsers of the Python client.
const PARSE: &str = "\
import sys
from prometheus_client.parser import text_string_to_metric_families as text
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
for path in sys.argv[1:]:
    read = openmetrics if path.endswith('.openmetrics') else text
    families = list(read(open(path).read()))
    assert len(families) > 20, (path, len(families))
    for family in families:
        assert family.type != 'unknown' and family.documentation, family.name
";

/// A cluster of one agent with the engine `noop` after a job with an input and a result.
async fn cluster_that_ran_a_job() -> Cluster {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let quota = Quota { executions: Some(10), ..Quota::default() };
    let limited = PutNamespace { quota, ..PutNamespace::default() };
    cluster.client().put_namespace("default", &limited).await.expect("it is stored");
    let mut job = noop();
    job["Tasks"][0]["InputSources"] = json!([{
        "Source": { "Type": "inline", "Params": { "URL": DataUrl::text("hello") } },
        "Target": "/inputs/text",
    }]);
    job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
    cluster.run_one(&job).await;
    // The agent counts the end of an execution before it is finished with it.
    eventually("the agent has nothing left to report", async || {
        let exposed = Exposed::read(&scraped(cluster.agents[0].client(), "text/plain").await);
        match exposed.sum("compute_agent_reports_waiting", &[]) {
            0.0 => Ok(()),
            waiting => Err(format!("{waiting} wait")),
        }
    })
    .await;
    cluster
}

async fn scraped(client: &Client, accept: &str) -> String {
    let url = format!("{}/metrics", client.base_url());
    let http = reqwest::Client::builder().no_proxy().build().expect("make a client");
    let response = http.get(url).header("Accept", accept).send().await.expect("a response");
    assert_eq!(response.status(), 200);
    response.text().await.expect("a whole body")
}

/// A Python interpreter with the package `prometheus_client`, if necessary in a virtual environment.
/// If that is unavailable, prints the reason and returns `None`, or panics when `CI` is set.
fn python(directory: &Path) -> Option<String> {
    let has_it = |python: &str| {
        let import = Command::new(python).args(["-c", "import prometheus_client"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    if has_it("python3") {
        return Some("python3".to_owned());
    }
    let home = directory.join("venv");
    let run = |program: &str, arguments: &[&str]| -> Result<(), String> {
        let Output { status, stderr, .. } = Command::new(program)
            .args(arguments)
            .output()
            .map_err(|error| format!("{program}: {error}"))?;
        let message = || format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
        status.success().then_some(()).ok_or_else(message)
    };
    let python = home.join("bin/python").display().to_string();
    let made = run("python3", &["-m", "venv", &home.display().to_string()]).and_then(|()| {
        let package = "prometheus-client>=0.20,<1";
        run(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package])
    });
    match made {
        Ok(()) => Some(python),
        Err(missing) if std::env::var_os("CI").is_some() => panic!("{missing}"),
        Err(missing) => {
            eprintln!("skipped: prometheus_client is not available: {missing}");
            None
        }
    }
}

#[tokio::test]
async fn prometheus_can_parse_the_metrics_of_both_daemons() {
    let directory = tempfile::tempdir().expect("make a directory");
    let Some(python) = python(directory.path()) else { return };
    let cluster = cluster_that_ran_a_job().await;
    let mut files = Vec::new();
    for (name, client) in
        [("orchestrator", cluster.client()), ("agent", cluster.agents[0].client())]
    {
        for (form, accept) in
            [("text", "text/plain"), ("openmetrics", "application/openmetrics-text; version=1.0.0")]
        {
            let file = directory.path().join(format!("{name}.{form}"));
            fs::write(&file, scraped(client, accept).await).expect("write a file");
            files.push(file);
        }
    }
    let Output { status, stderr, .. } =
        Command::new(python).arg("-c").arg(PARSE).args(files).output().expect("run python");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}

#[tokio::test]
async fn the_metrics_of_both_daemons_follow_the_conventions() {
    let cluster = cluster_that_ran_a_job().await;
    for client in [cluster.client(), cluster.agents[0].client()] {
        let exposed = Exposed::read(&scraped(client, "*/*").await);
        assert_eq!(exposed.broken(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_dashboard_and_the_alerts_use_only_existing_metrics() {
    let cluster = cluster_that_ran_a_job().await;
    let mut exposed = BTreeSet::new();
    for client in [cluster.client(), cluster.agents[0].client()] {
        let scrape = Exposed::read(&scraped(client, "text/plain").await);
        exposed.extend(scrape.names().into_iter().map(str::to_owned));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana/dashboard.json");
    let text = fs::read_to_string(path).expect("the dashboard exists");
    let dashboard: Value = serde_json::from_str(&text).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let expressions: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().expect("a target has an expression"))
        .collect();
    let used: BTreeSet<String> = expressions.iter().flat_map(|text| metrics_in(text)).collect();
    assert!(used.len() > 30, "only {used:?} were found");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/rules.yml");
    let rules = fs::read_to_string(path).expect("the alerts exist");
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    // What a histogram exposes is named after it.
    let alerted = expressions.flat_map(metrics_in);
    let used: BTreeSet<String> = used.into_iter().chain(alerted).collect();
    let missing: Vec<_> = used.difference(&exposed).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "two panels have the id {}", panel["id"]);
        assert!(panel["gridPos"]["w"].as_u64().is_some_and(|width| width <= 24));
    }
}

/// The names of the service's metrics in an expression.
fn metrics_in(expression: &str) -> Vec<String> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    expression
        .split(|character| !is_word(character))
        .filter(|word| {
            ["orchestrator_", "compute_agent_", "process_"]
                .iter()
                .any(|ours| word.starts_with(ours))
        })
        .map(str::to_owned)
        .collect()
}
