//! The contract of every engine; one suite, run once per engine.

use std::collections::BTreeSet;

use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{FailureCause, Work};
use bollard::Docker;
use serde_json::json;

use crate::node::{DockerNode, Node, work};
use crate::programs::{endless, printing, sleeping, wasm_work};

/// An engine with tasks that do the same under each.
struct Subject {
    node: Node,
    /// The Docker Engine that its containers are in.
    docker: Option<Docker>,
    /// Prints `hello` and, to stderr, `oops`.
    prints: Work,
    /// Exits with 3, after it has printed `hello`.
    fails: Work,
    /// Each prints `running`, and runs until it is stopped.
    runs_on: Vec<Work>,
}

async fn docker() -> Option<Subject> {
    let DockerNode { node, docker, image } = DockerNode::start().await?;
    let task =
        |steps: &[&str]| work(EngineType::Docker, json!({"Image": image, "Parameters": steps}));
    Some(Subject {
        prints: task(&["out", "hello", "err", "oops"]),
        fails: task(&["out", "hello", "exit", "3"]),
        runs_on: vec![task(&["out", "running", "sleep", "900000"])],
        docker: Some(docker),
        node,
    })
}

async fn wasm() -> Option<Subject> {
    let node = Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await;
    let task = |bytes: Vec<u8>| wasm_work(&bytes, json!({}));
    Some(Subject {
        prints: task(printing("hello\n", "oops\n", 0)),
        fails: task(printing("hello\n", "", 3)),
        runs_on: vec![task(endless()), task(sleeping())],
        docker: None,
        node,
    })
}

async fn completes(subject: &mut Subject) {
    let id = subject.node.orchestrator.run(subject.prints.clone()).await;
    let report = subject.node.orchestrator.reported(id, ComputeState::Completed).await;
    let output = report.run_output.expect("its output");
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("hello\n", "oops\n"));
    assert_eq!((output.exit_code, report.sequence, report.message.as_str()), (0, 3, ""));
}

async fn reports_the_exit_code(subject: &mut Subject) {
    let id = subject.node.orchestrator.run(subject.fails.clone()).await;
    let report = subject.node.orchestrator.reported(id, ComputeState::Failed).await;
    assert_eq!((report.message.as_str(), report.cause), ("exit code 3", FailureCause::Task));
    let output = report.run_output.expect("its output");
    assert_eq!((output.exit_code, output.stdout.as_str()), (3, "hello\n"));
    assert_eq!(output.runner_error, "");
}

async fn stops_unwanted_executions(subject: &mut Subject) {
    let Node { orchestrator, .. } = &subject.node;
    for endless in subject.runs_on.clone() {
        let id = orchestrator.run(endless).await;
        orchestrator.reported(id, ComputeState::BidAccepted).await;
        subject.node.printed(id, "running\n").await;
        orchestrator.want_state(id, DesiredState::Stopped, "enough");
        let report = orchestrator.reported(id, ComputeState::Cancelled).await;
        assert_eq!(report.message, "enough");
        let output = report.run_output.expect("its output");
        assert_eq!((output.exit_code, output.stdout.as_str()), (143, "running\n"));
    }
}

async fn keeps_the_execution_timeout(subject: &mut Subject) {
    for mut endless in subject.runs_on.clone() {
        endless.task.timeouts.execution_timeout = 1;
        let id = subject.node.orchestrator.run(endless).await;
        let report = subject.node.orchestrator.reported(id, ComputeState::Failed).await;
        assert_eq!(report.cause, FailureCause::Timeout);
        assert_eq!(report.message, "execution timeout: still running after 1 s");
    }
}

/// The task outlives its agent, no false end is reported, and it runs once.
async fn outlives_its_agent(subject: &mut Subject) {
    let endless = subject.runs_on[0].clone();
    let id = subject.node.orchestrator.run(endless).await;
    subject.node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    subject.node.printed(id, "running\n").await;
    subject.node.kill_agent().await;
    subject.node.start_agent().await;
    subject.node.wait_for_phase(id, "Running").await;
    subject.node.printed(id, "running\n").await;
    subject.node.orchestrator.want_state(id, DesiredState::Stopped, "enough");
    let report = subject.node.orchestrator.reported(id, ComputeState::Cancelled).await;
    let output = report.run_output.expect("its output");
    assert_eq!((output.exit_code, output.stdout.as_str()), (143, "running\n"));
    // A report whose acknowledgement was not yet written down is sent again: it is the same one.
    let reports = subject.node.orchestrator.all_reports(id);
    let started = reports.iter().filter(|report| report.compute_state == ComputeState::BidAccepted);
    let started: BTreeSet<_> = started.map(|report| report.sequence).collect();
    assert_eq!(started.len(), 1, "{reports:?}");
}

macro_rules! contract {
    ($($engine:ident),+) => {
        $(mod $engine {
            contract!(@tests $engine: completes, reports_the_exit_code,
                stops_unwanted_executions, keeps_the_execution_timeout,
                outlives_its_agent);
        })+
    };
    (@tests $engine:ident: $($test:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            if let Some(mut subject) = super::$engine().await {
                super::$test(&mut subject).await;
                if let Some(docker) = &subject.docker {
                    subject.node.leaves_no_container(docker).await;
                }
            }
        })+
    };
}

contract!(docker, wasm);
