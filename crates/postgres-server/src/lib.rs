//! A PostgreSQL server for the tests of this binary, and a database for each of them.
//!
//! A shell runs it. When the binary ends, however it does, the shell reads the end of its
//! input, and takes the server and its files with it.
//!
//! A call blocks its thread; within a runtime, a test makes it with [`blocking`].

#![expect(clippy::unwrap_used, reason = "a test without its server fails, and says where")]

mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use self::server::{Making, Server};

/// Where Debian puts the programs, under the number of their release.
const PROGRAMS: &str = "/usr/lib/postgresql";

/// The oldest release that the store uses.
const OLDEST: u32 = 14;

/// A database, empty at first.
pub struct TestDatabase {
    pub url: String,
    name: String,
    /// None for the server that all tests share.
    alone: Option<Server>,
}

// === impl TestDatabase ===

impl TestDatabase {
    /// None, after it has said why, where PostgreSQL is not installed.
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = server()?;
        let name = format!("jobs{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let url = server.url("postgres");
        blocking(|| {
            let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
            client.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        });
        Some(Self { url: server.url(&name), name, alone: None })
    }

    /// On a server of its own, for tests that change it.
    pub fn alone() -> Option<Self> {
        Self::made(&Making::default())
    }

    /// The same, with every commit on disk.
    pub fn durable() -> Option<Self> {
        Self::made(&Making { is_durable: true, ..Making::default() })
    }

    fn made(making: &Making<'_>) -> Option<Self> {
        let programs = programs()?;
        let server = blocking(|| Server::start(&programs, making));
        Some(Self::of(server))
    }

    fn of(server: Server) -> Self {
        let name = "postgres".to_owned();
        Self { url: server.url(&name), name, alone: Some(server) }
    }

    /// A standby of this server under this name, which receives what is written from now on. It is
    /// asynchronous until [`TestDatabase::set`] names it in `synchronous_standby_names`.
    pub fn standby(&self, name: &str) -> Self {
        let primary = format!("{} application_name={name}", self.server().url(&self.name));
        let programs = programs().expect("its primary has them");
        blocking(|| {
            let server =
                Server::start(&programs, &Making { primary: Some(&primary), ..Making::default() });
            let receives = format!(
                "SELECT FROM pg_stat_replication
                 WHERE application_name = '{name}' AND state = 'streaming'"
            );
            self.server().wait_for_rows(&receives, 1);
            Self::of(server)
        })
    }

    /// A standby falls behind from now on.
    pub fn stop_receiving(&self) {
        blocking(|| {
            self.server().set("primary_conninfo", "");
            self.server().wait_for_rows("SELECT FROM pg_stat_wal_receiver", 0);
        });
    }

    /// Sets a parameter of the server, for its sessions too.
    pub fn set(&self, parameter: &str, value: &str) {
        blocking(|| self.server().set(parameter, value));
    }

    /// Waits until the server has done it: `restart`, or `promote` it as one does a standby.
    pub fn command(&self, command: &str) {
        blocking(|| self.server().command(command));
    }

    /// Stops the server as its machine does that is shut down.
    pub fn stop(&self) {
        self.command("stop");
    }

    /// Stops the server as its machine does that loses its power.
    pub fn kill(&self) {
        self.command("kill");
    }

    /// Starts the server again.
    pub fn start(&self) {
        self.command("start");
    }

    /// Where the server listens.
    pub fn socket_directory(&self) -> &Path {
        let server = self.alone.as_ref().or_else(|| server());
        server.expect("a database has a server").directory()
    }

    /// The name of the database on its server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one of PostgreSQL's programs on the database.
    pub fn program(&self, name: &str, arguments: &[&str]) {
        let mut command = Command::new(programs().unwrap().join(name));
        let output = command.args(arguments).args(["-d", &self.url]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn server(&self) -> &Server {
        self.alone.as_ref().expect("the server that all tests share stays as it is")
    }

    /// A session with the server's own settings, which may write.
    pub fn admin(&self) -> postgres::Client {
        let mut client = postgres::Client::connect(&self.url, postgres::NoTls).unwrap();
        client.batch_execute("SET search_path = jobs").unwrap();
        client
    }
}

/// Runs what blocks on a thread of its own: the client of a server may not be used in a runtime.
pub fn blocking<T: Send>(action: impl FnOnce() -> T + Send) -> T {
    let outcome = std::thread::scope(|scope| scope.spawn(action).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let start = |programs: PathBuf| blocking(|| Server::start(&programs, &Making::default()));
    SERVER.get_or_init(|| programs().map(start)).as_ref()
}

/// The programs of the newest release. Without any, the tests are skipped, or fail where none may be.
fn programs() -> Option<PathBuf> {
    let found = std::fs::read_dir(PROGRAMS).ok().and_then(|releases| {
        let releases = releases.filter_map(|entry| {
            let entry = entry.ok()?;
            let release: u32 = entry.file_name().to_str()?.parse().ok()?;
            (release >= OLDEST).then(|| (release, entry.path().join("bin")))
        });
        let found = releases.filter(|(_, bin)| bin.join("initdb").exists());
        found.max_by_key(|(release, _)| *release).map(|(_, bin)| bin)
    });
    if found.is_none() {
        let reason = format!("PostgreSQL {OLDEST} or later is not installed in {PROGRAMS}");
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
    }
    found
}
