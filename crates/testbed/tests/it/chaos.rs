//! Whole clusters under the faults that machines and networks have.
//!
//! `cargo test` runs each for as long as it takes to see the fault; `just chaos` sets
//! `CHAOS_SECONDS` and lets the random ones go on. A failing run prints its seed, and `CHAOS_SEED`
//! repeats the choices that were made with it (not the races).

mod disk;
mod docker_away;
mod kills;
mod leases;
mod network;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::time::Duration;

use testbed::random::Random;

/// How long the random tests go on.
fn duration() -> Duration {
    const SHORT: u64 = 15;
    Duration::from_secs(number("CHAOS_SECONDS").unwrap_or(SHORT))
}

/// The source of a test's choices; its seed is printed.
fn random(test: &str) -> Random {
    // A new hasher has random keys.
    let seed = number("CHAOS_SEED").unwrap_or_else(|| RandomState::new().hash_one(test));
    // Past the test harness, which shows only what failed tests print.
    let _ = writeln!(std::io::stderr(), "{test}: CHAOS_SEED={seed}");
    Random::new(seed)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}
