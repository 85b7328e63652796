//! Real daemons in real processes, for tests that look at the service from outside.
//!
//! Each test starts a [`Cluster`] of its own: own ports, own directories, own node ids, and
//! therefore own containers, so that tests run side by side and in any order. Nothing here waits
//! for a time; [`eventually`] waits for a state, with a bound, and says what it saw last.
//!
//! Where something goes wrong the harness panics with what it knows: its callers are tests.

mod agent;
mod binaries;
mod cluster;
mod daemon;
mod docker_door;
mod failpoints;
mod job;
mod link;
mod orchestrator;
mod ports;
mod small_disk;
mod verdict;
mod wait;

pub use agent::{Agent, AgentSpec};
pub use binaries::{binary, take_binaries_beside_this_program};
pub use cluster::{Cluster, ClusterSpec};
pub use daemon::Daemon;
pub use docker_door::DockerDoor;
pub use failpoints::Failpoints;
pub use job::{DataUrl, batch, noop, ops};
pub use link::Link;
pub use orchestrator::OrchestratorProcess;
pub use small_disk::SmallDisk;
pub use verdict::Ending;
pub use wait::{PATIENCE, eventually, eventually_within};
