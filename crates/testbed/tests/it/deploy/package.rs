//! The Debian package on a machine with systemd: installed, upgraded under load, removed, purged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use testbed::harness::binary;

use super::machine::Machine;
use super::{has, root, text_of};
use crate::programs::{job, ticking};

/// Everything a package could leave behind, but for what dpkg and the logs note of it.
const FILES: &str = "find / -xdev \\( -path /proc -o -path /sys -o -path /var/lib/dpkg \
    -o -path /var/lib/apt -o -path /var/log -o -path /var/cache -o -path /root \
    -o -path /var/lib/systemd -o -path '/etc/*-' -o -path '/etc/.pwd.lock' \\) -prune \
    -o -print | sort";

/// Jobs that are submitted at most.
const MOST: u32 = 1000;

/// Jobs that are accepted after the upgrade.
const ENOUGH: usize = 3;

/// Builds the package of this version from the tests' programs.
fn package(output: &Path, version: &str) -> PathBuf {
    let built = Command::new(root().join("deploy/deb.sh"))
        .arg("--binaries")
        .arg(binary("orchestrator").parent().expect("a program lies in a directory"))
        .args(["--version", version, "--output"])
        .arg(output)
        // The programs of the tests are large; what is tested is not the compression.
        .env("DEB_COMPRESSION", "none")
        .env("DEBEMAIL", "jobs@example.org")
        .output()
        .expect("it starts");
    assert!(built.status.success(), "{}", text_of(&built));
    PathBuf::from(String::from_utf8_lossy(&built.stdout).trim())
}

fn noop(number: u32) -> serde_json::Value {
    json!({
        "Type": "batch",
        "Name": format!("load-{number}"),
        "Tasks": [{ "Name": "main", "Engine": { "Type": "noop", "Params": {} } }],
    })
}

/// Submits small jobs, some of them after the upgrade; what was accepted.
fn submit_until(machine: &Machine, is_upgraded: &AtomicBool) -> Vec<String> {
    let (mut accepted, mut after) = (Vec::new(), 0);
    for number in 0..MOST {
        if after == ENOUGH {
            break;
        }
        let counts = is_upgraded.load(Ordering::Relaxed);
        // While the orchestrator restarts for longer than jobctl repeats it, nothing answers: such
        // a job was not accepted.
        if let Some(id) = machine.try_submit(&noop(number)) {
            accepted.push(id);
            after += usize::from(counts);
        }
    }
    accepted
}

async fn upgrade_under_load(machine: &Machine, package: &str) {
    let wasm = machine.submit(&job(&ticking(150, 0)));
    machine.until(&wasm, "Running").await;
    let before = ["orchestrator", "compute-agent"].map(|unit| (unit, machine.main_pid(unit)));
    let is_upgraded = AtomicBool::new(false);
    let (accepted, said) = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let load = scope.spawn(|| submit_until(machine, &is_upgraded));
            let said = machine.run(&["apt-get", "install", "--yes", "--quiet", package]);
            tokio::runtime::Handle::current().block_on(async {
                for (unit, former) in &before {
                    machine.restarted(unit, former).await;
                }
            });
            is_upgraded.store(true, Ordering::Relaxed);
            (load.join().expect("the load"), said)
        })
    });
    assert!(accepted.len() > ENOUGH, "there was no load before: {accepted:?} {said}");
    for id in &accepted {
        machine.until(id, "Completed").await;
        let executions = machine.records(&["executions", id]);
        assert_eq!(executions.as_array().map(Vec::len), Some(1), "{executions:#}");
    }
    machine.until(&wasm, "Completed").await;
    let executions = machine.records(&["executions", &wasm]);
    assert_eq!(executions.as_array().map(Vec::len), Some(1), "{executions:#}");
    assert_eq!(executions[0]["RunOutput"]["stdout"], "line\n".repeat(150), "{executions:#}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn the_package_is_installed_upgraded_under_load_removed_and_purged() {
    if !has("dpkg-deb", "dpkg") {
        return;
    }
    let Some(machine) = Machine::boot().await else { return };
    let packages = tempfile::tempdir().expect("a directory");
    for (version, name) in [("0.9.0", "/old.deb"), ("0.9.1", "/new.deb")] {
        machine.copy(&package(packages.path(), version), name);
    }
    let before = machine.shell(FILES);
    let said = machine.run(&["apt-get", "install", "--yes", "--quiet", "/old.deb"]);
    assert!(said.contains("systemctl enable --now orchestrator compute-agent"), "{said}");
    let active = machine.try_run(&["systemctl", "is-active", "orchestrator", "compute-agent"]);
    assert_eq!(text_of(&active).trim(), "inactive\ninactive", "it starts nothing");
    let settings =
        machine.shell("stat -c '%a %G' /etc/*/orchestrator.toml /etc/*/compute-agent.toml");
    assert_eq!(settings, "640 orchestrator\n640 compute-agent");
    for page in ["man8/orchestrator.8.gz", "man8/compute-agent.8.gz", "man1/jobctl-run.1.gz"] {
        let page = machine.shell(&format!("zcat /usr/share/man/{page}"));
        assert!(page.contains(".SH NAME\n") && page.contains(".SH SYNOPSIS\n"), "{page}");
    }
    // dpkg keeps what an administrator changed, and asks nothing while it is alone in that.
    machine.shell(
        "echo COMPUTE_AGENT_ENGINES=noop,wasm > /etc/compute-agent/environment
         # While both daemons restart, no one replaces the node's work.
         sed -i 's/^#node_ttl = .*/node_ttl = 120/' /etc/orchestrator/orchestrator.toml",
    );
    machine.start_daemons();
    machine.jobctl(&["login", "--token-file", "/var/lib/orchestrator/admin.token"]);

    upgrade_under_load(&machine, "/new.deb").await;
    let version =
        machine.run(&["dpkg-query", "--show", "--showformat=${Version}", "job-orchestrator"]);
    assert_eq!(version, "0.9.1");
    machine.run(&["grep", "-qx", "node_ttl = 120", "/etc/orchestrator/orchestrator.toml"]);

    machine.run(&["apt-get", "remove", "--yes", "--quiet", "job-orchestrator"]);
    assert_eq!(machine.processes("orchestrator|compute-agent|wasm-runner"), "");
    machine.shell("test ! -e /usr/bin/orchestrator; test -s /var/lib/orchestrator/orchestrator.db");
    machine.run(&["test", "-e", "/etc/orchestrator/orchestrator.toml"]);
    machine.run(&["apt-get", "purge", "--yes", "--quiet", "job-orchestrator"]);
    assert_eq!(machine.shell(FILES), before);
}

#[test]
#[ignore = "long"]
fn the_package_has_no_errors_that_lintian_finds() {
    if !has("dpkg-deb", "dpkg") || !has("lintian", "lintian") {
        return;
    }
    let packages = tempfile::tempdir().expect("a directory");
    let package = package(packages.path(), "0.9.0");
    let checked = Command::new("lintian")
        .args(["--fail-on", "error", "--allow-root", "--suppress-tags"])
        .arg("uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball")
        .arg(package)
        .output()
        .expect("it starts");
    assert!(checked.status.success(), "{}", text_of(&checked));
}
