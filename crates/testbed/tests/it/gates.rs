//! What a user hears of a job that waits: at which gate, since when, and until when.

use std::process::Output;

use api_types::Timestamp;
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, eventually, gated, noop};
use tokio::process::Command;

async fn explained(cluster: &Cluster, job: &str) -> String {
    let program =
        tokio::task::spawn_blocking(|| programs::binary("jobctl")).await.expect("it is built");
    let mut command = Command::new(program);
    command.args(["explain", job]).env("JOBCTL_URL", cluster.client().base_url());
    let Output { stdout, stderr, .. } = command.output().await.expect("the program runs");
    format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))
}

#[tokio::test]
async fn each_gate_is_explained_with_its_reason_and_since_when_also_after_a_restart() {
    let agent = AgentSpec::new().engines("noop");
    let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let all = gated(&cluster).await;
    for is_restarted in [false, true] {
        if is_restarted {
            cluster.orchestrator.kill();
            cluster.orchestrator.restart().await;
        }
        for gated in &all {
            let text = explained(&cluster, &gated.job.to_string()).await;
            let line = text.lines().find(|line| line.starts_with("Held back"));
            let line = line.unwrap_or_else(|| panic!("{} is not named: {text}", gated.gate));
            let (held, reason) = line["Held back:".len()..].split_once(": ").expect("the reason");
            assert_eq!(reason, gated.message, "{text}");
            assert!(held.contains(" for "), "since when: {text}");
            let job = cluster.client().describe_job(gated.job).await.expect("it is live");
            let found = cluster.client().explain_job(gated.job).await.expect("it is live");
            let [gate] = &found.gates[..] else { panic!("{found:?}") };
            assert_eq!(gate.gate_type, gated.gate.as_str());
            let since = Timestamp::parse(&gate.since).expect("a time");
            assert!(since >= job.create_time, "{since:?} before {:?}", job.create_time);
        }
    }
}

#[tokio::test]
async fn a_delay_between_attempts_and_a_lack_of_room_are_explained() {
    let agent = AgentSpec::new().engines("noop").cpu("1");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut failing = noop();
    failing["RetryPolicy"] = json!({ "Attempts": 2, "Delay": 3600, "MaxDelay": 3600 });
    failing["Tasks"][0]["Engine"]["Params"] = json!({ "FailEvery": 1 });
    let failing = cluster.submit(&failing).await;
    let mut large = noop();
    large["Tasks"][0]["Resources"] = json!({ "CPU": "64" });
    let large = cluster.submit(&large).await;
    cluster.wait_for_job(large, JobStateType::Queued).await;
    eventually("the delay to be explained", async || {
        let text = explained(&cluster, &failing.to_string()).await;
        let says = text.contains("exit code 1; next try at ");
        if says { Ok(()) } else { Err(text) }
    })
    .await;
    let text = explained(&cluster, &large.to_string()).await;
    assert!(text.contains("Waiting") && text.contains("64 cores are asked for"), "{text}");
}
