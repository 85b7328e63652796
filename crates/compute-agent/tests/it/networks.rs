//! Tasks with a network: what they reach, and what becomes of their sandboxes.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use api_types::ExecutionId;
use api_types::engine::NetworkType;
use api_types::execution::{ComputeState, DesiredState};
use bollard::Docker;
use bollard::query_parameters::{InspectNetworkOptions, KillContainerOptions};
use compute_agent::Settings;
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpListener;

use crate::containers::{self, GUARDED_SANDBOX};
use crate::node::{DockerNode, eventually};

/// Where clouds serve metadata. Nothing answers there on most machines, but then a connection fails
/// otherwise and later.
const METADATA: &str = "169.254.169.254:80";

/// What a connection fails with that a sandbox refuses.
const REFUSED: &str = "host unreachable";

struct NetworkNode {
    node: DockerNode,
}

impl NetworkNode {
    /// None where there is no Docker Engine.
    async fn start(change: impl FnOnce(&mut Settings)) -> Option<Self> {
        Some(Self { node: DockerNode::start_with(change).await? })
    }

    async fn begin(&self, steps: &[&str]) -> ExecutionId {
        let mut work = self.node.work(steps);
        work.task.network.network_type = NetworkType::Full;
        self.node.orchestrator().run(work).await
    }

    /// The output of a task with these steps.
    async fn run(&self, steps: &[&str]) -> String {
        let id = self.begin(steps).await;
        let report = self.node.orchestrator().reported(id, ComputeState::Completed).await;
        report.run_output.expect("its output").stdout
    }

    async fn started(&self, steps: &[&str]) -> ExecutionId {
        let id = self.begin(steps).await;
        self.node.orchestrator().reported(id, ComputeState::BidAccepted).await;
        id
    }

    /// What a task prints, which then sleeps, up to a line with this end.
    async fn printed(&self, id: ExecutionId, end: &str) -> String {
        let url = self.node.node.url(&format!("/api/v1/agent/executions/{id}/logs"));
        let mut printed = String::new();
        eventually("a task to have printed all", async || {
            printed = String::from_utf8(crate::http::get(&url).await.body).expect("text");
            printed.ends_with(&format!("{end}\n"))
        })
        .await;
        printed
    }

    /// The sandbox that a task with these steps ran in, and what it printed up to this end.
    async fn ran_in(&self, steps: &[&str], end: &str) -> (String, String) {
        let id = self.started(&[steps, &["sleep", "60000"]].concat()).await;
        let sandbox = self.sandbox_of(id).await;
        let printed = self.printed(id, end).await;
        self.stop(id).await;
        (sandbox, printed)
    }

    /// The sandbox that an execution is in.
    async fn sandbox_of(&self, id: ExecutionId) -> String {
        let name = format!("execution-{id}");
        let container = self.node.docker.inspect_container(&name, None).await.expect("inspect");
        let mode = container.host_config.and_then(|config| config.network_mode).expect("a mode");
        mode.strip_prefix("container:").expect("a sandbox").to_owned()
    }

    async fn sandboxes(&self) -> Vec<String> {
        let node = self.node.node.id();
        let listed = containers::labelled(&self.node.docker, GUARDED_SANDBOX, node).await;
        listed.into_iter().filter_map(|found| found.id).collect()
    }

    async fn stop(&self, id: ExecutionId) {
        self.node.orchestrator().want_state(id, DesiredState::Stopped, "enough");
        self.node.orchestrator().reported(id, ComputeState::Cancelled).await;
    }

    async fn leaves_nothing(&self) {
        self.node.nothing_is_left().await;
        eventually("all sandboxes to be removed", async || self.sandboxes().await.is_empty()).await;
    }
}

/// The address of the bridge of Docker on this machine.
async fn gateway(docker: &Docker) -> Ipv4Addr {
    let network = docker.inspect_network("bridge", None::<InspectNetworkOptions>).await;
    let config = network.expect("the bridge").ipam.and_then(|ipam| ipam.config);
    let subnet = config.into_iter().flatten().find_map(|config| config.subnet).expect("a subnet");
    let (network, _) = subnet.split_once('/').expect("a range");
    let network: Ipv4Addr = network.parse().expect("an address");
    Ipv4Addr::from(u32::from(network) + 1)
}

/// Another address of this machine than that of the bridge: of the route to the outside.
fn other_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("bind");
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().expect("an address").ip())
}

/// A listener on every address of this machine that accepts every connection.
async fn listener() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("listen");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            accepted.push(stream);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_a_network_reaches_neither_its_host_nor_metadata_nor_other_tasks() {
    let Some(node) = NetworkNode::start(|_| ()).await else { return };
    let port = listener().await;
    let gateway = SocketAddr::from((gateway(&node.node.docker).await, port)).to_string();
    let server = node.started(&["address", "serve", "7000", "sleep", "60000"]).await;
    let printed = node.printed(server, "serves").await;
    let neighbour = format!("{}:7000", printed.lines().next().expect("its address"));
    let mut targets = vec![gateway.clone(), METADATA.to_owned(), neighbour];
    targets.extend(other_address().map(|address| SocketAddr::from((address, port)).to_string()));
    let mut steps = Vec::new();
    for target in &targets {
        steps.extend(["reach", target.as_str(), "reach-bound", target.as_str()]);
    }
    let said = node.run(&steps).await;
    let wanted = format!("reach: {REFUSED}\nreach-bound: {REFUSED}\n").repeat(targets.len());
    assert_eq!(said, wanted, "{targets:?}");
    node.stop(server).await;
    node.leaves_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_reaches_what_the_operator_allows_and_itself() {
    let docker = crate::image::docker().await;
    let Some(docker) = docker else { return };
    let gateway = gateway(&docker).await;
    let allow = |settings: &mut Settings| {
        settings.allow_addresses = vec![gateway.to_string().parse().expect("a range")];
    };
    let Some(node) = NetworkNode::start(allow).await else { return };
    let target = SocketAddr::from((gateway, listener().await)).to_string();
    let steps = ["reach", &target, "reach-bound", &target, "reach", METADATA];
    let itself = ["listen", "7000", "connect", "7000"];
    let said = node.run(&[&steps[..], &itself[..]].concat()).await;
    let wanted = format!("reach: yes\nreach-bound: yes\nreach: {REFUSED}\n");
    assert_eq!(said, format!("{wanted}listen: yes\nconnect: yes\n"));
    node.leaves_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_cannot_remove_what_restricts_it() {
    let Some(node) = NetworkNode::start(|_| ()).await else { return };
    let target = SocketAddr::from((gateway(&node.node.docker).await, listener().await)).to_string();
    let said = node.run(&["status", "CapEff", "flush-rules", "reach", &target]).await;
    assert_eq!(
        said,
        format!("CapEff:\t00000000000000eb\nflush-rules: permission denied\nreach: {REFUSED}\n")
    );
    node.leaves_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn name_servers_are_reached_for_names_alone() {
    let Some(node) = NetworkNode::start(|_| ()).await else { return };
    let text = node.run(&["cat", "/etc/resolv.conf"]).await;
    let server = text.lines().find_map(|line| line.strip_prefix("nameserver "));
    let server = server.expect("a name server").trim().to_owned();
    let (dns, other) = (format!("{server}:53"), format!("{server}:9"));
    let said = node.run(&["dns", &dns, "reach", &other]).await;
    // Where the machine has no name server, the question is sent, and nothing answers.
    let sent = ["dns: yes\n", "dns: would block\n", "dns: resource temporarily unavailable\n"];
    assert!(sent.iter().any(|sent| said.starts_with(sent)), "{said}");
    if server.parse::<Ipv4Addr>().is_ok_and(|server| server.is_private()) {
        assert!(said.ends_with(&format!("reach: {REFUSED}\n")), "{said}");
    }
    node.leaves_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_task_in_a_sandbox_finds_nothing_of_the_last_one() {
    let Some(node) = NetworkNode::start(|settings| settings.docker.network_pool = 1).await else {
        return;
    };
    let target = SocketAddr::from((gateway(&node.node.docker).await, listener().await)).to_string();
    let first = ["listen", "7000", "abstract", "here", "connect", "7000", "linger", "7001"];
    let second =
        ["connect", "7000", "lines", "/proc/net/tcp", "listen", "7001", "abstract", "here"];
    let second = [&second[..], &["reach", &target]].concat();
    let refused = format!("reach: {REFUSED}");
    let mut used = HashSet::new();
    let mut found = String::new();
    // While the sandbox of a task is inspected, the next task gets another one: where that takes
    // longer than a task, they alternate between two.
    eventually("a task to get a sandbox of another", async || {
        for _ in 0..2 {
            let (sandbox, said) = node.ran_in(&first, "lingers").await;
            assert_eq!(said, "listen: yes\nabstract: yes\nconnect: yes\nlingers\n");
            used.insert(sandbox);
        }
        let (sandbox, said) = node.ran_in(&second, &refused).await;
        found = said;
        used.remove(&sandbox)
    })
    .await;
    assert_eq!(
        found,
        format!(
            "connect: connection refused\n/proc/net/tcp: 1\nlisten: yes\nabstract: yes\n{refused}\n"
        )
    );
    node.node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_with_a_changed_file_is_replaced() {
    let Some(node) = NetworkNode::start(|settings| settings.docker.network_pool = 1).await else {
        return;
    };
    let first = node.started(&["write", "/etc/hosts", "secret", "sleep", "60000"]).await;
    // A task that is stopped before it has written leaves its sandbox clean.
    node.printed(first, "wrote /etc/hosts").await;
    let used = node.sandbox_of(first).await;
    // While there are such tasks, one more is kept ready.
    eventually("another sandbox", async || node.sandboxes().await.len() == 2).await;
    node.stop(first).await;
    eventually("the used one to be removed", async || !node.sandboxes().await.contains(&used))
        .await;
    assert!(!node.run(&["cat", "/etc/hosts"]).await.contains("secret"));
    node.node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_of_which_another_process_has_a_socket_gets_no_task() {
    let Some(node) = NetworkNode::start(|settings| settings.docker.network_pool = 1).await else {
        return;
    };
    // The pool keeps as many busy sandboxes as tasks hold, and one more. This task makes room for a
    // sandbox whose task has just ended, which may be busy for a moment.
    let other = node.started(&["sleep", "60000"]).await;
    let first = node.started(&["sleep", "60000"]).await;
    let used = node.sandbox_of(first).await;
    let socket = socket_within(&node.node.docker, &used).await;
    node.stop(first).await;
    for _ in 0..3 {
        let next = node.started(&["sleep", "60000"]).await;
        assert_ne!(node.sandbox_of(next).await, used);
        node.stop(next).await;
    }
    assert!(node.sandboxes().await.contains(&used), "it may become free");
    drop(socket);
    let mut next = vec![other];
    eventually("it to get a task", async || {
        let id = node.started(&["sleep", "60000"]).await;
        next.push(id);
        node.sandbox_of(id).await == used
    })
    .await;
    for id in next {
        node.stop(id).await;
    }
    node.node.nothing_is_left().await;
}

/// A socket of this process in the sandbox's network, bound to nothing: no table of the kernel
/// shows it.
async fn socket_within(docker: &Docker, sandbox: &str) -> OwnedFd {
    let state = docker.inspect_container(sandbox, None).await.expect("inspect").state;
    let pid = state.and_then(|state| state.pid).expect("a process");
    let inside = move || {
        let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net")).expect("open");
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), network).expect("enter the namespace");
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket")
    };
    std::thread::spawn(inside).join().expect("it does not panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_of_a_task_survives_the_agent_and_the_restrictions_with_it() {
    let Some(mut node) = NetworkNode::start(|_| ()).await else { return };
    let target = SocketAddr::from((gateway(&node.node.docker).await, listener().await)).to_string();
    let id = node.started(&["sleep", "4000", "reach", &target]).await;
    let sandbox = node.sandbox_of(id).await;
    node.node.node.kill_agent().await;
    node.node.node.start_agent().await;
    let report = node.node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(report.run_output.expect("its output").stdout, format!("reach: {REFUSED}\n"));
    node.leaves_nothing().await;
    assert!(!node.sandboxes().await.contains(&sandbox));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_sandbox_that_ended_with_the_engine_is_replaced() {
    let Some(node) = NetworkNode::start(|settings| settings.docker.network_pool = 2).await else {
        return;
    };
    assert_eq!(node.run(&["out", "warm"]).await, "warm\n");
    eventually("idle sandboxes", async || node.sandboxes().await.len() >= 2).await;
    for sandbox in node.sandboxes().await {
        let options = KillContainerOptions { signal: "KILL".to_owned() };
        // One may have been replaced by now.
        let _ = node.node.docker.kill_container(&sandbox, Some(options)).await;
    }
    let target = SocketAddr::from((gateway(&node.node.docker).await, listener().await)).to_string();
    assert_eq!(node.run(&["reach", &target]).await, format!("reach: {REFUSED}\n"));
    node.node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_removes_sandboxes_without_a_task() {
    let Some(mut node) = NetworkNode::start(|settings| settings.docker.network_pool = 2).await
    else {
        return;
    };
    let id = node.started(&["sleep", "60000"]).await;
    let sandbox = node.sandbox_of(id).await;
    eventually("idle sandboxes", async || node.sandboxes().await.len() >= 2).await;
    node.node.node.shut_down_agent().await;
    assert_eq!(node.sandboxes().await, [sandbox]);
    node.node.node.start_agent().await;
    node.node.node.wait_for_phase(id, "Running").await;
    node.stop(id).await;
    node.leaves_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_network_is_as_it_was() {
    let Some(node) = NetworkNode::start(|_| ()).await else { return };
    let id = node.node.orchestrator().run(node.node.work(&["interfaces"])).await;
    let done = node.node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(done.run_output.expect("its output").stdout, "lo\n");
    assert!(node.sandboxes().await.is_empty());
    node.leaves_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_in_a_sandbox_has_one_right_and_less_than_a_megabyte_of_its_own() {
    const LIMIT_KB: u64 = 1000;
    let Some(node) = NetworkNode::start(|_| ()).await else { return };
    let id = node.started(&["sleep", "60000"]).await;
    let sandbox = node.sandbox_of(id).await;
    let state = node.node.docker.inspect_container(&sandbox, None).await.expect("inspect").state;
    let pid = state.and_then(|state| state.pid).expect("a process");
    let read = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("a process");
    let (status, memory) = (read("status"), read("smaps_rollup"));
    // `NET_ADMIN`, in effect only while it removes what a task left.
    for line in [
        "Uid:\t65534\t65534\t65534\t65534\n",
        "Gid:\t65534\t65534\t65534\t65534\n",
        "Groups:\t \n",
        "CapInh:\t0000000000000000\n",
        "CapPrm:\t0000000000001000\n",
        "CapEff:\t0000000000000000\n",
        "CapBnd:\t0000000000001000\n",
        "CapAmb:\t0000000000000000\n",
        "NoNewPrivs:\t1\n",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let dirty = memory.lines().find_map(|line| line.strip_prefix("Pss_Dirty:")).expect("a line");
    let dirty_kb: u64 = dirty.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(dirty_kb < LIMIT_KB, "{memory}");
    node.stop(id).await;
    node.leaves_nothing().await;
}
