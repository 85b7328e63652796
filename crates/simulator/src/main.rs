//! Runs the simulator over many seeds: `sim [--seeds N] [--from SEED] [--sabotages]`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use simulator::{Failure, Sabotage, Summary};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Default number of seeds.
const SEEDS: u64 = 10_000;

struct Arguments {
    seeds: u64,
    from: u64,
    /// Counts the seeds that find each sabotage, instead.
    sabotages: bool,
}

#[expect(clippy::print_stderr, reason = "this program prints its results")]
fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(64);
        }
    };
    // Broken invariants are reported with their seed; the panic message would repeat them.
    std::panic::set_hook(Box::new(|_| {}));
    match arguments.sabotages {
        false => check(&arguments),
        true => count_detections(&arguments),
    }
}

#[expect(clippy::print_stdout, reason = "this program prints its results")]
fn check(arguments: &Arguments) -> ExitCode {
    let outcomes = run(arguments, None);
    let mut total = Summary::default();
    for outcome in &outcomes {
        match outcome {
            Ok(summary) => total = total.plus(summary),
            Err(failure) => println!("{failure}"),
        }
    }
    let failed = count_failures(&outcomes);
    println!("{total}");
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How well the simulation finds what is wrong, and what that costs.
#[expect(clippy::print_stdout, reason = "this program prints its results")]
fn count_detections(arguments: &Arguments) -> ExitCode {
    let mut is_any_missed = false;
    for sabotage in Sabotage::ALL {
        let began = Instant::now();
        let found = count_failures(&run(arguments, Some(sabotage)));
        let (seeds, seconds) = (arguments.seeds, began.elapsed().as_secs_f64());
        println!("{sabotage:?}: found by {found} of {seeds} seeds in {seconds:.1} s");
        is_any_missed |= found == 0;
    }
    if is_any_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn count_failures(outcomes: &[Result<Summary, Failure>]) -> usize {
    outcomes.iter().filter(|outcome| outcome.is_err()).count()
}

fn run(arguments: &Arguments, sabotage: Option<Sabotage>) -> Vec<Result<Summary, Failure>> {
    let end = arguments.from + arguments.seeds;
    let next = AtomicU64::new(arguments.from);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut outcomes = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            return outcomes;
                        }
                        outcomes.push(simulator::run_with(seed, sabotage));
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

fn arguments() -> Result<Arguments, String> {
    let usage = || "usage: sim [--seeds N] [--from SEED] [--sabotages]".to_owned();
    let mut arguments = Arguments { seeds: SEEDS, from: 0, sabotages: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or_else(usage);
        match word.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--from" => arguments.from = number()?,
            "--sabotages" => arguments.sabotages = true,
            _ => return Err(usage()),
        }
    }
    Ok(arguments)
}
