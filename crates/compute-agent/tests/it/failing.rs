//! Tasks that fail, each with the cause and the words that the user needs.

use api_types::execution::ComputeState;
use api_types::protocol::{FailureCause, Report};
use api_types::source::{InputSource, SourceSpec, SourceType};
use serde_json::json;

use crate::node::DockerNode;

async fn fails(node: &DockerNode, work: api_types::protocol::Work) -> Report {
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    node.nothing_is_left().await;
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_non_zero_exit_code_is_the_tasks_own_failure_and_its_output_is_kept() {
    let Some(node) = DockerNode::start().await else { return };
    let report = fails(&node, node.work(&["out", "before", "exit", "3"])).await;
    assert_eq!((report.cause, report.message.as_str()), (FailureCause::Task, "exit code 3"));
    let output = report.run_output.unwrap();
    assert_eq!((output.exit_code, output.stdout.as_str()), (3, "before\n"));
    assert_eq!(output.runner_error, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_beyond_its_memory_limit_fails_with_the_limit() {
    let Some(node) = DockerNode::start().await else { return };
    let report = fails(&node, node.work(&["fill-memory"])).await;
    assert_eq!(report.cause, FailureCause::Task);
    assert_eq!(
        report.message,
        "used more than its 64 MB of memory and was killed; its limit is Resources.Memory"
    );
    let output = report.run_output.unwrap();
    assert_eq!((output.exit_code, output.runner_error), (137, report.message));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_beyond_its_timeout_is_ended() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&["out", "begun", "sleep", "60000"]);
    work.task.timeouts.execution_timeout = 2;
    let report = fails(&node, work).await;
    assert_eq!(report.cause, FailureCause::Timeout);
    assert_eq!(report.message, "execution timeout: still running after 2 s");
    assert_eq!(report.run_output.unwrap().stdout, "begun\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_image_is_named() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&[]);
    // Nothing listens there, so no registry gets a request.
    work.task.engine.params.insert("Image".to_owned(), json!("127.0.0.1:9/absent:1"));
    let report = fails(&node, work).await;
    assert_eq!(report.cause, FailureCause::Fetch);
    for part in ["image '127.0.0.1:9/absent:1'", "cannot be pulled", "load the image"] {
        assert!(report.message.contains(part), "{}", report.message);
    }
    let output = report.run_output.unwrap();
    assert_eq!((output.exit_code, output.runner_error), (-1, report.message));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_command_is_the_tasks_own_failure() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&[]);
    work.task.engine.params.insert("Entrypoint".to_owned(), json!(["/absent"]));
    let report = fails(&node, work).await;
    assert_eq!(report.cause, FailureCause::Task);
    let output = report.run_output.unwrap();
    assert!(format!("{}{}", report.message, output.stderr).contains("/absent"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_does_not_unpack_is_named() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&["out", "never"]);
    let url = json!({ "URL": "data:application/gzip,nogzip" });
    let params = serde_json::from_value(url).unwrap();
    work.task.input_sources = vec![InputSource {
        source: SourceSpec { source_type: SourceType::Inline, params },
        target: "/inputs".to_owned(),
        alias: String::new(),
    }];
    let report = fails(&node, work).await;
    assert_eq!(report.cause, FailureCause::Task);
    assert!(report.message.starts_with("input 0 (inline, for '/inputs'): "), "{}", report.message);
}
