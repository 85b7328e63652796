//! Quotas: what the jobs of a namespace hold together, while others run.

use api_types::Code;
use api_types::access::PutNamespace;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::quota::Quota;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

fn waiting_task(cluster: &Cluster, namespace: &str, zone: &str) -> Value {
    let mut job = batch(&cluster.image, &["await"]);
    job["Namespace"] = json!(namespace);
    job["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": [zone] }]);
    job["Tasks"][0]["Resources"] = json!({ "CPU": "1" });
    job
}

async fn refusal(cluster: &Cluster, job: &Value) -> Option<Code> {
    let body = json!({ "Job": job }).to_string();
    let refused = cluster.client().create_job_raw(body.into(), None).await;
    refused.expect_err("the quota does not allow it").code()
}

#[tokio::test]
async fn a_namespace_waits_for_its_quota_which_starts_work_on_another_node() {
    let agents = ["a", "b"].map(|zone| AgentSpec::new().cpu("8").label("zone", zone));
    let spec = agents.into_iter().fold(ClusterSpec::new(), ClusterSpec::agent);
    let Some(mut cluster) = spec.start().await else { return };
    let quota = Quota { cpu: Some("1.5".into()), queued_executions: Some(3), ..Quota::default() };
    let body = PutNamespace { quota, ..PutNamespace::default() };
    cluster.client().put_namespace("ci", &body).await.expect("the namespace is stored");
    let first = cluster.submit(&waiting_task(&cluster, "ci", "a")).await;
    cluster.wait_for_execution(first, ComputeState::BidAccepted).await;
    let second = cluster.submit(&waiting_task(&cluster, "ci", "b")).await;
    cluster.wait_for_job(second, JobStateType::Queued).await;
    let explained = cluster.client().explain_job(second).await.expect("it is live");
    let says = "namespace 'ci' uses 1 of 1.5 CPU; this needs 1";
    assert_eq!(explained.gates[0].message, says);
    // The same of another namespace runs.
    let other = cluster.submit(&waiting_task(&cluster, "default", "b")).await;
    let other = cluster.wait_for_execution(other, ComputeState::BidAccepted).await;
    let mut array = waiting_task(&cluster, "ci", "b");
    array["Count"] = json!(4);
    assert_eq!(refusal(&cluster, &array).await, Some(Code::InvalidJob));
    array["Count"] = json!(3);
    assert_eq!(refusal(&cluster, &array).await, Some(Code::QuotaExceeded));
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let running = cluster.execution(first).await;
    cluster.signal_execution(running.id).await;
    let begun = eventually("what is given back starts it on the other node", async || {
        cluster.executions(second).await.into_iter().next().ok_or_else(|| "it waits".to_owned())
    })
    .await;
    assert_eq!(begun.node_id, other.node_id);
    assert_ne!(begun.node_id, running.node_id);
    cluster.wait_for_execution(second, ComputeState::BidAccepted).await;
    cluster.signal_execution(begun.id).await;
    cluster.signal_execution(other.id).await;
    for job in [first, second] {
        cluster.wait_for_job(job, JobStateType::Completed).await;
    }
    cluster.no_container_left().await;
}
