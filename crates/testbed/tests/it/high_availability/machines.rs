//! Machines of one network: namespaces in which the commands of a page run as on real ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;
use testbed::harness::binary;

/// Names and addresses.
const MACHINES: [(&str, &str); 4] =
    [("db", "10.0.0.10"), ("a", "10.0.0.11"), ("b", "10.0.0.12"), ("node", "10.0.0.21")];

/// Time limit of one block in seconds, on a busy machine.
const TIMEOUT: &str = "120";

/// Where Debian puts PostgreSQL's programs.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Runs a program as another user, or as it is: the tests are root.
const SUDO: &str = r#"#!/bin/bash
if [ "$1" = -u ]; then
    user=$2
    shift 2
    exec setpriv --reuid "$user" --regid "$user" --init-groups env PGHOST="$DIRECTORY/socket" "$@"
fi
exec "$@"
"#;

/// Starts and stops what the units would.
const SYSTEMCTL: &str = r#"#!/bin/bash
set -eu
for unit; do :; done
pid=$DIRECTORY/$MACHINE/$unit.pid
stop() {
    case $unit in
    postgresql) sudo -u postgres "$POSTGRES/pg_ctl" -D "$DIRECTORY/data" -m fast stop || true ;;
    *)
        [ -e "$pid" ] || return 0
        kill "$(cat "$pid")" || true
        while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep 0.05; done
        ;;
    esac
}
start() {
    case $unit in
    postgresql)
        sudo -u postgres "$POSTGRES/pg_ctl" -D "$DIRECTORY/data" -l "$DIRECTORY/socket/log" -w \
            -o "-c hba_file=/etc/postgresql/15/main/pg_hba.conf -c fsync=off \
                -c unix_socket_directories=$DIRECTORY/socket" start
        ;;
    *)
        setsid "$unit" --config "/etc/$unit/$unit.toml" >>"$DIRECTORY/$MACHINE/$unit.log" 2>&1 </dev/null &
        echo $! >"$pid"
        ;;
    esac
}
case " $* " in
*" stop "*) stop ;;
*" restart "*) stop; start ;;
*) start ;;
esac
"#;

/// Keeps the namespaces; the first process in them also collects those that have ended.
const KEEP: &str = r#"
ip link set lo up
for address in 10.0.0.10 10.0.0.11 10.0.0.12 10.0.0.21; do ip address add $address/32 dev lo; done
echo ready
while sleep 3600; do :; done
"#;

pub(super) struct Machines {
    directory: TempDir,
    postgres: PathBuf,
    /// The process whose namespaces the machines share.
    keeper: Child,
    /// Its child is the first process in them.
    first: u32,
}

pub(super) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate is two folders below the root")
}

/// The programs of the newest release.
fn postgres() -> Option<PathBuf> {
    let releases = fs::read_dir(POSTGRES).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let release: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((release, entry.path().join("bin")))
    });
    let found = releases.filter(|(_, bin)| bin.join("initdb").exists());
    found.max_by_key(|(release, _)| *release).map(|(_, bin)| bin)
}

fn checked(what: &str, output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

// === impl Machines ===

impl Machines {
    /// None, after it has said why, where they cannot be.
    pub(super) fn start() -> Option<Self> {
        let skip = |reason: &str| {
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        };
        if !rustix::process::geteuid().is_root() {
            skip("namespaces of machines need root");
            return None;
        }
        let Some(postgres) = postgres() else {
            skip("PostgreSQL is not installed");
            return None;
        };
        let directory =
            tempfile::Builder::new().prefix("machines-").tempdir().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let mut keeper = Command::new("unshare")
            .args(["--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"])
            .args(["bash", "-euc", KEEP])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut ready = [0; 6];
        let stdout = keeper.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(stdout, &mut ready).expect("the namespaces are made");
        let children = format!("/proc/{0}/task/{0}/children", keeper.id());
        let first = fs::read_to_string(children).expect("it runs");
        let first = first.trim().parse().expect("one child");
        let machines = Self { directory, postgres, keeper, first };
        machines.furnish();
        Some(machines)
    }

    fn path(&self, rest: &str) -> PathBuf {
        self.directory.path().join(rest)
    }

    fn furnish(&self) {
        fs::create_dir(self.path("bin")).expect("a new directory");
        for (name, text) in [("sudo", SUDO), ("systemctl", SYSTEMCTL)] {
            let path = self.path("bin").join(name);
            fs::write(&path, text).expect("a new file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        for name in ["orchestrator", "compute-agent", "jobctl"] {
            std::os::unix::fs::symlink(binary(name), self.path("bin").join(name)).expect("a link");
        }
        let names: String = MACHINES.map(|(name, at)| format!("{at} {name}.internal\n")).concat();
        for (name, _) in MACHINES {
            let script = format!(
                "mkdir -p $0/{{lib/orchestrator,lib/compute-agent,backups}}
                cp -a /etc $0/etc
                printf '{names}10.0.0.11 jobs.internal\n' >> $0/etc/hosts
                echo 'orchestrator:x:64123:64123::/:/bin/false' >> $0/etc/passwd
                echo 'orchestrator:x:64123:' >> $0/etc/group
                mkdir -p $0/etc/postgresql/15/main $0/etc/orchestrator $0/etc/compute-agent
                printf 'local all all peer\nlocal replication all peer\n' \
                    > $0/etc/postgresql/15/main/pg_hba.conf
                chmod -R a+rX $0/etc/postgresql; chown postgres $0/backups"
            );
            fs::create_dir(self.path(name)).expect("a new directory");
            let made = Command::new("bash").args(["-euc", &script]).arg(self.path(name)).output();
            checked("a machine", &made.expect("bash"));
        }
        let script = "install -d -o postgres $DIRECTORY/socket $DIRECTORY/data
            sudo -u postgres $POSTGRES/initdb --no-sync -E UTF8 -A peer -D $DIRECTORY/data
            sudo systemctl start postgresql";
        self.run("db", script);
    }

    /// Writes a file of a machine.
    pub(super) fn write(&self, machine: &str, path: &str, text: &str) {
        let path = self.path(machine).join(path.trim_start_matches('/'));
        fs::write(path, text).expect("its directory is there");
    }

    /// Runs a script on a machine; all begin in one directory.
    pub(super) fn run(&self, machine: &str, script: &str) -> String {
        let enter = format!(
            "mount --make-rprivate /
            mount --bind $DIRECTORY/{machine}/etc /etc
            mount --bind $DIRECTORY/{machine}/lib /var/lib
            mkdir -p /var/backups && mount --bind $DIRECTORY/{machine}/backups /var/backups
            cd $DIRECTORY && exec bash -euo pipefail -c \"$SCRIPT\""
        );
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.path("bin");
        let output = Command::new("timeout")
            .args([TIMEOUT, "nsenter", "--net", "--pid", "--mount", "--target"])
            .arg(self.first.to_string())
            .args(["unshare", "--mount", "bash", "-euc", &enter])
            .env_clear()
            .env("PATH", format!("{}:{}:{path}", bin.display(), self.postgres.display()))
            .env("HOME", self.path(""))
            .env("DIRECTORY", self.directory.path())
            .env("MACHINE", machine)
            .env("POSTGRES", &self.postgres)
            .env("SCRIPT", script)
            .env("COMPUTE_AGENT_NAME", "node-1")
            .env("COMPUTE_AGENT_ENGINES", "noop")
            .env("COMPUTE_AGENT_LISTEN", "10.0.0.21:1234")
            .env("COMPUTE_AGENT_JOIN_TOKEN_FILE", self.path("token"))
            .output()
            .expect("it starts");
        let log = |name: &str| {
            let text = fs::read_to_string(self.path(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        };
        let logs = ["a/orchestrator.log", "b/orchestrator.log", "node/compute-agent.log"].map(log);
        checked(&format!("on {machine}:\n{script}\n{}", logs.join("\n---\n")), &output)
    }

    /// Ends the orchestrator of a machine, as by the loss of its power.
    pub(super) fn kill(&self, machine: &str) {
        self.run(machine, "kill -9 $(cat $DIRECTORY/$MACHINE/orchestrator.pid)");
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        // The first process of the namespaces ends with its parent, and takes all others along.
        drop(self.keeper.kill());
        drop(self.keeper.wait());
    }
}
