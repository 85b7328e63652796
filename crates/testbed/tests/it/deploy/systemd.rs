//! An installation by `deploy/install.sh` on a machine with systemd, from the first start to the end.

use std::os::unix::fs::MetadataExt;

use serde_json::Value;
use task_image::{docker, image};
use testbed::harness::eventually;

use super::machine::{Machine, PROGRAMS, SOCKET};
use super::text_of;
use crate::programs::{job, ticking};

/// A daemon that makes no progress for this long is ended, in place of the unit's minute.
const WATCHDOG: &str = "[Service]\nWatchdogSec=3s\nTimeoutAbortSec=2s\n";

/// What a machine without installation does not have, as far as an uninstallation promises.
const TRACES: &str = "ls -d /usr/local/bin/orchestrator /usr/local/bin/compute-agent \
    /usr/local/bin/wasm-runner /usr/local/bin/jobctl /etc/systemd/system/orchestrator.service \
    /etc/systemd/system/compute-agent.service /etc/sysusers.d/orchestrator.conf \
    /etc/sysusers.d/compute-agent.conf /run/orchestrator \
    /etc/systemd/system/multi-user.target.wants/orchestrator.service \
    /etc/systemd/system/multi-user.target.wants/compute-agent.service 2>/dev/null || true";

/// Lets the agent use the Docker Engine of the host, where it shares a directory with it.
fn share_docker(machine: &Machine) {
    let group = std::fs::metadata("/var/run/docker.sock").expect("the Docker Engine's").gid();
    let volume = machine.volume();
    machine.shell(&format!(
        "groupadd --non-unique --gid {group} docker
         mkdir -p /etc/orchestrator /etc/compute-agent /etc/systemd/system/compute-agent.service.d
         # While both daemons hang, no one replaces the node's work.
         echo ORCHESTRATOR_NODE_TTL=120 > /etc/orchestrator/environment
         printf '%s\\n' COMPUTE_AGENT_DATA_DIR={volume} COMPUTE_AGENT_DOCKER__HOST=unix://{SOCKET} \
            COMPUTE_AGENT_DOCKER__SANDBOX_POOL=0 > /etc/compute-agent/environment
         printf '[Service]\\nReadWritePaths={volume}\\n' \
            > /etc/systemd/system/compute-agent.service.d/data.conf"
    ));
}

/// The one execution of a job.
fn execution(machine: &Machine, job: &str) -> Value {
    let executions = machine.records(&["executions", job]);
    assert_eq!(executions.as_array().map(Vec::len), Some(1), "{executions:#}");
    executions[0].clone()
}

async fn running(machine: &Machine, job: &str) -> Value {
    machine.until(job, "Running").await;
    eventually("the program to run", async || {
        let found = machine.processes("wasm-runner");
        if found.is_empty() { Err("no runner".to_owned()) } else { Ok(()) }
    })
    .await;
    execution(machine, job)
}

/// The node of this machine.
fn node(machine: &Machine) -> String {
    let nodes = machine.records(&["node", "list"]);
    let compute = |node: &&Value| node["NodeType"] == "Compute";
    let nodes: Vec<_> = nodes.as_array().expect("a list").iter().filter(compute).collect();
    let [node] = nodes[..] else { panic!("{nodes:#?}") };
    assert_eq!(node["Connection"], "CONNECTED", "{node:#}");
    node["PeerInfo"]["ID"].as_str().expect("an ID").to_owned()
}

/// Kills and stops each daemon; systemd starts them again.
async fn survives_kills_and_hangs(machine: &Machine) {
    let before = machine.main_pid("compute-agent");
    machine.run(&["systemctl", "restart", "compute-agent"]);
    assert_ne!(machine.main_pid("compute-agent"), before);

    for signal in ["KILL", "STOP"] {
        let units = ["orchestrator", "compute-agent"].map(|unit| (unit, machine.main_pid(unit)));
        for (unit, _) in &units {
            let signal = format!("--signal={signal}");
            machine.run(&["systemctl", "kill", "--kill-whom=main", &signal, unit]);
        }
        for (unit, former) in &units {
            machine.restarted(unit, former).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_joins_by_itself_survives_kills_and_hangs_and_goes_without_a_trace() {
    const LINES: u32 = 250;
    let Some(machine) = Machine::boot().await else { return };
    let engine = docker::connect().await.expect("the machine runs in it");
    let task = image::ensure(&engine).await.expect("the task image");
    share_docker(&machine);
    let said = machine.run(&["/checkout/deploy/install.sh", "--binaries", PROGRAMS]);
    let login = "jobctl login --token-file /var/lib/orchestrator/admin.token";
    assert!(said.contains("systemctl enable --now orchestrator compute-agent"), "{said}");
    assert!(said.contains(login), "{said}");
    machine.shell(&format!("chown compute-agent {}", machine.volume()));
    for unit in ["orchestrator", "compute-agent"] {
        let folder = format!("/run/systemd/system/{unit}.service.d");
        machine.shell(&format!("mkdir -p {folder}; printf '{WATCHDOG}' > {folder}/test.conf"));
    }
    machine.run(&["systemctl", "daemon-reload"]);
    machine.start_daemons();

    // The node is there, by the token that was left for it, and no one is let in without one.
    let refused = machine.try_run(&["jobctl", "--url=https://127.0.0.1:1234", "node", "list"]);
    assert!(!refused.status.success(), "{}", text_of(&refused));
    let refused = machine.try_run(&["su", "nobody", "-s", "/bin/sh", "-c", login]);
    assert!(text_of(&refused).contains("Permission denied"), "{}", text_of(&refused));
    machine.run(&["sh", "-c", login]);
    let node = node(&machine);
    let state = machine.shell("stat -c '%a %U %G' /run/orchestrator /run/orchestrator/join");
    assert_eq!(state, "750 orchestrator orchestrator\n640 orchestrator orchestrator");
    let settings =
        machine.shell("stat -c '%a %G' /etc/*/orchestrator.toml /etc/*/compute-agent.toml");
    assert_eq!(settings, "640 orchestrator\n640 compute-agent");

    let printed = machine.jobctl(&["run", &task, "--", "echo", "from docker"]);
    assert_eq!(printed, "from docker");
    let endless = machine.submit(&job(&ticking(100_000, 0)));
    running(&machine, &endless).await;
    let runner = machine.processes("wasm-runner");
    let wasm = machine.submit(&job(&ticking(LINES, 0)));
    let before = running(&machine, &wasm).await;
    survives_kills_and_hangs(&machine).await;
    // The other program may have ended already.
    let runners = machine.processes("wasm-runner");
    assert!(runners.lines().any(|other| other == runner), "{runner} ended; left: {runners}");
    machine.until(&wasm, "Completed").await;
    let after = execution(&machine, &wasm);
    assert_eq!(after["ID"], before["ID"], "it is the same run");
    assert_eq!(after["Revision"], 6, "{after:#}");
    assert_eq!(after["RunOutput"]["stdout"], "line\n".repeat(LINES as usize));

    let said = machine.run(&["/checkout/deploy/install.sh", "--uninstall"]);
    assert!(said.contains("left: /etc/orchestrator (settings)"), "{said}");
    assert_eq!(machine.shell(TRACES), "");
    eventually("no process to be left", async || {
        match machine.processes("orchestrator|compute-agent|wasm-runner").as_str() {
            "" => Ok(()),
            left => Err(left.to_owned()),
        }
    })
    .await;
    machine.run(&["test", "-e", "/var/lib/orchestrator/orchestrator.db"]);
    let tasks = docker::containers_of_node(&engine, &node).await.expect("docker responds");
    assert_eq!(tasks, [], "the containers of finished tasks are gone");
}
