//! Why a job waits: from the list it is one click away, and the page says it in words.

use api_types::job::JobStateType;
use api_types::node::HealthState;
use failpoint::ERROR;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually, gated};

use super::browser::{Browser, in_browser, in_window};
use super::named;

const NODE: &str = "worker-1";

/// An image of a registry that does not exist.
const NO_IMAGE: &str = "127.0.0.1:9/nothing/here:1";

fn selecting(mut job: Value, zone: &str) -> Value {
    job["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": [zone] }]);
    job
}

fn with_cpu(mut job: Value, name: &str, cpu: &str) -> Value {
    job["Name"] = json!(name);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": cpu, "Memory": "16MB" });
    job
}

/// Clicks a job in the list, and waits until its page shows these texts.
async fn one_click(browser: &Browser, name: &str, texts: &[&str]) {
    browser.visit("/jobs").await;
    browser.click(name).await;
    for text in texts {
        browser.wait_for_text(text).await;
    }
}

async fn reserved_for_work(cluster: &Cluster) {
    let node = cluster.agents[0].node_id();
    eventually("the node is reserved", async || {
        let record = cluster.client().describe_node(node).await.expect("the orchestrator answers");
        if record.reserved_since.is_empty() { Err(format!("{record:?}")) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn without_a_node_the_page_shows_how_one_joins_and_goes_on_when_it_has() {
    let mut cluster = ClusterSpec::new().start_without_agents().await;
    let id = cluster.submit(&named("patient")).await;
    cluster.wait_for_job(id, JobStateType::Queued).await;
    let cluster: &mut Cluster = &mut cluster;
    let base_url = cluster.orchestrator.base_url().to_owned();
    in_window(&base_url, 1280, 900, async |browser| {
        let joins = format!("COMPUTE_AGENT_ORCHESTRATOR={base_url}");
        one_click(browser, "patient", &["No node has joined", &joins]).await;
        cluster.add_agent(&AgentSpec::new().engines("noop")).await;
        let completed = "document.querySelector('.title .state')?.innerText === 'Completed'";
        browser.wait_for("the job is completed on the page", completed).await;
        assert!(!browser.text().await.contains("No node has joined"));
        browser.assert_no_fault("waiting").await;
    })
    .await;
}

#[tokio::test]
async fn constraints_and_room_are_told_apart_by_group_of_nodes() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().engines("noop").cpu("1").label("zone", "a"))
        .agent(AgentSpec::new().engines("noop").cpu("1").label("zone", "b"));
    let cluster = spec.start_without_docker().await;
    let choosy = selecting(with_cpu(named("choosy"), "choosy", "64"), "a");
    for job in [choosy, selecting(named("astronaut"), "mars")] {
        let id = cluster.submit(&job).await;
        cluster.wait_for_job(id, JobStateType::Queued).await;
    }
    in_browser(&cluster, async |browser| {
        let reasons = ["64 cores are asked for, it has 1", "its zone is b"];
        one_click(browser, "choosy", &reasons).await;
        // Each reason leads to its node.
        let links = "[...document.querySelectorAll('[aria-label=\"Nodes by reason\"] a')].length";
        assert_eq!(browser.value(links).await, json!(2));
        let never = "No node that has joined can ever take it";
        let title = "No node matches: needs zone=mars; their zone is a, b";
        one_click(browser, "astronaut", &[title, never]).await;
        browser.assert_no_fault("constraints").await;
    })
    .await;
}

#[tokio::test]
async fn each_gate_is_named_with_its_reason_and_since_when() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let all = gated(&cluster).await;
    in_browser(&cluster, async |browser| {
        for gated in &all {
            browser.visit(&format!("/jobs/{}", gated.job)).await;
            for text in [gated.message, "of 2 held back", "since "] {
                browser.wait_for_text(text).await;
            }
        }
        browser.assert_no_fault("gates").await;
    })
    .await;
}
#[tokio::test]
async fn a_node_that_is_full_or_reserved_is_named() {
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_STARVATION_SECONDS", "1")
        .agent(AgentSpec::new().cpu("1").setting("COMPUTE_AGENT_NAME", NODE));
    let Some(cluster) = spec.start().await else { return };
    let sleep = batch(&cluster.image, &["sleep", "600"]);
    let small = cluster.submit(&with_cpu(sleep.clone(), "small", "0.5")).await;
    cluster.wait_for_job(small, JobStateType::Running).await;
    let large = cluster.submit(&with_cpu(sleep.clone(), "large", "1")).await;
    cluster.wait_for_job(large, JobStateType::Queued).await;
    reserved_for_work(&cluster).await;
    let late = cluster.submit(&with_cpu(sleep, "late", "0.5")).await;
    cluster.wait_for_job(late, JobStateType::Queued).await;
    in_browser(&cluster, async |browser| {
        let kept = format!("node {NODE} is kept free for it");
        let room = "Waits for room: it is the first in its queue";
        one_click(browser, "large", &[room, "1 core is asked for", &kept]).await;
        one_click(browser, "late", &["reserved for work that has waited for longer"]).await;
        browser.assert_no_fault("reserved").await;
    })
    .await;
}

#[tokio::test]
async fn a_node_that_backs_off_is_named_with_its_reason() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let agent = &cluster.agents[0];
    agent.failpoints().arm_always("docker.start", ERROR).await;
    for _ in 0..4 {
        let mut job = batch(&cluster.image, &["echo"]);
        job["Name"] = json!("unlucky");
        cluster.submit(&job).await;
    }
    eventually("the node backs off", async || {
        let health = cluster.client().describe_node(agent.node_id()).await.unwrap().health;
        if health.state == HealthState::BackingOff { Ok(()) } else { Err(format!("{health:?}")) }
    })
    .await;
    let mut job = batch(&cluster.image, &["echo"]);
    job["Name"] = json!("healthy");
    cluster.submit(&job).await;
    in_browser(&cluster, async |browser| {
        one_click(browser, "healthy", &["1 node is backing off after failures"]).await;
        // One more click says why.
        let link = "document.querySelector('[aria-label=\"Nodes by reason\"] a').click() ?? true";
        assert_eq!(browser.value(link).await, json!(true));
        browser.wait_for_text("docker answers 500").await;
        browser.wait_for_text("it gets work again").await;
        browser.assert_no_fault("back-off").await;
    })
    .await;
}

#[tokio::test]
async fn a_silent_node_is_named_to_what_waits_and_to_what_ran_there() {
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_NAME", NODE);
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "3").agent(agent);
    let Some(mut cluster) = spec.start().await else { return };
    let mut ran = batch(&cluster.image, &["sleep", "600"]);
    ran["Name"] = json!("ran there");
    ran["Tasks"][0]["Timeouts"] = json!({ "LostAfter": 600 });
    let ran = cluster.submit(&ran).await;
    cluster.wait_for_job(ran, JobStateType::Running).await;
    cluster.agents[0].kill();
    let mut waits = batch(&cluster.image, &["echo"]);
    waits["Name"] = json!("waits");
    let waits = cluster.submit(&waits).await;
    eventually("the node is silent", async || {
        let job = cluster.client().describe_job(waits).await.expect("the job");
        if job.state.message.contains("disconnected") { Ok(()) } else { Err(job.state.message) }
    })
    .await;
    in_browser(&cluster, async |browser| {
        one_click(browser, "waits", &["1 node is disconnected", NODE]).await;
        one_click(browser, "ran there", &[NODE, "has been silent since"]).await;
        browser.assert_no_fault("silence").await;
    })
    .await;
}

#[tokio::test]
async fn an_image_that_cannot_be_had_is_named_with_the_next_try() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(NO_IMAGE, &["echo"]);
    job["Name"] = json!("imageless");
    job["RetryPolicy"] = json!({ "Attempts": 5, "Delay": 300 });
    let id = cluster.submit(&job).await;
    eventually("the image could not be pulled", async || {
        let job = cluster.client().describe_job(id).await.expect("the job");
        if job.state.message.contains(NO_IMAGE) { Ok(()) } else { Err(job.state.message) }
    })
    .await;
    in_browser(&cluster, async |browser| {
        one_click(browser, "imageless", &[NO_IMAGE, "so far"]).await;
        browser.assert_no_fault("image").await;
    })
    .await;
}
