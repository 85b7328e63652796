//! The whole service in virtual time, a few hundred seeds of it; `just sim` runs many more.

use std::sync::atomic::{AtomicU64, Ordering};

use testbed::sim::{self, Sabotage, Summary};

/// Enough to meet every kind of fault many times, in some ten seconds.
const SEEDS: u64 = 300;

/// Sabotage shows within so many seeds, or the simulation is blind to it.
const SABOTAGED_SEEDS: u64 = 100;

#[test]
fn every_promise_holds_whatever_fails() {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let total = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut total = Summary::default();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= SEEDS {
                            return total;
                        }
                        match sim::run(seed) {
                            Ok(summary) => total = total.plus(&summary),
                            Err(failure) => panic!("{failure}"),
                        }
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("no seed fails"))
            .fold(Summary::default(), |total, summary| total.plus(&summary))
    });
    println!("{total}");
    assert!(total.jobs > 1000, "{total}");
    assert!(total.orchestrator_deaths > 100 && total.agent_deaths > 100, "{total}");
    assert!(total.lost_messages > 1000, "{total}");
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in 0..5 {
        assert_eq!(sim::run(seed), sim::run(seed));
    }
}

#[test]
fn an_answer_before_the_commit_is_found_out() {
    assert!(is_found_out(Sabotage::AnswerBeforeCommit));
}

#[test]
fn a_report_that_is_not_repeated_is_found_out() {
    assert!(is_found_out(Sabotage::ForgetReports));
}

fn is_found_out(sabotage: Sabotage) -> bool {
    (0..SABOTAGED_SEEDS).any(|seed| sim::run_with(seed, Some(sabotage)).is_err())
}
