//! The pool of network sandboxes: nothing is shared at a time, nothing is left for the next.

use std::collections::HashMap;

use api_types::ExecutionId;
use api_types::execution::{ComputeState, DesiredState};
use bollard::models::ContainerSummaryStateEnum;
use bollard::query_parameters::KillContainerOptions;

use crate::containers::{self, SANDBOX};
use crate::node::{DockerNode, eventually};

/// A node with a pool.
struct PoolNode {
    node: DockerNode,
}

impl PoolNode {
    /// None where there is no Docker Engine; otherwise with its pool filled.
    async fn start(places: u16) -> Option<Self> {
        let node = DockerNode::start_with(|settings| settings.docker.sandbox_pool = places).await?;
        let node = Self { node };
        node.filled(places).await;
        Some(node)
    }

    /// Waits until this many sandboxes run, and returns their ids.
    async fn filled(&self, places: u16) -> Vec<String> {
        eventually(&format!("{places} sandboxes"), async || {
            running(&self.sandboxes().await).len() == usize::from(places)
        })
        .await;
        running(&self.sandboxes().await)
    }

    /// By id, and whether it runs.
    async fn sandboxes(&self) -> HashMap<String, bool> {
        let node = self.node.node.id();
        let listed = containers::labelled(&self.node.docker, SANDBOX, node).await;
        let runs = |state| state == Some(ContainerSummaryStateEnum::RUNNING);
        listed.into_iter().map(|found| (found.id.expect("an id"), runs(found.state))).collect()
    }

    /// The output of the execution, once there is some.
    async fn output(&self, id: ExecutionId) -> String {
        let report = self.node.orchestrator().reported(id, ComputeState::Completed).await;
        report.run_output.expect("its output").stdout
    }

    async fn run(&self, steps: &[&str]) -> String {
        let id = self.node.orchestrator().run(self.node.work(steps)).await;
        let output = self.output(id).await;
        self.node.nothing_is_left().await;
        output
    }

    /// The network namespace of the only sandbox. It lives on, so that no other has its number.
    async fn namespace(&self) -> String {
        let sandbox = self.filled(1).await.remove(0);
        let state =
            self.node.docker.inspect_container(&sandbox, None).await.expect("inspect").state;
        let pid = state.and_then(|state| state.pid).expect("a process");
        let link = std::fs::read_link(format!("/proc/{pid}/ns/net"));
        link.expect("the Engine's processes can be seen").display().to_string()
    }

    /// Runs the steps, repeatedly until they get the only sandbox, which may still await its
    /// inspection; returns their output.
    async fn run_in(&self, namespace: &str, steps: &[&str]) -> String {
        let steps: Vec<_> = ["namespace", "net"].iter().chain(steps).copied().collect();
        let mut found = None;
        eventually("the sandbox to be lent again", async || {
            let output = self.run(&steps).await;
            let (ran_in, rest) = output.split_once('\n').expect("lines");
            found = (ran_in == namespace).then(|| rest.to_owned());
            found.is_some()
        })
        .await;
        found.expect("it was found")
    }

    async fn mode_of(&self, id: ExecutionId) -> String {
        let name = format!("execution-{id}");
        let container = self.node.docker.inspect_container(&name, None).await.expect("inspect");
        container.host_config.and_then(|config| config.network_mode).expect("a mode")
    }

    async fn started(&self, steps: &[&str]) -> ExecutionId {
        let id = self.node.orchestrator().run(self.node.work(steps)).await;
        self.node.orchestrator().reported(id, ComputeState::BidAccepted).await;
        id
    }

    /// Starts such tasks until one is in a sandbox.
    async fn started_pooled(&self, steps: &[&str]) -> (ExecutionId, String) {
        let mut found = None;
        eventually("a sandbox to be lent", async || {
            let id = self.started(steps).await;
            let mode = self.mode_of(id).await;
            if mode == "none" {
                self.stop(&[id]).await;
            } else {
                found = Some((id, mode));
            }
            found.is_some()
        })
        .await;
        found.expect("it was found")
    }

    async fn stop(&self, ids: &[ExecutionId]) {
        for id in ids {
            self.node.orchestrator().want_state(*id, DesiredState::Stopped, "enough");
        }
        for id in ids {
            self.node.orchestrator().reported(*id, ComputeState::Cancelled).await;
            let name = format!("execution-{id}");
            eventually("the container to be removed", async || {
                self.node.docker.inspect_container(&name, None).await.is_err()
            })
            .await;
        }
    }
}

fn running(sandboxes: &HashMap<String, bool>) -> Vec<String> {
    let mut ids: Vec<_> =
        sandboxes.iter().filter(|(_, runs)| **runs).map(|(id, _)| id.clone()).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shared_between_tasks_that_run_together() {
    let Some(node) = PoolNode::start(2).await else { return };
    let steps = [
        "namespace",
        "net",
        "namespace",
        "ipc",
        "namespace",
        "pid",
        "interfaces",
        "listen",
        "7000",
        "abstract",
        "here",
        "entries",
        "/dev/shm",
        "write",
        "/dev/shm/mine",
        "x",
        "sleep",
        "60000",
    ];
    let (a, mode_a) = node.started_pooled(&steps).await;
    let (b, mode_b) = node.started_pooled(&steps).await;
    assert_ne!(mode_a, mode_b);
    let mut printed = Vec::new();
    for id in [a, b] {
        let url = node.node.node.url(&format!("/api/v1/agent/executions/{id}/logs"));
        let mut text = String::new();
        eventually("the task to have said all", async || {
            text = String::from_utf8(crate::http::get(&url).await.body).expect("text");
            text.ends_with("wrote /dev/shm/mine\n")
        })
        .await;
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines[3..7], ["lo", "listen: yes", "abstract: yes", "/dev/shm: 0"], "{text}");
        printed.push(lines);
    }
    for (of_a, of_b) in printed[0][..3].iter().zip(&printed[1][..3]) {
        assert_ne!(of_a, of_b);
    }
    node.stop(&[a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_for_the_next_task() {
    let Some(node) = PoolNode::start(1).await else { return };
    // The last process of the first task is one that its main process leaves behind, with
    // everything open.
    let namespace = node.namespace().await;
    let first = node
        .run_in(
            &namespace,
            &[
                "write",
                "/dev/shm/secret",
                "x",
                "leave-behind",
                "listen",
                "7000",
                "abstract",
                "here",
                "sleep",
                "60000",
            ],
        )
        .await;
    assert!(first.starts_with("wrote /dev/shm/secret\n"), "{first}");
    let next = node
        .run_in(
            &namespace,
            &["connect", "7000", "listen", "7000", "abstract", "here", "entries", "/dev/shm"],
        )
        .await;
    assert_eq!(next, "connect: connection refused\nlisten: yes\nabstract: yes\n/dev/shm: 0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lingering_port_is_not_passed_to_the_next_task() {
    let Some(node) = PoolNode::start(1).await else { return };
    let namespace = node.namespace().await;
    assert_eq!(node.run_in(&namespace, &["linger", "7000"]).await, "lingers\n");
    let next = node.run(&["namespace", "net", "listen", "7000"]).await;
    let (ran_in, said) = next.split_once('\n').expect("lines");
    assert_ne!(ran_in, namespace, "{said}");
    assert_eq!(said, "listen: yes\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_shared_file_is_not_passed_to_the_next_task() {
    let Some(node) = PoolNode::start(1).await else { return };
    let before = node.filled(1).await;
    let namespace = node.namespace().await;
    let said = node.run_in(&namespace, &["write", "/etc/hosts", "secret"]).await;
    assert_eq!(said, "wrote /etc/hosts\n");
    eventually("the sandbox to be replaced", async || {
        let now = running(&node.sandboxes().await);
        now.len() == 1 && now != before
    })
    .await;
    assert!(!node.run(&["cat", "/etc/hosts"]).await.contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_immediately_without_a_free_slot() {
    let Some(node) = PoolNode::start(1).await else { return };
    let (first, _) = node.started_pooled(&["sleep", "60000"]).await;
    let second = node.started(&["sleep", "60000"]).await;
    assert_eq!(node.mode_of(second).await, "none");
    node.stop(&[first, second]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_and_its_leases_survive_the_agent() {
    let Some(mut node) = PoolNode::start(1).await else { return };
    let before = node.filled(1).await;
    let (first, mode) = node.started_pooled(&["sleep", "60000"]).await;
    node.node.node.kill_agent().await;
    node.node.node.start_agent().await;
    node.node.node.wait_for_phase(first, "Running").await;
    let second = node.started(&["sleep", "60000"]).await;
    assert_eq!(node.mode_of(second).await, "none");
    node.stop(&[first, second]).await;
    assert_eq!(node.filled(1).await, before);
    let (third, mode_again) = node.started_pooled(&["sleep", "60000"]).await;
    assert_eq!(mode_again, mode);
    node.stop(&[third]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_removes_idle_sandboxes() {
    let Some(mut node) = PoolNode::start(2).await else { return };
    let (task, mode) = node.started_pooled(&["sleep", "60000"]).await;
    node.filled(2).await;
    node.node.node.shut_down_agent().await;
    let lent = mode.strip_prefix("container:").expect("a sandbox").to_owned();
    assert_eq!(node.sandboxes().await, HashMap::from([(lent, true)]));

    node.node.node.start_agent().await;
    node.node.node.wait_for_phase(task, "Running").await;
    assert_eq!(node.mode_of(task).await, mode);
    node.stop(&[task]).await;
    node.filled(2).await;
    node.node.node.shut_down_agent().await;
    assert_eq!(node.sandboxes().await, HashMap::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_that_ended_with_the_engine_are_recreated() {
    let Some(mut node) = PoolNode::start(2).await else { return };
    let before = node.filled(2).await;
    for sandbox in &before {
        let options = KillContainerOptions { signal: "KILL".to_owned() };
        node.node.docker.kill_container(sandbox, Some(options)).await.unwrap();
    }
    // The agent does not know yet: a task that gets one of them runs nevertheless.
    assert_eq!(node.run(&["out", "fine"]).await, "fine\n");
    node.node.node.kill_agent().await;
    node.node.node.start_agent().await;
    node.filled(2).await;
    eventually("ended sandboxes to be removed", async || node.sandboxes().await.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_pool_is_removed() {
    let Some(mut node) = PoolNode::start(2).await else { return };
    node.node.node.kill_agent().await;
    assert_eq!(node.sandboxes().await.len(), 2, "a kill leaves them for the next start");
    node.node.node.settings.docker.sandbox_pool = 0;
    node.node.node.start_agent().await;
    eventually("the sandboxes to be removed", async || node.sandboxes().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_uses_less_than_a_megabyte_of_its_own() {
    const LIMIT_KB: u64 = 1000;
    let Some(node) = PoolNode::start(1).await else { return };
    let sandbox = node.filled(1).await.remove(0);
    let state = node.node.docker.inspect_container(&sandbox, None).await.unwrap().state.unwrap();
    let process = format!("/proc/{}", state.pid.expect("a process"));
    let read = |file| std::fs::read_to_string(format!("{process}/{file}")).expect("it can be seen");
    // The Engine says that a container runs shortly before its runtime becomes the program.
    eventually("the program to start", async || !read("comm").starts_with("runc")).await;
    let text = read("smaps_rollup");
    let anonymous = text.lines().find_map(|line| line.strip_prefix("Pss_Dirty:")).expect("a line");
    let anonymous_kb: u64 = anonymous.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(anonymous_kb < LIMIT_KB, "{text}");
}
