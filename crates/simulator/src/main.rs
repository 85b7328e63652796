//! Runs the simulator over many seeds: `sim [--seeds N] [--from SEED]`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use simulator::{Failure, Summary};

/// Default number of seeds.
const SEEDS: u64 = 10_000;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this program prints its results")]
fn main() -> ExitCode {
    let (seeds, from) = match arguments() {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(64);
        }
    };
    // Broken invariants are reported with their seed; the panic message would repeat them.
    std::panic::set_hook(Box::new(|_| {}));
    let outcomes = run(seeds, from);
    let mut total = Summary::default();
    for outcome in &outcomes {
        match outcome {
            Ok(summary) => total = total.plus(summary),
            Err(failure) => println!("{failure}"),
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    println!("{total}");
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(seeds: u64, from: u64) -> Vec<Result<Summary, Failure>> {
    let next = AtomicU64::new(from);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut outcomes = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= from + seeds {
                            return outcomes;
                        }
                        outcomes.push(simulator::run(seed));
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker catches the panics of its runs"))
            .collect()
    })
}

fn arguments() -> Result<(u64, u64), String> {
    let usage = || "usage: sim [--seeds N] [--from SEED]".to_owned();
    let (mut seeds, mut from) = (SEEDS, 0);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse().ok()).ok_or_else(usage)?;
        match word.as_str() {
            "--seeds" => seeds = value,
            "--from" => from = value,
            _ => return Err(usage()),
        }
    }
    Ok((seeds, from))
}
