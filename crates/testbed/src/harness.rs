//! Real daemons in real processes, for black-box tests of the service.
//!
//! Each test starts its own [`Cluster`] with separate ports, directories, node ids and therefore
//! containers, so that tests run in parallel and in any order. The harness never sleeps for a fixed
//! time; [`eventually`] waits for a state with a bound and reports the last observation.
//!
//! The harness panics on errors, since its callers are tests.

mod access;
mod agent;
mod cluster;
mod daemon;
mod docker_proxy;
mod ending;
mod failpoints;
mod gated;
mod job;
mod leaders;
mod link;
mod orchestrator;
mod ports;
mod relay;
mod shared_store;
mod sharing;
mod signals;
mod small_disk;
mod wait;
mod words;

pub use agent::{Agent, AgentSpec};
pub use cluster::{Cluster, ClusterSpec};
pub use daemon::Daemon;
pub use docker_proxy::DockerProxy;
pub use ending::Ending;
pub use failpoints::Failpoints;
pub use gated::{Gated, gated};
pub use job::{DataUrl, batch, noop, ops};
pub use link::Link;
pub use orchestrator::OrchestratorProcess;
pub use programs::{binary, use_binaries_next_to_this_program};
pub use relay::{Relay, Upstream};
pub use shared_store::{Direct, Lead, SharedStore, StoreLink};
pub use small_disk::SmallDisk;
pub use wait::{TIMEOUT, eventually, eventually_within};
