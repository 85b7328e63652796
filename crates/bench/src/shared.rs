//! PostgreSQL compared to SQLite on the same machine, in the same run: every commit is on disk.

pub(super) mod commits;
pub(super) mod follower;
pub(super) mod reads;
pub(super) mod service;
pub(super) mod takeovers;

use std::path::Path;

use anyhow::Context;
use control_plane::store::postgres::{self, Database, PostgresCandidate};
use control_plane::store::{Candidate, Exposure, Leader, Won};
use postgres_server::TestDatabase;
use testbed::harness::ClusterSpec;

/// Number of rounds, of which the median counts; in each, the stores take turns.
const ROUNDS: usize = 5;

/// A database on a server of its own.
struct Shared {
    server: TestDatabase,
    database: Database,
}

// === impl Shared ===

impl Shared {
    async fn start() -> anyhow::Result<Self> {
        // It has a client that blocks.
        tokio::task::spawn_blocking(|| {
            let server = TestDatabase::durable().context("PostgreSQL is not installed")?;
            let database = Database::new(&server.url, None)?;
            Ok(Self { server, database })
        })
        .await?
    }

    /// Fills it from a data directory.
    async fn import(&self, directory: &Path) -> anyhow::Result<()> {
        let (directory, database) = (directory.to_owned(), self.database.clone());
        tokio::task::spawn_blocking(move || postgres::import(&directory, &database)).await??;
        Ok(())
    }

    /// Takes the lead over, which blocks.
    fn win(&self) -> anyhow::Result<Won> {
        let me = Leader {
            address: "127.0.0.1:1".to_owned(),
            exposure: Exposure::OpenLoopback,
            pass_key: [0; 32],
        };
        let mut candidate = PostgresCandidate::new(self.database.clone())?;
        let seen = candidate.poll()?;
        candidate.take_over(&seen, &me, seen.stamp)?.context("another process leads")
    }

    /// An orchestrator on it.
    fn spec(&self) -> ClusterSpec {
        ClusterSpec::new()
            .setting("ORCHESTRATOR_STORE", "postgres")
            .setting("ORCHESTRATOR_POSTGRES__URL", &self.server.url)
    }
}
