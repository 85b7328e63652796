//! The waiting panel: a page says why a job waits, and what to do.

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec};

use super::browser::in_browser;
use super::named;

#[tokio::test]
async fn without_a_node_the_page_shows_how_one_joins_and_goes_on_when_it_has() {
    let mut cluster = ClusterSpec::new().start_without_agents().await;
    let id = cluster.submit(&named("patient")).await;
    cluster.wait_for_job(id, JobStateType::Queued).await;
    let cluster: &mut Cluster = &mut cluster;
    let base_url = cluster.orchestrator.base_url().to_owned();
    super::browser::in_window(&base_url, 1280, 900, async |browser| {
        browser.visit(&format!("/jobs/{id}")).await;
        browser.wait_for_text("Waits for a node to join").await;
        browser.wait_for_text(&format!("COMPUTE_AGENT_ORCHESTRATOR={base_url}")).await;
        cluster.add_agent(&AgentSpec::new().engines("noop")).await;
        let completed = "document.querySelector('.title .state')?.innerText === 'Completed'";
        browser.wait_for("the job is completed on the page", completed).await;
        assert!(!browser.text().await.contains("Waits for"));
        browser.assert_no_fault("waiting").await;
    })
    .await;
}

#[tokio::test]
async fn each_group_of_nodes_has_its_reason() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().engines("noop").cpu("1").label("zone", "a"))
        .agent(AgentSpec::new().engines("noop").cpu("1").label("zone", "b"));
    let cluster = spec.start_without_docker().await;
    let mut job = named("choosy");
    job["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": ["a"] }]);
    job["Tasks"][0]["Resources"] = json!({ "CPU": "64" });
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Queued).await;
    in_browser(&cluster, async |browser| {
        browser.visit(&format!("/jobs/{id}")).await;
        browser.wait_for_text("Waits for room").await;
        browser.wait_for_text("no job is ahead").await;
        browser.wait_for_text("not enough CPU").await;
        browser.wait_for_text("label zone").await;
        // Each reason leads to its node.
        let links = "[...document.querySelectorAll('[aria-label=\"Nodes by reason\"] a')].length";
        assert_eq!(browser.value(links).await, json!(2));
    })
    .await;
}
