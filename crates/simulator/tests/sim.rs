//! A few hundred seeds of the simulation; `just sim` runs many more.

use std::sync::atomic::{AtomicU64, Ordering};

use simulator::{Sabotage, Summary};

/// Enough to include every kind of fault many times, in less than a minute with little optimisation.
const SEEDS: u64 = 1200;

/// Number of seeds within which the simulation must find sabotage. What is found least is found by one
/// in 150 (`sim --sabotages` counts), so that chance alone hardly ever misses it.
const SABOTAGED_SEEDS: u64 = 1500;

#[test]
fn every_guarantee_holds_under_all_faults() {
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
                        match simulator::run(seed) {
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
    assert!(total.orchestrator_crashes > 100 && total.agent_crashes > 100, "{total}");
    assert!(total.agent_reboots > 50, "{total}");
    assert!(total.lost_messages > 1000, "{total}");
    assert!(total.clock_steps > 100 && total.machine_restarts > 30, "{total}");
    assert!(total.full_disks > 50 && total.late_commits > 100, "{total}");
    assert!(total.slow_commits > 100, "{total}");
    assert!(total.crowds > 5 && total.reruns > 5 && total.broken_nodes > 5, "{total}");
    assert!(total.lost_registries > 3, "{total}");
    assert!(total.long_runs > 10 && total.mass_silences > 10, "{total}");
    assert!(total.full_ledgers > 10 && total.given_up > 100, "{total}");
    assert!(total.missing_secrets > 100 && total.unpublished > 5, "{total}");
    assert!(total.rejected_nodes > 50 && total.forgotten_nodes > 50, "{total}");
    assert!(total.lost_networks > 1 && total.damaged_images > 3, "{total}");
    assert!(total.refused_arrays > 3 && total.hostile_namespaces > 3, "{total}");
    assert!(total.shared_clusters > 10, "{total}");
    assert!(total.takeovers > 30 && total.deposed > 20, "{total}");
    assert!(total.promotions > 100 && total.losses > 20, "{total}");
}

/// A node backs off while the wall clock is ahead, before a namespace begins to attack.
#[test]
fn the_seed_whose_wall_clock_is_ahead_of_an_attack_passes() {
    simulator::run(3377).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn runs_of_different_seeds_have_different_digests() {
    let digests: Vec<_> =
        (0..5).map(|seed| simulator::digest(seed).expect("no seed fails")).collect();
    for (at, digest) in digests.iter().enumerate() {
        assert!(!digests[..at].contains(digest), "{digest} is that of two seeds");
    }
}

#[test]
fn runs_of_a_seed_are_identical() {
    for seed in 0..5 {
        assert_eq!(simulator::run(seed), simulator::run(seed));
        assert_eq!(simulator::digest(seed), simulator::digest(seed));
    }
}

#[test]
fn a_response_before_the_commit_is_detected() {
    assert!(is_detected(Sabotage::AnswerBeforeCommit));
}

#[test]
fn a_report_that_is_not_repeated_is_detected() {
    assert!(is_detected(Sabotage::ForgetReports));
}

#[test]
fn an_agent_that_does_not_notice_a_reboot_is_detected() {
    assert!(is_detected(Sabotage::ForgetBoot));
}

#[test]
fn a_service_that_decides_by_the_wall_clock_is_detected() {
    assert!(is_detected(Sabotage::TrustWallClock));
}

#[test]
fn a_commit_of_a_deposed_process_that_is_acknowledged_is_detected() {
    assert!(is_detected(Sabotage::NoFence));
}

#[test]
fn a_state_that_is_read_before_the_term_begins_is_detected() {
    assert!(is_detected(Sabotage::LoadBeforeTerm));
}

#[test]
fn a_large_job_that_starves_is_detected() {
    assert!(is_detected(Sabotage::NoReservations));
}

#[test]
fn work_of_a_dead_node_that_is_never_replaced_is_detected() {
    assert!(is_detected(Sabotage::NoSilence));
}

#[test]
fn a_secret_that_appears_and_starts_nobody_is_detected() {
    assert!(is_detected(Sabotage::ProvideSilently));
}

#[test]
fn a_patience_that_a_job_asked_for_and_does_not_get_is_detected() {
    assert!(is_detected(Sabotage::ForgetLostAfter));
}

#[test]
fn a_patience_that_no_job_asked_for_is_detected() {
    assert!(is_detected(Sabotage::FillInPatience));
}

#[test]
fn a_long_run_that_is_given_up_like_a_short_one_is_detected() {
    assert!(is_detected(Sabotage::ForgetAcceptance));
}

#[test]
fn a_lease_that_is_forgotten_is_detected() {
    assert!(is_detected(Sabotage::ForgetLease));
}

#[test]
fn an_offer_that_is_taken_back_although_no_answer_could_arrive_is_detected() {
    assert!(is_detected(Sabotage::OverlookDelays));
}

#[test]
fn heartbeats_that_wait_for_the_ledger_are_detected() {
    assert!(is_detected(Sabotage::HeartbeatsWait));
}

#[test]
fn work_that_is_offered_to_an_agent_that_does_nothing_is_detected() {
    assert!(is_detected(Sabotage::OverlookStalls));
}

#[test]
fn a_run_that_is_repeated_because_its_results_are_refused_is_detected() {
    assert!(is_detected(Sabotage::RunUnpublishedAgain));
}

#[test]
fn a_limit_that_a_restart_forgets_is_detected() {
    assert!(is_detected(Sabotage::ForgetMaxRunning));
}

#[test]
fn units_that_a_restart_does_not_count_are_detected() {
    assert!(is_detected(Sabotage::ForgetHolders));
}

#[test]
fn a_unit_that_stays_taken_during_a_delay_is_detected() {
    assert!(is_detected(Sabotage::KeepUnits));
}

#[test]
fn a_condition_that_a_restart_does_not_evaluate_again_is_found() {
    assert!(is_detected(Sabotage::ForgetEnds));
}

#[test]
fn a_quota_that_stays_taken_is_detected() {
    assert!(is_detected(Sabotage::KeepQuota));
}

#[test]
fn a_quota_that_starts_nothing_on_other_nodes_is_detected() {
    assert!(is_detected(Sabotage::KeepQuotaElsewhere));
}

#[test]
fn a_usage_that_a_restart_does_not_count_is_detected() {
    assert!(is_detected(Sabotage::ForgetUsage));
}

#[test]
fn a_share_that_does_not_count_is_detected() {
    assert!(is_detected(Sabotage::IgnoreShares));
}

#[test]
fn a_daemon_that_takes_a_node_for_the_one_that_was_forgotten_is_detected() {
    assert!(is_detected(Sabotage::ForgetJoining));
}

#[test]
fn jobs_that_fail_by_a_broken_node_are_detected() {
    assert!(is_detected(Sabotage::BlameTasks));
}

#[test]
fn a_broken_node_that_eats_a_backlog_is_detected() {
    assert!(is_detected(Sabotage::BlameImages));
}

#[test]
fn a_node_that_can_pull_nothing_and_is_tried_again_and_again_is_detected() {
    assert!(is_detected(Sabotage::BlameRoom));
}

#[test]
fn a_refusal_that_is_held_against_the_node_is_detected() {
    assert!(is_detected(Sabotage::BlameNodes));
}

#[test]
fn a_refused_container_that_is_tried_on_is_detected() {
    assert!(is_detected(Sabotage::TryRefusedAgain));
}

#[test]
fn a_back_off_that_no_probe_ends_is_detected() {
    assert!(is_detected(Sabotage::ForgetPassedProbes));
}

#[test]
fn a_back_off_that_a_failed_probe_ends_is_detected() {
    assert!(is_detected(Sabotage::OverlookFailedProbes));
}

#[test]
fn a_node_that_backs_off_because_of_one_namespace_is_detected() {
    assert!(is_detected(Sabotage::BelieveOneNamespace));
}

#[test]
fn a_node_that_is_idle_although_it_has_work_is_detected() {
    assert!(is_detected(Sabotage::KeepIdleness));
}

#[test]
fn slots_that_a_restart_lets_wait_for_jobs_that_have_ended_are_detected() {
    assert!(is_detected(Sabotage::ForgetCounterparts));
}

#[test]
fn outcomes_that_are_not_stored_with_their_commit_are_detected() {
    assert!(is_detected(Sabotage::ForgetOutcomes));
}

#[test]
fn cancelled_slots_that_do_not_run_again_are_detected() {
    assert!(is_detected(Sabotage::CompleteCancelled));
}

#[test]
fn a_process_that_loads_and_does_not_say_that_it_lives_is_detected() {
    assert!(is_detected(Sabotage::LoadSilently));
}

#[test]
fn a_heartbeat_that_is_answered_by_a_process_that_may_have_lost_the_lead_is_detected() {
    assert!(is_detected(Sabotage::BypassGate));
}

#[test]
fn a_snapshot_without_a_commit_that_began_later_is_detected() {
    assert!(is_detected(Sabotage::SkipProofs));
}

#[test]
fn a_follower_that_compares_wall_clocks_is_detected() {
    assert!(is_detected(Sabotage::CompareWallClocks));
}

#[test]
fn numbers_that_are_not_skipped_after_a_promotion_are_detected() {
    assert!(is_detected(Sabotage::NoJump));
}

#[test]
fn a_commit_that_counts_as_stored_once_it_is_read_is_detected() {
    assert!(is_detected(Sabotage::ResolveByReading));
}

fn is_detected(sabotage: Sabotage) -> bool {
    (0..SABOTAGED_SEEDS).any(|seed| simulator::run_with(seed, Some(sabotage)).is_err())
}

#[test]
fn a_due_time_that_is_stored_apart_from_its_job_is_detected() {
    assert!(is_detected(Sabotage::StoreDueTimesApart));
}
