//! Fault rates of a run: drawn once per seed, and set to zero before its end.

use super::network::{NO_FAULTS, NetworkFaults};
use crate::random::Random;

/// Probabilities in thousandths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    pub(super) network: NetworkFaults,
    /// A turn of the orchestrator ends in a crash.
    pub(super) orchestrator_crash: u64,
    /// A step of an agent ends in a crash.
    pub(super) agent_crash: u64,
    /// Once per second: a pause, a network outage, or a node that leaves.
    pub(super) disruption: u64,
    /// The machine of an agent restarts when the agent crashes.
    pub(super) agent_reboots: u64,
    /// The Docker Engine fails to create, start, or respond.
    pub(super) docker_failure: u64,
    /// The wall clock of the orchestrator's machine is set while its process is away.
    pub(super) clock_steps: u64,
    /// The machine restarts when the orchestrator crashes.
    pub(super) machine_restarts: u64,
    /// The outcome of a commit remains unknown.
    pub(super) unknown_commits: u64,
    /// The disk takes some seconds for a commit.
    pub(super) slow_commits: u64,
    /// Once per second: an operator rejects or forgets a node.
    pub(super) operators: u64,
    /// Once per second: an operator approves a node, where nodes wait for that; 0 where they do not.
    pub(super) approvals: u64,
    /// The store is shared, and another process takes it over from one that is paused or cut off.
    pub(super) takeovers: u64,
}

pub(super) const HEALED: Faults = Faults {
    network: NO_FAULTS,
    orchestrator_crash: 0,
    agent_crash: 0,
    disruption: 0,
    agent_reboots: 0,
    docker_failure: 0,
    clock_steps: 0,
    machine_restarts: 0,
    unknown_commits: 0,
    slow_commits: 0,
    operators: 0,
    approvals: 0,
    takeovers: 0,
};

/// A node waits for some seconds until it is approved.
const APPROVALS: u64 = 200;

/// Draws each rate independently, so that some runs have a single kind of fault and others have all.
pub(super) fn draw(random: &mut Random) -> Faults {
    let approves = random.chance(700);
    let mut draw = |worst: u64| if random.chance(600) { random.within(0..worst) } else { 0 };
    Faults {
        network: NetworkFaults {
            lost: draw(150),
            unanswered: draw(150),
            repeated: draw(100),
            cut: draw(60),
        },
        orchestrator_crash: draw(20),
        agent_crash: draw(20),
        disruption: draw(100),
        docker_failure: draw(80),
        clock_steps: draw(500),
        machine_restarts: draw(500),
        agent_reboots: draw(500),
        unknown_commits: draw(50),
        slow_commits: draw(30),
        operators: draw(60),
        approvals: if approves { 0 } else { APPROVALS },
        takeovers: draw(2000),
    }
}
