//! The environment of a task: variables, working directory, network, privileges.

use std::collections::BTreeMap;

use api_types::access::{Permissions, PutNamespace};
use serde_json::json;
use testbed::harness::{Cluster, batch, ops};

fn variables(stdout: &str) -> BTreeMap<&str, &str> {
    stdout.lines().filter_map(|line| line.split_once('=')).collect()
}

#[tokio::test]
async fn a_task_has_its_own_variables_those_of_the_engine_and_those_of_the_service() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["env"]);
    job["Name"] = json!("surroundings");
    job["Tasks"][0]["Env"] = json!({ "ONLY_TASK": "t", "BOTH": "task", "EMPTY": "" });
    job["Tasks"][0]["Engine"]["Params"]["EnvironmentVariables"] =
        json!(["ONLY_ENGINE=e", "BOTH=engine", "WITH_EQUALS=a=b"]);
    let execution = cluster.run_one(&job).await;

    let found = variables(&execution.run_output.stdout);
    let (job_id, execution_id) = (execution.job_id.to_string(), execution.id.to_string());
    let node_id = execution.node_id.to_string();
    for (name, value) in [
        ("ONLY_TASK", "t"),
        ("ONLY_ENGINE", "e"),
        ("BOTH", "engine"),
        ("WITH_EQUALS", "a=b"),
        ("EMPTY", ""),
        ("SERVICE_JOB_ID", job_id.as_str()),
        ("SERVICE_JOB_NAME", "surroundings"),
        ("SERVICE_JOB_TYPE", "batch"),
        ("SERVICE_EXECUTION_ID", execution_id.as_str()),
        ("SERVICE_EXECUTION_INDEX", "0"),
        ("SERVICE_EXECUTION_COUNT", "1"),
        ("SERVICE_NODE_ID", node_id.as_str()),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name} in {found:?}");
    }
}

#[tokio::test]
async fn a_task_sets_its_entrypoint_and_working_directory() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &[]);
    job["Tasks"][0]["Engine"]["Params"]["Entrypoint"] = json!(["/task", "pwd"]);
    job["Tasks"][0]["Engine"]["Params"]["WorkingDirectory"] = json!("/somewhere/else");
    let execution = cluster.run_one(&job).await;
    assert_eq!(execution.run_output.stdout, "/somewhere/else\n");
}

#[tokio::test]
async fn a_task_without_network_has_only_loopback() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let without = cluster.submit(&batch(&cluster.image, &["net"])).await;
    let mut job = batch(&cluster.image, &["net"]);
    job["Tasks"][0]["Network"] = json!({ "Type": "Full" });
    let with = cluster.run_one(&job).await;
    let interfaces: Vec<_> = with.run_output.stdout.lines().collect();
    assert!(interfaces.len() > 1 && interfaces.contains(&"lo"), "{interfaces:?}");

    cluster.wait_for_job(without, api_types::job::JobStateType::Completed).await;
    assert_eq!(cluster.execution(without).await.run_output.stdout, "lo\n");
}

#[tokio::test]
async fn a_task_has_the_capabilities_that_its_namespace_permits_and_gains_no_others() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let permissions = Permissions { capabilities: Some(false), ..Permissions::default() };
    let body = PutNamespace { permissions, ..PutNamespace::default() };
    cluster.client().put_namespace("careful", &body).await.expect("a namespace");
    // CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID.
    for (namespace, capabilities) in
        [("default", "00000000000000eb"), ("careful", "0000000000000000")]
    {
        let mut job = batch(&cluster.image, &["cat", "/proc/self/status"]);
        job["Namespace"] = json!(namespace);
        let status = cluster.run_one(&job).await.run_output.stdout;
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value.map(str::trim).unwrap_or_default().to_owned()
        };
        assert_eq!(field("CapEff:"), capabilities, "{status}");
        assert_eq!(field("CapBnd:"), capabilities, "{status}");
        assert_eq!(field("NoNewPrivs:"), "1", "{status}");
    }
}

#[tokio::test]
async fn every_execution_of_an_ops_job_has_the_same_count() {
    let Some(cluster) = Cluster::with_agents(3).await else { return };
    let executions = cluster.run(&ops(&cluster.image, &["env"])).await;
    let of_each = |name: &str| {
        let outputs = executions.iter().map(|one| variables(&one.run_output.stdout));
        let mut found: Vec<_> =
            outputs.map(|found| found.get(name).copied().unwrap_or_default().to_owned()).collect();
        found.sort();
        found
    };
    assert_eq!(of_each("SERVICE_EXECUTION_COUNT"), ["3", "3", "3"]);
    assert_eq!(of_each("SERVICE_EXECUTION_INDEX"), ["0", "1", "2"]);
}
