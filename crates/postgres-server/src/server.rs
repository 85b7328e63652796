//! One server, which a shell runs.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The owner of the server's files: it does not run as root.
const USER: &str = "postgres";

/// A loaded machine may need some seconds for a new cluster, or to recover one.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is asked for its state answers within milliseconds.
const PAUSE: Duration = Duration::from_millis(20);

/// Arguments: the programs, the directory, whether writes are synced, and the server to copy.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
start() {
    "$1/pg_ctl" -D "$2/data" -l "$2/log" -w -o "-c listen_addresses= -c fsync=$3 \
        -c unix_socket_directories=$2 -c max_connections=300 -c shared_buffers=32MB" start
}
make() {
    case $4 in
    "") "$1/initdb" --no-sync -E UTF8 -D "$2/data" -U jobs -A trust ;;
    *) "$1/pg_basebackup" --no-sync -c fast -X stream -R -D "$2/data" -d "$4" ;;
    esac
}
{
    make "$@" && start "$@" || exit 1
    while read -r command; do
        case $command in
        start) start "$@" ;;
        stop) "$1/pg_ctl" -D "$2/data" -m fast stop ;;
        kill) "$1/pg_ctl" -D "$2/data" -m immediate stop ;;
        restart) "$1/pg_ctl" -D "$2/data" -m fast stop; start "$@" ;;
        promote)
            if [ ! -e "$2/data/standby.signal" ]; then
                "$1/pg_ctl" -D "$2/data" -m fast stop
                touch "$2/data/standby.signal"
                start "$@"
            fi
            "$1/pg_ctl" -D "$2/data" -w promote
            ;;
        esac
        touch "$2/done"
    done
    "$1/pg_ctl" -D "$2/data" -m immediate stop
    rm -rf "$2"
} >"$2.log" 2>&1
rm -f "$2.log"
"#;

/// A server and its files, which end with it.
pub(crate) struct Server {
    directory: PathBuf,
    /// The end of its input is the server's.
    shell: Mutex<Child>,
}

/// How a server is made.
#[derive(Default)]
pub(crate) struct Making<'a> {
    /// Whether what it has acknowledged survives its machine: most tests gain only time without it.
    pub(crate) is_durable: bool,
    /// The connection of a server whose standby it becomes.
    pub(crate) primary: Option<&'a str>,
}

// === impl Server ===

impl Server {
    pub(crate) fn start(programs: &Path, making: &Making<'_>) -> Self {
        let directory = tempfile::Builder::new().prefix("jobs-pg-").tempdir().unwrap().keep();
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
                let chown = Command::new("chown").arg(USER).arg(&directory).status().unwrap();
                assert!(chown.success());
                let mut command = Command::new("setpriv");
                command.args(["--reuid", USER, "--regid", USER, "--init-groups", "sh"]);
                command
            }
            false => Command::new("sh"),
        };
        let shell = command
            .args(["-c", SCRIPT, "sh"])
            .arg(programs)
            .arg(&directory)
            .arg(if making.is_durable { "on" } else { "off" })
            .arg(making.primary.unwrap_or_default())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { directory, shell: Mutex::new(shell) };
        let began = Instant::now();
        while let Err(error) = postgres::Client::connect(&server.url("postgres"), postgres::NoTls) {
            assert!(began.elapsed() < TIMEOUT, "{error}: {}", server.log());
            let has_ended = server.shell.lock().unwrap().try_wait().unwrap().is_some();
            assert!(!has_ended, "{}", server.log());
            std::thread::sleep(PAUSE);
        }
        server
    }

    /// Where it listens.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("host={} user=jobs dbname={database}", self.directory.display())
    }

    /// Waits until the shell has done it.
    pub(crate) fn command(&self, command: &str) {
        let done = self.directory.join("done");
        writeln!(self.shell.lock().unwrap().stdin.as_mut().unwrap(), "{command}").unwrap();
        self.wait_until(|| done.exists());
        std::fs::remove_file(done).unwrap();
    }

    /// Sets a parameter, and waits until new sessions have it.
    pub(crate) fn set(&self, parameter: &str, value: &str) {
        let set = format!("ALTER SYSTEM SET {parameter} = '{value}'");
        let mut client = self.client();
        client.execute(&set, &[]).unwrap();
        client.execute("SELECT pg_reload_conf()", &[]).unwrap();
        self.wait_until(|| {
            let shown = self.client().query_one(&format!("SHOW {parameter}"), &[]).unwrap();
            shown.get::<_, &str>(0) == value
        });
    }

    /// Waits until a query finds this number of rows.
    pub(crate) fn wait_for_rows(&self, query: &str, expected: usize) {
        let mut client = self.client();
        self.wait_until(|| client.query(query, &[]).unwrap().len() == expected);
    }

    fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.url("postgres"), postgres::NoTls).unwrap()
    }

    fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < TIMEOUT, "{}", self.log());
            std::thread::sleep(PAUSE);
        }
    }

    fn log(&self) -> String {
        let logs = [self.directory.with_extension("log"), self.directory.join("log")];
        logs.map(|log| std::fs::read_to_string(log).unwrap_or_default()).join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
