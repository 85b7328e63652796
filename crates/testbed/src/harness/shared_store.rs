//! One database in PostgreSQL that the orchestrators of a cluster share, and the way of each to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postgres_server::TestDatabase;
use tokio_postgres::NoTls;

use super::relay::{Relay, Upstream};

/// Servers that a store may have during a test: the first one, and those that are promoted.
const MAX_SERVERS: usize = 3;

/// Orchestrators that a cluster may have.
const MAX_ORCHESTRATORS: usize = 3;

/// The socket of a server in its directory.
const SOCKET: &str = ".s.PGSQL.5432";

/// A store in PostgreSQL; the first server that is listed was the first primary.
pub struct SharedStore {
    servers: Vec<TestDatabase>,
    links: Vec<StoreLink>,
    direct: Direct,
}

/// A test's own way to the database of a store, past the relays.
#[derive(Debug, Clone)]
pub struct Direct {
    name: String,
    /// The directories of the servers' sockets.
    directories: Arc<Mutex<Vec<String>>>,
}

/// What one orchestrator has between itself and the servers: a relay to each.
#[derive(Debug)]
pub struct StoreLink {
    relays: Vec<Relay>,
}

/// What the row of the lead says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    pub term: Vec<u8>,
    pub last_commit: i64,
    /// None if no process leads.
    pub address: Option<SocketAddr>,
}

// === impl SharedStore ===

impl SharedStore {
    /// A database on the server that the tests of this binary share. None, after it has said why,
    /// where PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        TestDatabase::new().map(Self::of)
    }

    /// On a server of its own, which the test may stop.
    pub fn alone() -> Option<Self> {
        TestDatabase::alone().map(Self::of)
    }

    /// On this server.
    pub fn of(server: TestDatabase) -> Self {
        let links = (0..MAX_ORCHESTRATORS).map(|_| StoreLink::open()).collect();
        let direct = Direct { name: server.name().to_owned(), directories: Arc::default() };
        let mut store = Self { servers: Vec::new(), links, direct };
        store.add(server);
        store
    }

    /// Another server with the same database, such as a standby.
    pub fn add(&mut self, server: TestDatabase) {
        let slot = self.servers.len();
        assert!(slot < MAX_SERVERS, "a store has at most {MAX_SERVERS} servers");
        for link in &self.links {
            link.relays[slot].lead_to(Upstream::Unix(server.socket_directory().join(SOCKET)));
        }
        self.direct.lock().push(server.socket_directory().display().to_string());
        self.servers.push(server);
    }

    /// A server, in the order in which they were added.
    pub fn server(&self, number: usize) -> &TestDatabase {
        &self.servers[number]
    }

    pub fn link(&self, orchestrator: usize) -> &StoreLink {
        &self.links[orchestrator]
    }

    /// The settings with which an orchestrator uses it.
    pub fn settings(&self, orchestrator: usize) -> BTreeMap<String, String> {
        let relays = &self.links[orchestrator].relays;
        let hosts: Vec<_> = relays.iter().map(|relay| relay.address().to_string()).collect();
        let url = format!("postgres://jobs@{}/{}", hosts.join(","), self.direct.name);
        BTreeMap::from([
            ("ORCHESTRATOR_STORE".to_owned(), "postgres".to_owned()),
            ("ORCHESTRATOR_POSTGRES__URL".to_owned(), url),
        ])
    }

    /// The test's own way to the database, past the relays.
    pub fn direct(&self) -> &Direct {
        &self.direct
    }
}

// === impl Direct ===

impl Direct {
    /// A session on the server that accepts writes.
    pub async fn session(&self) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let hosts = self.lock().join(",");
        let url = format!(
            "host={hosts} user=jobs dbname={} target_session_attrs=read-write \
             options='-c search_path=jobs'",
            self.name
        );
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Who leads, by the row of the database.
    pub async fn lead(&self) -> Result<Lead, String> {
        let read = async {
            let row = "SELECT term, last_commit, address FROM progress";
            self.session().await?.query_one(row, &[]).await
        };
        let row = read.await.map_err(|error| error.to_string())?;
        let address = row.get::<_, Option<Vec<u8>>>(2);
        let address = address.map(|address| String::from_utf8_lossy(&address).parse());
        let address = address.transpose().map_err(|error| format!("not an address: {error}"))?;
        Ok(Lead { term: row.get(0), last_commit: row.get(1), address })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl StoreLink ===

impl StoreLink {
    fn open() -> Self {
        Self { relays: (0..MAX_SERVERS).map(|_| Relay::open(Upstream::Closed)).collect() }
    }

    /// Nothing passes from now on.
    pub fn cut(&self) {
        self.relays.iter().for_each(Relay::cut);
    }

    pub fn heal(&self) {
        self.relays.iter().for_each(Relay::heal);
    }

    /// Ends every connection.
    pub fn reset(&self) {
        self.relays.iter().for_each(Relay::reset);
    }

    /// Every piece takes this long in each direction.
    pub fn delay(&self, delay: Duration) {
        self.relays.iter().for_each(|relay| relay.delay(delay));
    }
}
