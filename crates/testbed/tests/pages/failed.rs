//! A failed job opens with its reason: what happened, on which node, and what the task printed last.

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, batch};

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
