//! `deploy/install.sh`, with a directory in place of the root file system.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use orchestrator::settings::Exposure;
use tempfile::TempDir;

use super::{root, text_of};

const PROGRAMS: [&str; 4] = ["orchestrator", "compute-agent", "wasm-runner", "jobctl"];

/// A root directory, and built programs.
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
        assert!(output.status.success(), "{}", text_of(&output));
        text_of(&output)
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join("root").join(path)
    }

    /// All installed files.
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
fn everything_is_installed_and_uninstalled() {
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
        "usr/local/bin/wasm-runner",
    ];
    assert_eq!(machine.files(), everything);
    for file in everything {
        let expected = match file {
            program if program.starts_with("usr") => 0o755,
            // They may hold passwords.
            settings if settings.ends_with(".toml") => 0o640,
            _ => 0o644,
        };
        assert_eq!(mode(&machine.path(file)), expected, "{file}");
    }
    let users = fs::read_to_string(machine.path("etc/sysusers.d/compute-agent.conf")).unwrap();
    assert!(
        users.contains("\nm compute-agent docker\n"),
        "the agent may use the Docker Engine: {users}"
    );

    let output = machine.installed(&["--uninstall"]);
    assert!(output.contains("left: /etc/orchestrator (settings)"), "{output}");
    assert_eq!(machine.files(), everything[..2]);
}

#[test]
fn a_fresh_installation_asks_for_credentials_and_joins_its_own_orchestrator() {
    let machine = Machine::new();
    // In whatever order they are named.
    machine.installed(&["compute-agent", "orchestrator"]);
    let left = Path::new("/run/orchestrator/join");
    let file = machine.path("etc/orchestrator/orchestrator.toml");
    let orchestrator = orchestrator::Settings::load(Some(&file)).expect("they are good");
    assert_eq!(orchestrator.exposure(), Exposure::Protected);
    assert_eq!(orchestrator.join_token_file, left);
    let file = machine.path("etc/compute-agent/compute-agent.toml");
    let agent = compute_agent::Settings::load(Some(&file)).expect("they are good");
    assert_eq!(agent.orchestrator, format!("https://{}", orchestrator.listen));
    assert_ne!(agent.listen, orchestrator.listen);
    assert_eq!(agent.join_token_file, left);
    // Nothing else differs from the sample.
    for (program, changed) in [("orchestrator", 2), ("compute-agent", 3)] {
        let sample = fs::read_to_string(root().join(format!("deploy/{program}.toml"))).unwrap();
        let file = machine.path(&format!("etc/{program}/{program}.toml"));
        let installed = fs::read_to_string(file).unwrap();
        let differences = sample.lines().zip(installed.lines()).filter(|(old, new)| old != new);
        assert_eq!(differences.count(), changed, "{program}");
        assert_eq!(sample.lines().count(), installed.lines().count(), "{program}");
    }

    let machine = Machine::new();
    machine.installed(&["compute-agent"]);
    let file = machine.path("etc/compute-agent/compute-agent.toml");
    let agent = compute_agent::Settings::load(Some(&file)).expect("they are good");
    let defaults = compute_agent::Settings::default();
    assert_eq!(agent.join_token_file, defaults.join_token_file, "no token has been left yet");
}

#[test]
fn an_upgrade_replaces_programs_keeps_settings_and_says_what_is_new() {
    let machine = Machine::new();
    machine.installed(&[]);
    let settings = machine.path("etc/orchestrator/orchestrator.toml");
    let old = "node_ttl = 5\n#listen = \"127.0.0.1:1234\"\n";
    fs::write(&settings, old).unwrap();
    machine.build("two");
    let output = machine.installed(&[]);
    for line in [
        "kept: /etc/orchestrator/orchestrator.toml\n",
        "  a fresh installation sets auth = \"required\"\n",
        "  it does not mention data_dir store advertise status_listen auth approve_new_nodes ",
        "kept: /etc/compute-agent/compute-agent.toml\n",
    ] {
        assert!(output.contains(line), "{output}");
    }
    assert_eq!(fs::read_to_string(&settings).unwrap(), old);
    let program = fs::read_to_string(machine.path("usr/local/bin/orchestrator")).unwrap();
    assert!(program.contains("orchestrator two"), "{program}");
}

#[test]
fn the_agent_can_be_installed_alone_and_with_another_prefix() {
    let machine = Machine::new();
    machine.installed(&["--prefix", "/opt/jobs", "compute-agent"]);
    let expected = [
        "etc/compute-agent/compute-agent.toml",
        "etc/systemd/system/compute-agent.service",
        "etc/sysusers.d/compute-agent.conf",
        "opt/jobs/bin/compute-agent",
        "opt/jobs/bin/wasm-runner",
    ];
    assert_eq!(machine.files(), expected);
    let unit = fs::read_to_string(machine.path(expected[1])).unwrap();
    assert!(unit.contains("\nExecStart=/opt/jobs/bin/compute-agent --config "), "{unit}");
    let machine = Machine::new();
    machine.installed(&["--no-services", "jobctl"]);
    assert_eq!(machine.files(), ["usr/local/bin/jobctl"]);
}

#[test]
fn mistakes_are_reported_before_anything_changes() {
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
        assert!(text_of(&output).contains(word), "{}", text_of(&output));
        assert_eq!(machine.files(), [""; 0]);
    }
}
