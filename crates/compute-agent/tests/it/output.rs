//! The output of docker tasks, which the agent copies while they run.

use api_types::execution::{ComputeState, NO_EXIT_CODE};
use api_types::protocol::FailureCause;
use api_types::quantity::Capacity;
use bollard::models::HostConfig;
use bollard::query_parameters::RemoveContainerOptions;

use crate::node::{DockerNode, eventually};

/// `docker rm -f`.
async fn remove(node: &DockerNode, id: api_types::ExecutionId) {
    let options = RemoveContainerOptions { force: true, ..Default::default() };
    let removed = node.docker.remove_container(&format!("execution-{id}"), Some(options)).await;
    removed.expect("it is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_a_running_task_survives_the_removal_of_its_container() {
    let Some(node) = DockerNode::start().await else { return };
    let id =
        node.orchestrator().run(node.work(&["out", "one", "err", "two", "sleep", "60000"])).await;
    node.node.printed_bytes(id, 8).await;
    remove(&node, id).await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    let words = "its container was removed by someone else; its process ended with exit code 137";
    assert_eq!((report.cause, report.message.as_str()), (FailureCause::Node, words));
    let output = report.run_output.expect("its output");
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("one\n", "two\n"));
    // It is also what readers get from then on.
    node.node.printed_bytes(id, 8).await;
    node.nothing_is_left().await;
}

/// As the removal above, while no agent sees it.
#[tokio::test(flavor = "multi_thread")]
async fn it_survives_a_removal_while_the_agent_is_away() {
    let Some(mut node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["out", "one", "sleep", "60000"])).await;
    node.node.printed(id, "one\n").await;
    node.node.kill_agent().await;
    remove(&node, id).await;
    node.node.start_agent().await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    let words = "its container was removed by someone else";
    assert_eq!((report.cause, report.message.as_str()), (FailureCause::Node, words));
    let output = report.run_output.expect("its output");
    assert_eq!((output.stdout.as_str(), output.exit_code), ("one\n", NO_EXIT_CODE));
    node.nothing_is_left().await;
}

/// Results are gone with the container, so that a run that ended well has not.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_that_leaves_the_container_is_the_tasks_own_end() {
    let Some(node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["out", "one", "sleep", "60000"])).await;
    node.node.printed(id, "one\n").await;
    node.docker.kill_container(&format!("execution-{id}"), None).await.unwrap();
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    assert_eq!(
        (report.cause, report.message.as_str()),
        (FailureCause::Task, "exit code 137 (SIGKILL)")
    );
    assert_eq!(report.run_output.expect("its output").stdout, "one\n");
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_restarts_copies_on_without_loss_or_repetition() {
    let Some(mut node) = DockerNode::start().await else { return };
    let steps = ["many", "3000", "await", "out", "two", "sleep", "3000", "out", "three"];
    let lines: String = (0..3000).map(|line| format!("line {line}\n")).collect();
    let id = node.orchestrator().run(node.work(&steps)).await;
    let text = |more: &str| format!("{lines}waiting\n{more}");
    node.node.printed(id, &text("")).await;
    node.node.kill_agent().await;
    node.signal(id).await;
    node.node.start_agent().await;
    node.node.printed(id, &text("two\n")).await;
    node.node.kill_agent().await;
    let name = format!("execution-{id}");
    eventually("it to end", async || {
        let found = node.docker.inspect_container(&name, None).await.unwrap();
        found.state.unwrap().running == Some(false)
    })
    .await;
    node.node.start_agent().await;
    node.orchestrator().reported(id, ComputeState::Completed).await;
    node.node.printed(id, &text("two\nthree\n")).await;
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_prints_more_than_its_disk_is_stopped_while_it_runs() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&["many", "1000000000"]);
    work.resources = Capacity { disk: 1_000_000, ..work.resources };
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    assert_eq!(report.cause, FailureCause::Task);
    let words = "what it printed (stdout and stderr), with the time of each line or part of a \
                 line, has 1 MB, more than the 1 MB of the task's Resources.Disk; ask for more";
    assert_eq!(report.message, words);
    assert!(report.run_output.expect("its output").stdout.contains("\nline "));
    let copied = std::fs::metadata(node.node.execution_dir(id).join("stdout")).unwrap().len();
    assert!((100_000..=1_000_000).contains(&copied), "{copied}");
    node.nothing_is_left().await;
}

/// It ends before anything is copied.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_task_that_prints_too_much_fails_as_well() {
    let Some(node) = DockerNode::start().await else { return };
    let mut work = node.work(&["many", "100000"]);
    work.resources = Capacity { disk: 400_000, ..work.resources };
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    assert_eq!(report.cause, FailureCause::Task);
    assert!(
        report.message.starts_with("what it printed (stdout and stderr)"),
        "{}",
        report.message
    );
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engines_log_files_are_bounded_by_the_disk_of_the_task() {
    let Some(node) = DockerNode::start().await else { return };
    for (disk, at_most) in [(0, 1 << 30), (100_000_000, 130_000_000), (20_000_000_000, 1 << 30)] {
        let mut work = node.work(&["await"]);
        work.resources = Capacity { disk, ..work.resources };
        let id = node.orchestrator().run(work).await;
        node.orchestrator().reported(id, ComputeState::BidAccepted).await;
        let name = format!("execution-{id}");
        let found = node.docker.inspect_container(&name, None).await.unwrap();
        let HostConfig { log_config, .. } = found.host_config.unwrap();
        let config = log_config.unwrap().config.unwrap();
        let number = |key: &str| config[key].parse::<u64>().unwrap();
        let all = number("max-size") * number("max-file");
        assert!((at_most / 2..=at_most).contains(&all), "{disk}: {all}");
        remove(&node, id).await;
        node.orchestrator().reported(id, ComputeState::Failed).await;
    }
    node.nothing_is_left().await;
}
