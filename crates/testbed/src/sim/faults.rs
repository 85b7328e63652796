//! How bad a run is: drawn once per seed, and healed before its end.

use super::network::{CALM, Weather};
use crate::random::Random;

/// Chances, in thousandths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    pub(super) weather: Weather,
    /// A turn of the orchestrator ends in its death.
    pub(super) orchestrator_dies: u64,
    /// A step of an agent ends in its death.
    pub(super) agent_dies: u64,
    /// Once a second, something else happens: a pause, a cut, a node that leaves.
    pub(super) mischief: u64,
    /// The docker engine fails to create, start, or be asked.
    pub(super) docker_fails: u64,
}

pub(super) const HEALED: Faults =
    Faults { weather: CALM, orchestrator_dies: 0, agent_dies: 0, mischief: 0, docker_fails: 0 };

/// Some runs are calm but for one kind of fault, so that each is met alone; others have all.
pub(super) fn draw(random: &mut Random) -> Faults {
    let mut draw = |worst: u64| if random.chance(600) { random.within(0..worst) } else { 0 };
    Faults {
        weather: Weather {
            lost: draw(150),
            unanswered: draw(150),
            repeated: draw(100),
            cut: draw(60),
        },
        orchestrator_dies: draw(20),
        agent_dies: draw(20),
        mischief: draw(100),
        docker_fails: draw(80),
    }
}
