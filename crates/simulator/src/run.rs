//! Runs of the simulation: one world per seed, and the checks of what became of it.

use super::checks;
use super::digest::Digest;
use super::summary::{Failure, Sabotage, Summary};
use super::world::World;

/// Runs one seed without sabotage.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    run_with(seed, None)
}

/// Runs one seed without sabotage, and digests what the scheduler decides.
pub fn digest(seed: u64) -> Result<Digest, Failure> {
    guarded(seed, || {
        let mut world = World::new(seed, None);
        world.orchestrator.digest = Some(Digest::EMPTY);
        world.simulate()?;
        Ok(world.orchestrator.digest.expect("it was set a few lines above"))
    })
}

/// Runs one seed. A panic counts as a failure of that seed, like a violated guarantee.
pub fn run_with(seed: u64, sabotage: Option<Sabotage>) -> Result<Summary, Failure> {
    guarded(seed, || {
        let mut world = World::new(seed, sabotage);
        world.simulate().and_then(|()| checks::check(&world)).map(|()| world.summary)
    })
}

fn guarded<T>(
    seed: u64,
    run: impl FnOnce() -> Result<T, String> + std::panic::UnwindSafe,
) -> Result<T, Failure> {
    match std::panic::catch_unwind(run) {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(what)) => Err(Failure { seed, what }),
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "a panic without a message".to_owned());
            Err(Failure { seed, what })
        }
    }
}
