//! Pages of a busy cluster, which has work of every kind: nothing is cut, and the pictures of
//! `docs/ui` are made of them.

use api_types::job::JobStateType;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch};

use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::browser::{Browser, in_browser};

/// Changes the number of executions in the text of a job.
const MORE_EXECUTIONS: &str = "(() => {
    const area = document.querySelector('textarea.editor-text');
    area.value = area.value.replace('\"Count\": 2', '\"Count\": 3');
    area.dispatchEvent(new Event('input'));
    return true;
})()";

/// Whether the picture of the load has its first sample.
const HAS_LOAD: &str = "document.querySelector('.plot svg') !== null";

/// Whether the log fills its box.
const HAS_LINES: &str = "document.querySelectorAll('.log-line').length > 40";

fn job(name: &str, job_type: &str, count: u32, image: &str, parameters: &[&str]) -> Value {
    let mut job = batch(image, parameters);
    job["Name"] = json!(name);
    job["Type"] = json!(job_type);
    job["Count"] = json!(count);
    job
}

fn with(mut job: Value, field: &str, value: Value) -> Value {
    job[field] = value;
    job
}

fn with_resources(mut job: Value, resources: Value) -> Value {
    job["Tasks"][0]["Resources"] = resources;
    job
}

/// A cluster of two nodes with jobs in every state, and the pages about them.
async fn busy() -> Option<(Cluster, Vec<(&'static str, String)>)> {
    let node = |name: &str, zone: &str| {
        let spec = AgentSpec::new().cpu("4").memory("8GB").label("zone", zone);
        spec.setting("COMPUTE_AGENT_NAME", name)
    };
    let nodes =
        ClusterSpec::new().agent(node("worker-1", "north")).agent(node("worker-2", "south"));
    let cluster = nodes.start().await?;
    let image = cluster.image.clone();
    for name in ["nightly-report", "thumbnails", "import-orders", "train-small"] {
        cluster.run(&job(name, "batch", 4, &image, &["echo", "done"])).await;
    }
    let twice = json!({ "Attempts": 2, "Delay": 1 });
    let failing = ["exit", "3", "no", "space", "for", "the", "index"];
    let failing = with(job("index-rebuild", "batch", 2, &image, &failing), "RetryPolicy", twice);
    let failing = cluster.submit(&failing).await;
    cluster.wait_for_job(failing, JobStateType::Failed).await;
    let mars = json!([{ "Key": "zone", "Operator": "=", "Values": ["mars"] }]);
    let far = with(job("far-away", "batch", 1, &image, &["pwd"]), "Constraints", mars);
    let far = cluster.submit(&far).await;
    let large = job("large-training-run", "batch", 1, &image, &["pwd"]);
    cluster.submit(&with_resources(large, json!({ "CPU": "64" }))).await;
    let gpu = job("needs-gpu", "batch", 2, &image, &["pwd"]);
    let gpu = cluster.submit(&with_resources(gpu, json!({ "GPU": "1" }))).await;
    cluster.wait_for_job(far, JobStateType::Queued).await;
    cluster.wait_for_job(gpu, JobStateType::Queued).await;
    let labels = json!({ "app": "web" });
    let service =
        with(job("web-frontend", "service", 2, &image, &["sleep", "600"]), "Labels", labels);
    let service = cluster.submit(&service).await;
    cluster.submit(&job("log-shipper", "daemon", 1, &image, &["sleep", "600"])).await;
    let lines = ["lines", "5000", "both", "250"];
    let chatty = cluster.submit(&job("chatty", "batch", 3, &image, &lines)).await;
    for running in [service, chatty] {
        cluster.wait_for_job(running, JobStateType::Running).await;
    }
    let node = cluster.agents[0].node_id();
    let pages = vec![
        ("overview", "/".to_owned()),
        ("jobs", "/jobs?state=Pending,Queued,Running,Failed".to_owned()),
        ("waiting", format!("/jobs/{gpu}")),
        ("failed", format!("/jobs/{failing}")),
        ("timeline", format!("/jobs/{failing}/timeline")),
        ("history", format!("/jobs/{failing}/history")),
        ("logs", format!("/jobs/{chatty}/logs")),
        ("submit", format!("/submit?from={service}")),
        ("nodes", "/nodes".to_owned()),
        ("node", format!("/nodes/{node}")),
        ("events", "/events".to_owned()),
        ("reference", "/reference".to_owned()),
        ("operation", "/reference/createJob".to_owned()),
    ];
    Some((cluster, pages))
}

/// Waits for what the picture of a page is about.
async fn is_complete(browser: &Browser, page: &str) {
    match page {
        "overview" => browser.wait_for("the load", HAS_LOAD).await,
        "logs" => browser.wait_for("a page of lines", HAS_LINES).await,
        "events" => browser.wait_for_text("started on its node").await,
        "submit" => {
            browser.wait_for_text("Would start").await;
            assert_eq!(browser.value(MORE_EXECUTIONS).await, json!(true));
            browser.wait_for_text("Differences from the original").await;
            browser.wait_for_text("\"Count\": 3").await;
        }
        _ => {}
    }
}

#[tokio::test]
#[ignore = "long"]
async fn the_pages_of_a_busy_cluster_are_accessible_and_cut_nothing() {
    let Some((cluster, pages)) = busy().await else { return };
    let axe = axe();
    in_browser(&cluster, async |browser| {
        for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)] {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            for (name, path) in &pages {
                browser.visit(path).await;
                is_complete(browser, name).await;
                let page = format!("busy-{name}-{scheme}-{width}");
                assert_accessible(browser, axe.as_deref(), &page).await;
            }
        }
    })
    .await;
}
