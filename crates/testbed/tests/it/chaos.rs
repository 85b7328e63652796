//! Clusters under faults of machines and networks.
//!
//! `cargo test` runs each test just long enough to see the fault; `just chaos` sets
//! `CHAOS_SECONDS` and runs the random tests longer. A failing run prints its seed; `CHAOS_SEED`
//! repeats the random choices, but not the races.

mod disk;
mod docker_away;
mod kills;
pub(crate) mod leases;
mod network;
pub(crate) mod silence;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::time::Duration;

use simulator::random::Random;

/// Duration of the random tests.
fn duration() -> Duration {
    const SHORT: u64 = 15;
    Duration::from_secs(number("CHAOS_SECONDS").unwrap_or(SHORT))
}

/// The random number generator of a test; prints its seed.
pub(crate) fn random(test: &str) -> Random {
    // A new hasher has random keys.
    let seed = number("CHAOS_SEED").unwrap_or_else(|| RandomState::new().hash_one(test));
    // Bypasses the test harness, which captures the output of passing tests.
    let _ = writeln!(std::io::stderr(), "{test}: CHAOS_SEED={seed}");
    Random::new(seed)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}
