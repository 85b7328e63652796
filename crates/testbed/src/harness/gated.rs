//! A job at each gate, for tests of what is said of them.

use api_types::JobId;
use api_types::access::PutNamespace;
use api_types::gate::GateType;
use api_types::group::PutGroup;
use api_types::quota::Quota;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::job::noop;
use super::wait::eventually;

/// Longer than a test.
const WAIT_MILLISECONDS: u32 = 3_600_000;

/// A job that a gate holds back, at least in part.
pub struct Gated {
    pub gate: GateType,
    pub job: JobId,
    /// What its explanation says of the gate.
    pub message: &'static str,
}

/// Submits a job to each gate of a cluster whose nodes offer the engine `noop`; returns the jobs once
/// they wait. Their names are those of the gates.
pub async fn gated(cluster: &Cluster) -> Vec<Gated> {
    let client = cluster.client();
    client.put_group(None, "db", &PutGroup { limit: Some(1) }).await.expect("a group");
    let quota = Quota { executions: Some(1), ..Quota::default() };
    let body = PutNamespace { quota, ..PutNamespace::default() };
    client.put_namespace("ci", &body).await.expect("a namespace with a quota");
    let first = cluster.submit(&lasting("first", json!({}))).await;
    let mut all = Vec::new();
    for gate in GateType::ALL.iter().copied() {
        let (fields, message) = match gate {
            GateType::MaxRunning => {
                (json!({ "MaxRunning": 1 }), "1 of 1 execution runs, as MaxRunning allows")
            }
            GateType::ConcurrencyGroup => (
                json!({ "ConcurrencyGroups": ["db"] }),
                "1 of 1 executions of the concurrency group 'db' are live",
            ),
            GateType::DependsOn => {
                (json!({ "DependsOn": [{ "JobID": first }] }), "job 'first' has not completed yet")
            }
            GateType::Quota => {
                (json!({ "Namespace": "ci" }), "1 of 1 executions of namespace 'ci' are live")
            }
        };
        let job = cluster.submit(&lasting(gate.as_str(), fields)).await;
        eventually("the gate to hold a part of the job", async || {
            let explained = client.explain_job(job).await.expect("it is live");
            let found = explained.gates.first();
            found.map(|_| ()).ok_or_else(|| format!("{explained:?}"))
        })
        .await;
        all.push(Gated { gate, job, message });
    }
    all
}

/// Two executions that run until they are stopped.
fn lasting(name: &str, fields: Value) -> Value {
    let mut job = noop();
    job["Name"] = json!(name);
    job["Count"] = json!(2);
    job["Tasks"][0]["Engine"]["Params"] = json!({ "WaitMilliseconds": WAIT_MILLISECONDS });
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.01", "Memory": "1MB" });
    let (Some(all), Value::Object(fields)) = (job.as_object_mut(), fields) else {
        panic!("the fields of a job are an object");
    };
    all.extend(fields);
    job
}
