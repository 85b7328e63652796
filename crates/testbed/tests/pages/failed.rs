//! A failed job opens with its reason: what happened, on which node, and what the task printed last.

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, batch, eventually};

use super::browser::in_browser;

#[tokio::test]
async fn a_failed_job_opens_with_what_happened_and_its_last_lines() {
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_NAME", "worker-1");
    let Some(cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let mut job = batch(&cluster.image, &["exit", "3", "KeyError:", "no", "such", "index"]);
    job["Name"] = json!("index-rebuild");
    let job = cluster.submit(&job).await;
    cluster.wait_for_job(job, JobStateType::Failed).await;
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs").await;
        browser.wait_for_text("index-rebuild").await;
        browser.visit(&format!("/jobs/{job}")).await;
        browser.wait_for_text("Execution [0] exited with 3 on worker-1").await;
        browser.wait_for_text("KeyError: no such index").await;
        browser.wait_for_text("All logs").await;
        browser.assert_no_fault("failed").await;
    })
    .await;
}

#[tokio::test]
async fn a_service_in_a_crash_loop_says_how_often_since_when_and_why() {
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_NAME", "worker-1");
    let Some(cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let mut job = batch(&cluster.image, &["exit", "3", "no", "configuration"]);
    job["Name"] = json!("frontend");
    job["Type"] = json!("service");
    job["RetryPolicy"] = json!({ "Delay": 1, "MaxDelay": 1 });
    let job = cluster.submit(&job).await;
    eventually("it has failed repeatedly", async || {
        let message = cluster.client().describe_job(job).await.expect("the job").state.message;
        if message.contains(" 3 tries since ") { Ok(()) } else { Err(message) }
    })
    .await;
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs").await;
        browser.wait_for_text(" tries since ").await;
        browser.click("frontend").await;
        // Also while it runs until it fails again.
        let says = "document.querySelector('p.message')?.innerText.includes(' tries since ')";
        browser.wait_for("its page says so", says).await;
        browser.wait_for_text("exit code 3 on worker-1, ").await;
        // Times are of the reader's zone, which their titles name.
        let zone = "/GMT|UTC|[A-Z]{3,}/.test(document.querySelector('p.message time').title)";
        assert_eq!(browser.value(zone).await, json!(true));
        let raw = r"/\d{4}-\d\d-\d\dT/.test(document.querySelector('main').innerText)";
        assert_eq!(browser.value(raw).await, json!(false));
        browser.assert_no_fault("crash loop").await;
    })
    .await;
}
