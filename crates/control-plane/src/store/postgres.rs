//! The shared store: PostgreSQL, for several orchestrators of which one leads.
//!
//! A commit is one transaction, sent as one pipeline; the row `progress`, which each commit changes,
//! is both the lease of the process that leads and the fence against all others. See
//! `docs/adr/2026-11-28-one-row-is-lease-and-fence.md`.

mod attempt;
mod audit;
mod candidate;
mod cluster_load;
mod connection;
mod engine;
mod events;
mod executions;
mod fault;
mod graphs;
mod import;
mod jobs;
mod known;
mod link;
mod load;
mod lookup;
mod members;
mod named;
mod names;
mod outcomes;
mod progress;
mod prune;
mod reader;
mod reads;
mod results;
mod row;
mod schema;
mod search;
mod select;
mod values;
mod write;
mod writer;

pub use self::candidate::PostgresCandidate;
pub use self::connection::{Database, InvalidDatabase};
pub use self::import::{ImportError, Imported, import};
pub use self::members::PostgresMembership;
pub use self::reads::PostgresReads;
pub use self::schema::format;
pub use self::writer::PostgresStore;

#[cfg(test)]
mod tests;
