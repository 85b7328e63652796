//! What an engine refuses of a task while it runs the task's twin: the cause is `Refused`, and
//! nothing counts against the node.

use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::protocol::{FailureCause, Report, Work};
use api_types::secret::TaskSecret;
use api_types::source::ResultPath;
use serde_json::{Value, json};

use crate::node::{DockerNode, Node};
use crate::programs::{inline, printing, wasm_work};

/// Longer than the name of any file.
fn long() -> String {
    format!("/{}", "a".repeat(300))
}

fn with_param(mut work: Work, name: &str, value: Value) -> Work {
    work.task.engine.params.insert(name.to_owned(), value);
    work
}

fn with_input(mut work: Work, target: &str) -> Work {
    let mut input = inline(b"x", target);
    let params = json!({ "URL": "data:text/plain,x" });
    input.source.params = serde_json::from_value(params).expect("an object");
    work.task.input_sources.push(input);
    work
}

fn with_result(mut work: Work, path: &str) -> Work {
    work.task.result_paths.push(ResultPath { name: "out".to_owned(), path: path.to_owned() });
    work
}

fn with_secrets(mut work: Work, paths: &[&str]) -> Work {
    let names = ["first", "second"].into_iter();
    work.task.secrets = names
        .zip(paths)
        .map(|(name, path)| {
            let (name, path) = (name.to_owned(), (*path).to_owned());
            TaskSecret { name, path, env: String::new() }
        })
        .collect();
    work
}

async fn fails(node: &Node, work: Work) -> Report {
    let id = node.orchestrator.run(work).await;
    node.orchestrator.reported(id, ComputeState::Failed).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_docker_refuses_of_a_task_is_refused_whatever_its_status_code() {
    let Some(node) = DockerNode::start().await else { return };
    let plain = || node.work(&["out", "never"]);
    let long = long();
    let cases = [
        (
            "its directory is a file",
            "WorkingDirectory",
            with_param(plain(), "WorkingDirectory", json!("/task")),
        ),
        (
            "its directory is of the kernel",
            "WorkingDirectory",
            with_param(plain(), "WorkingDirectory", json!("/proc/x")),
        ),
        (
            "its directory is too long",
            "WorkingDirectory",
            with_param(plain(), "WorkingDirectory", json!(long)),
        ),
        ("an input is of the kernel", "the Target of an input", with_input(plain(), "/proc/x")),
        ("an input is too long", "the Target of an input", with_input(plain(), &long)),
        ("an input is below a file", "the Target of an input", with_input(plain(), "/task/x")),
        ("an input is of the devices", "the Target of an input", with_input(plain(), "/sys/x")),
        ("a result is below a file", "the Path of a result", with_result(plain(), "/task/x")),
        ("a secret is of the kernel", "the Path of a secret", with_secrets(plain(), &["/proc/x"])),
        ("a secret is too long", "the Path of a secret", with_secrets(plain(), &[&long])),
        (
            "a secret is below another",
            "the Path of a secret",
            with_secrets(plain(), &["/s", "/s/x"]),
        ),
    ];
    for (what, field, work) in cases {
        let report = fails(&node.node, work).await;
        assert_eq!(
            (report.cause, report.confirmed),
            (FailureCause::Refused, false),
            "{what}: {report:?}"
        );
        assert!(report.message.contains(&format!("check {field}")), "{what}: {}", report.message);
        assert_eq!(report.run_output.expect("its reason").runner_error, report.message);
    }
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_with_which_nothing_starts_are_refused_as_the_twin_has_its_own() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&["out", "started"]);
    work.resources.memory = 1;
    work.resources.cpu = 0.000_001;
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().report_that(id, |it| it.compute_state.is_terminal()).await;
    assert!(!report.confirmed && report.cause != FailureCause::Node, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_a_wasm_program_cannot_have_are_refused() {
    let node = Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await;
    let plain = || wasm_work(&printing("never", "", 0), json!({}));
    for work in [with_result(plain(), &long()), with_input(plain(), &format!("{}/x", long()))] {
        let report = fails(&node, work).await;
        assert_eq!((report.cause, report.confirmed), (FailureCause::Refused, false), "{report:?}");
        assert!(report.message.contains("File name too long"), "{}", report.message);
    }
    let report = fails(&node, with_secrets(plain(), &["/s", "/s/x"])).await;
    assert_eq!((report.cause, report.confirmed), (FailureCause::Refused, false), "{report:?}");
}

/// As the agent of an earlier release reports it.
#[tokio::test(flavor = "multi_thread")]
async fn an_orchestrator_that_does_not_know_refusals_gets_the_causes_that_it_knows() {
    let Some(node) = DockerNode::start().await else { return };
    node.orchestrator().grows_old();
    node.orchestrator().joined(|_| true).await;
    let report = fails(&node.node, with_input(node.work(&[]), "/task/x")).await;
    assert_eq!((report.cause, report.confirmed), (FailureCause::Task, false), "{report:?}");
    let file = with_param(node.work(&[]), "WorkingDirectory", json!("/task"));
    let report = fails(&node.node, file).await;
    assert_eq!((report.cause, report.confirmed), (FailureCause::Node, false), "{report:?}");
    assert!(report.message.starts_with("docker answers "), "{}", report.message);
}

/// The orchestrator was replaced by an older one after the failure was recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_refusal_reaches_an_older_orchestrator_as_the_tasks_failure() {
    let Some(node) = DockerNode::start().await else { return };
    node.orchestrator().acknowledge_reports(false);
    let id = node
        .orchestrator()
        .run(with_param(node.work(&[]), "WorkingDirectory", json!("/task")))
        .await;
    let is =
        |cause| move |report: &Report| report.compute_state.is_terminal() && report.cause == cause;
    node.orchestrator().report_that(id, is(FailureCause::Refused)).await;
    node.orchestrator().grows_old();
    node.orchestrator().report_that(id, is(FailureCause::Task)).await;
}
