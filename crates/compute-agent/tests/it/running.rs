//! Successful tasks: output, environment, limits, inputs, results.

use api_types::engine::NetworkType;
use api_types::execution::{ComputeState, RunOutput};
use api_types::source::{InputSource, ResultPath, SourceSpec, SourceType};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::node::DockerNode;

fn inline(url: &str, target: &str) -> InputSource {
    let params = serde_json::from_value(json!({ "URL": url })).expect("an object");
    InputSource {
        source: SourceSpec { source_type: SourceType::Inline, params },
        target: target.to_owned(),
        alias: String::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_and_leaves_nothing_behind() {
    let Some(node) = DockerNode::start().await else { return };
    let work = node.work(&["out", "hello", "err", "oops"]);
    let id = node.orchestrator().run(work).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    let output = RunOutput {
        stdout: "hello\n".to_owned(),
        stderr: "oops\n".to_owned(),
        ..RunOutput::default()
    };
    assert_eq!((done.sequence, done.message.as_str()), (3, ""));
    assert_eq!(done.run_output, Some(output));
    assert_eq!(done.published_result, None);
    let states: Vec<_> =
        node.orchestrator().all_reports(id).iter().map(|report| report.compute_state).collect();
    assert_eq!(
        states,
        [ComputeState::AskForBidAccepted, ComputeState::BidAccepted, ComputeState::Completed]
    );
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_has_the_services_variables_and_the_engines_take_precedence() {
    let Some(node) = DockerNode::start().await else { return };
    let names = [
        "TASK_ONLY",
        "BOTH",
        "SERVICE_JOB_ID",
        "SERVICE_JOB_NAME",
        "SERVICE_JOB_TYPE",
        "SERVICE_EXECUTION_ID",
        "SERVICE_EXECUTION_INDEX",
        "SERVICE_EXECUTION_COUNT",
        "SERVICE_NODE_ID",
    ];
    let steps: Vec<_> = names.iter().flat_map(|name| ["env", name]).chain(["cwd"]).collect();
    let mut work = node.work(&steps);
    work.task.env = [("TASK_ONLY", "task"), ("BOTH", "task")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let params = &mut work.task.engine.params;
    params.insert("EnvironmentVariables".to_owned(), json!(["BOTH=engine", "SERVICE_JOB_ID=fake"]));
    params.insert("WorkingDirectory".to_owned(), json!("/somewhere/here"));
    let job_id = work.job_id;
    let id = node.orchestrator().run(work).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    let expected = format!(
        "TASK_ONLY=task\nBOTH=engine\nSERVICE_JOB_ID={job_id}\nSERVICE_JOB_NAME=test\n\
         SERVICE_JOB_TYPE=batch\nSERVICE_EXECUTION_ID={id}\nSERVICE_EXECUTION_INDEX=2\n\
         SERVICE_EXECUTION_COUNT=3\nSERVICE_NODE_ID={}\n/somewhere/here\n",
        node.node.id()
    );
    assert_eq!(done.run_output.unwrap().stdout, expected);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_point_replaces_that_of_the_image() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&["b"]);
    work.task.engine.params.insert("Entrypoint".to_owned(), json!(["/task", "out", "a", "out"]));
    let id = node.orchestrator().run(work).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(done.run_output.unwrap().stdout, "a\nb\n");
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_is_truncated_and_flagged_but_complete_on_the_node() {
    let Some(node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["many", "5000", "err", "x", "raw"])).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    let mut whole: Vec<u8> =
        (0..5000).map(|line| format!("line {line}\n")).collect::<String>().into();
    let output = done.run_output.unwrap();
    assert_eq!(output.stdout.as_bytes(), &whole[..2048]);
    assert!(output.stdout_truncated && !output.stderr_truncated);
    assert_eq!(output.stderr, "x\n");
    // Bytes that are not UTF-8 are kept unchanged.
    whole.extend([b'a', 0xFF, b'z']);
    assert_eq!(std::fs::read(node.node.execution_dir(id).join("stdout")).unwrap(), whole);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_isolated() {
    let Some(node) = DockerNode::start().await else { return };
    let steps = ["interfaces", "status", "CapEff", "status", "NoNewPrivs", "await"];
    let mut work = node.work(&steps);
    work.resources.cpu = 0.25;
    let id = node.orchestrator().run(work).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    let container = node.docker.inspect_container(&format!("execution-{id}"), None).await.unwrap();
    let limits = container.host_config.unwrap();
    assert_eq!(limits.nano_cpus, Some(250_000_000));
    assert_eq!((limits.memory, limits.memory_swap), (Some(64_000_000), Some(64_000_000)));
    assert!(limits.pids_limit.is_some_and(|limit| limit > 0), "{:?}", limits.pids_limit);
    let stdout = "lo\nCapEff:\t00000000000000eb\nNoNewPrivs:\t1\nwaiting\n";
    node.node.printed(id, stdout).await;
    node.signal(id).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(done.run_output.unwrap().stdout, stdout);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_full_network_has_more_than_loopback() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&["interfaces"]);
    work.task.network.network_type = NetworkType::Full;
    let id = node.orchestrator().run(work).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(done.run_output.unwrap().stdout, "eth0 lo\n");
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_mounted_read_only() {
    let Some(node) = DockerNode::start().await else { return };
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(6);
    header.set_mode(0o600);
    tar.append_data(&mut header, "deep/b.txt", &b"packed"[..]).unwrap();
    let tar = BASE64_STANDARD.encode(tar.into_inner().unwrap());
    let mut work = node.work(&[
        "cat",
        "/inputs/a.txt",
        "out",
        "",
        "cat",
        "/more/deep/b.txt",
        "out",
        "",
        "cat",
        "/dir/inline",
        "out",
        "",
        "write",
        "/inputs/a.txt",
        "x",
        "write",
        "/more/new",
        "x",
    ]);
    work.task.input_sources = vec![
        inline("data:text/plain,plain%20text", "/inputs/a.txt"),
        inline(&format!("data:application/x-tar;base64,{tar}"), "/more"),
        inline("data:,in%20a%20directory", "/dir/"),
    ];
    let id = node.orchestrator().run(work).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(
        done.run_output.unwrap().stdout,
        "plain text\npacked\nin a directory\n\
         cannot write /inputs/a.txt: read-only filesystem or storage medium\n\
         cannot write /more/new: read-only filesystem or storage medium\n"
    );
    node.nothing_is_left().await;
    let inputs = node.node.execution_dir(id).join("inputs");
    crate::node::eventually("the inputs to be removed", async || !inputs.exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn result_paths_are_collected_and_a_missing_one_is_reported() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work =
        node.work(&["write", "/outputs/answer", "42", "write", "/single/file.txt", "one"]);
    let path = |name: &str, path: &str| ResultPath { name: name.to_owned(), path: path.to_owned() };
    work.task.result_paths = vec![
        path("outputs", "/outputs"),
        path("single", "/single/file.txt"),
        path("gone", "/never/made.bin"),
    ];
    let id = node.orchestrator().run(work).await;
    let done = node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(done.message, "result path 'gone' (/never/made.bin) does not exist");
    let results = node.node.execution_dir(id).join("results");
    assert_eq!(std::fs::read_to_string(results.join("outputs/answer")).unwrap(), "42");
    assert_eq!(std::fs::read_to_string(results.join("single/file.txt")).unwrap(), "one");
    assert!(!results.join("gone").exists());
    node.nothing_is_left().await;
}
