//! What an operator does on the page of a node; the page asks first, and names the node.

use api_types::node::Eligibility;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, batch};

use super::browser::in_browser;

#[tokio::test]
async fn a_node_is_cordoned_only_after_its_name_was_confirmed() {
    let agent = AgentSpec::new().engines("noop").setting("COMPUTE_AGENT_NAME", "worker-7");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let id = cluster.agents[0].node_id();
    let eligibility =
        async || cluster.client().describe_node(id).await.expect("the node").eligibility;
    in_browser(&cluster, async |browser| {
        browser.visit(&format!("/nodes/{id}")).await;
        browser.click("Cordon…").await;
        browser.wait_for_text("Cordon worker-7?").await;
        browser.click("Cancel").await;
        assert_eq!(eligibility().await, Eligibility::Eligible);
        browser.click("Cordon…").await;
        browser.press("new disk").await;
        browser.click("Cordon the node").await;
        let state = "document.querySelector('.title .state')?.innerText === 'Cordoned'";
        browser.wait_for("the page shows the new state", state).await;
        assert_eq!(eligibility().await, Eligibility::Cordoned);
        // The message is in the history below.
        browser.wait_for_text("new disk").await;
        browser.assert_no_fault("node").await;
    })
    .await;
}

#[tokio::test]
async fn the_nodes_are_shown_with_what_waits_for_room_on_them() {
    let agent = AgentSpec::new().engines("noop").setting("COMPUTE_AGENT_NAME", "worker-7");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let id = cluster.agents[0].node_id();
    in_browser(&cluster, async |browser| {
        browser.visit("/nodes").await;
        browser.wait_for_text("worker-7").await;
        let is_absent = "!document.body.innerText.includes('Waits for room')";
        browser.wait_for("nothing waits", is_absent).await;
        let mut job = batch("any", &[]);
        job["Count"] = json!(3);
        job["Tasks"][0]["Resources"] = json!({ "CPU": "6400" });
        cluster.submit(&job).await;
        browser.wait_for_text("Waits for room").await;
        browser.wait_for_text("docker, 6400 CPU").await;
        browser.assert_no_fault("nodes").await;
        // The node has been idle since it joined.
        browser.visit(&format!("/nodes/{id}")).await;
        browser.wait_for_text("Idle").await;
    })
    .await;
}
