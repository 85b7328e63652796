//! Runs the simulator over many seeds: `sim [--seeds N] [--from SEED] [--sabotages | --digest]`.

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
    task: Task,
}

#[derive(Clone, Copy)]
enum Task {
    /// Runs the seeds.
    Check,
    /// Counts the seeds that find each sabotage.
    CountDetections,
    /// Prints a digest of what the scheduler decides in each seed.
    Digest,
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
    match arguments.task {
        Task::Check => check(&arguments),
        Task::CountDetections => count_detections(&arguments),
        Task::Digest => print_digests(&arguments),
    }
}

#[expect(clippy::print_stdout, reason = "this program prints its results")]
fn check(arguments: &Arguments) -> ExitCode {
    let outcomes = run(arguments, simulator::run);
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
        let found =
            count_failures(&run(arguments, |seed| simulator::run_with(seed, Some(sabotage))));
        let (seeds, seconds) = (arguments.seeds, began.elapsed().as_secs_f64());
        println!("{sabotage:?}: found by {found} of {seeds} seeds in {seconds:.1} s");
        is_any_missed |= found == 0;
    }
    if is_any_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Two programs decide alike if this prints the same.
#[expect(clippy::print_stdout, reason = "this program prints its results")]
fn print_digests(arguments: &Arguments) -> ExitCode {
    let outcomes = run(arguments, simulator::digest);
    for (seed, outcome) in (arguments.from..).zip(&outcomes) {
        match outcome {
            Ok(digest) => println!("seed {seed}: {digest}"),
            Err(failure) => println!("{failure}"),
        }
    }
    if count_failures(&outcomes) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn count_failures<T>(outcomes: &[Result<T, Failure>]) -> usize {
    outcomes.iter().filter(|outcome| outcome.is_err()).count()
}

/// Runs all seeds; the outcomes are in their order.
fn run<T: Send>(
    arguments: &Arguments,
    run_seed: impl Fn(u64) -> Result<T, Failure> + Sync,
) -> Vec<Result<T, Failure>> {
    let end = arguments.from + arguments.seeds;
    let next = AtomicU64::new(arguments.from);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut outcomes = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            return outcomes;
                        }
                        outcomes.push((seed, run_seed(seed)));
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker catches the panics of its runs"))
            .collect()
    });
    outcomes.sort_unstable_by_key(|(seed, _)| *seed);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn arguments() -> Result<Arguments, String> {
    let usage = || "usage: sim [--seeds N] [--from SEED] [--sabotages | --digest]".to_owned();
    let mut arguments = Arguments { seeds: SEEDS, from: 0, task: Task::Check };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or_else(usage);
        match word.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--from" => arguments.from = number()?,
            "--sabotages" => arguments.task = Task::CountDetections,
            "--digest" => arguments.task = Task::Digest,
            _ => return Err(usage()),
        }
    }
    Ok(arguments)
}
