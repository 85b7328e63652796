//! `deploy/install.sh`, into a directory that stands for the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::{root, said};

const PROGRAMS: [&str; 3] = ["orchestrator", "compute-agent", "jobctl"];

/// A machine, and programs that were built.
struct Machine {
    directory: TempDir,
}

// === impl Machine ===

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let machine = Self { directory };
        machine.build("one");
        machine
    }

    fn build(&self, release: &str) {
        let built = self.directory.path().join("built");
        fs::create_dir_all(&built).expect("the directory is ours");
        for name in PROGRAMS {
            fs::write(built.join(name), format!("#!/bin/sh\necho {name} {release}\n"))
                .expect("the directory is ours");
            fs::set_permissions(built.join(name), fs::Permissions::from_mode(0o755))
                .expect("the directory is ours");
        }
    }

    fn install(&self, arguments: &[&str]) -> Output {
        Command::new(root().join("deploy/install.sh"))
            .arg("--binaries")
            .arg(self.directory.path().join("built"))
            .args(arguments)
            .env("DESTDIR", self.directory.path().join("root"))
            .output()
            .expect("it starts")
    }

    fn installed(&self, arguments: &[&str]) -> String {
        let output = self.install(arguments);
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join("root").join(path)
    }

    /// Every file, from the root.
    fn files(&self) -> Vec<String> {
        let root = self.path("");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let path = entry.expect("it can be listed").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(
                        path.strip_prefix(&root).expect("it was found below").display().to_string(),
                    );
                }
            }
        }
        found.sort();
        found
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the directory is ours").permissions().mode() & 0o7777
}

#[test]
fn everything_is_put_where_it_belongs_and_taken_away_again() {
    let machine = Machine::new();
    machine.installed(&[]);
    let everything = [
        "etc/compute-agent/compute-agent.toml",
        "etc/orchestrator/orchestrator.toml",
        "etc/systemd/system/compute-agent.service",
        "etc/systemd/system/orchestrator.service",
        "etc/sysusers.d/compute-agent.conf",
        "etc/sysusers.d/orchestrator.conf",
        "usr/local/bin/compute-agent",
        "usr/local/bin/jobctl",
        "usr/local/bin/orchestrator",
    ];
    assert_eq!(machine.files(), everything);
    for file in everything {
        let expected = if file.starts_with("usr") { 0o755 } else { 0o644 };
        assert_eq!(mode(&machine.path(file)), expected, "{file}");
    }
    let users = fs::read_to_string(machine.path("etc/sysusers.d/compute-agent.conf")).unwrap();
    assert!(users.contains("\nm compute-agent docker\n"), "it may use the Docker Engine: {users}");

    let told = machine.installed(&["--uninstall"]);
    assert!(told.contains("left: /etc/orchestrator (settings)"), "{told}");
    assert_eq!(machine.files(), everything[..2]);
}

#[test]
fn an_upgrade_replaces_programs_and_leaves_settings_alone() {
    let machine = Machine::new();
    machine.installed(&[]);
    let settings = machine.path("etc/orchestrator/orchestrator.toml");
    fs::write(&settings, "node_ttl = 5\n").unwrap();
    machine.build("two");
    let told = machine.installed(&[]);
    assert!(told.contains("left alone: /etc/orchestrator/orchestrator.toml"), "{told}");
    assert_eq!(fs::read_to_string(&settings).unwrap(), "node_ttl = 5\n");
    let program = fs::read_to_string(machine.path("usr/local/bin/orchestrator")).unwrap();
    assert!(program.contains("orchestrator two"), "{program}");
}

#[test]
fn a_node_gets_the_agent_alone_and_elsewhere_if_wanted() {
    let machine = Machine::new();
    machine.installed(&["--prefix", "/opt/jobs", "compute-agent"]);
    let expected = [
        "etc/compute-agent/compute-agent.toml",
        "etc/systemd/system/compute-agent.service",
        "etc/sysusers.d/compute-agent.conf",
        "opt/jobs/bin/compute-agent",
    ];
    assert_eq!(machine.files(), expected);
    let unit = fs::read_to_string(machine.path(expected[1])).unwrap();
    assert!(unit.contains("\nExecStart=/opt/jobs/bin/compute-agent --config "), "{unit}");
    let machine = Machine::new();
    machine.installed(&["--no-services", "jobctl"]);
    assert_eq!(machine.files(), ["usr/local/bin/jobctl"]);
}

#[test]
fn what_is_missing_is_told_before_anything_changes() {
    let machine = Machine::new();
    fs::remove_file(machine.directory.path().join("built/jobctl")).unwrap();
    for (arguments, word) in [
        (&[][..], "cargo build --release --workspace"),
        (&["--prefix", "here"], "--prefix needs an absolute path"),
        (&["--perfix"], "unknown argument '--perfix'"),
        (&["orchestrater"], "unknown argument 'orchestrater'"),
    ] {
        let output = machine.install(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(said(&output).contains(word), "{}", said(&output));
        assert_eq!(machine.files(), [""; 0]);
    }
}
