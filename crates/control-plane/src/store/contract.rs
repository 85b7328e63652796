//! What every store promises, as tests that run against each implementation.
//!
//! An implementation provides a [`Backend`] and calls [`store_contract!`], which makes one test of
//! each promise.

mod commits;
mod dependencies;
mod events;
mod executions;
mod history;
mod listing;
mod live;
mod model;
mod nodes;
mod outcomes;
mod outputs;
mod pages;
mod records;
mod retention;
mod samples;
mod terms;

use std::sync::Arc;

use scheduler::change::{Live, LiveJobRow};

use super::{Reads, Store};

pub(super) use self::commits::*;
pub(super) use self::dependencies::*;
pub(super) use self::events::*;
pub(super) use self::executions::*;
pub(super) use self::history::*;
pub(super) use self::listing::*;
pub(super) use self::live::*;
pub(super) use self::model::{Model, random_query};
pub(super) use self::nodes::*;
pub(super) use self::outcomes::*;
pub(super) use self::outputs::the_latest_tails_of_a_job_stay_and_go_with_it;
pub(super) use self::pages::*;
pub(super) use self::records::*;
pub(super) use self::retention::*;
pub(super) use self::samples::{Put, Random, Sample, key, key_row, session_request};
pub(super) use self::terms::*;

/// The live state: the jobs, and the rest.
pub(super) fn load(store: &mut dyn Store) -> (Vec<LiveJobRow>, Live) {
    let mut jobs = Vec::new();
    let live = store.load(&mut |job| jobs.push(job)).unwrap();
    (jobs, live)
}

/// One database, which lives as long as this.
pub(super) trait Backend {
    /// Opens it; any earlier handle is closed by then.
    fn open(&self) -> (Box<dyn Store>, Arc<dyn Reads>);
}

/// The writer's half of an empty store.
pub(super) trait Writer {
    fn writer(&self) -> Box<dyn Store>;
}

impl<B: Backend> Writer for B {
    fn writer(&self) -> Box<dyn Store> {
        self.open().0
    }
}

/// One test for each promise of the writer's half alone; `$new` makes a [`Writer`], if it can.
macro_rules! writer_contract {
    ($new:path) => {
        crate::store::contract::store_contract!($new:
            a_foreign_term_is_fenced,
            a_number_of_an_earlier_term_is_fenced,
            every_write_is_numbered,
            many_keys_and_ids_are_looked_up_together,
        );
    };
}
pub(super) use writer_contract;

/// One test for each promise; `$new` makes a backend with an empty database, if this machine has
/// what it needs.
macro_rules! store_contract {
    ($new:path: $($promise:ident),+ $(,)?) => {
        $(#[test]
        fn $promise() {
            if let Some(backend) = $new() {
                crate::store::contract::$promise(&backend);
            }
        })+
    };
    ($new:path) => {
        crate::store::contract::writer_contract!($new);
        crate::store::contract::store_contract!($new:
            every_record_reads_back,
            the_last_of_several_changes_wins,
            a_repeated_commit_changes_nothing,
            a_commit_that_leaves_a_gap_is_refused,
            a_term_outlives_its_process,
            a_refused_commit_stores_nothing,
            an_idempotency_key_is_found_until_it_is_too_old,
            a_key_belongs_to_its_namespace,
            keys_are_removed_in_parts,
            a_probe_leaves_nothing,
            only_what_is_live_is_loaded,
            slots_of_ops_and_daemon_jobs_keep_their_nodes,
            the_last_sequence_is_kept,
            the_stamp_of_the_last_commit_is_kept,
            a_prefix_finds_every_match,
            records_outlive_the_process,
            namespaces_bound_what_is_found,
            odd_texts_read_back,
            every_job_query_agrees_with_the_model,
            pages_of_jobs_neither_repeat_nor_skip,
            a_search_finds_any_part_of_a_name_an_id_or_a_label,
            created_and_ended_jobs_do_not_disturb_a_walk,
            a_page_of_large_jobs_ends_early_and_the_next_continues,
            a_page_of_executions_with_much_text_ends_early_and_the_next_continues,
            a_page_of_live_executions_of_large_jobs_ends_early,
            executions_are_listed_in_every_order,
            executions_are_filtered_by_slot_and_state,
            executions_carry_their_output_and_results,
            outcomes_of_slots_read_back_chunk_by_chunk,
            scattered_indexes_and_unplaced_slots_read_back,
            a_job_of_one_slot_stores_no_outcomes,
            what_live_jobs_depend_on_is_kept_and_loaded,
            what_slots_wait_for_is_kept_and_loaded,
            archives_are_needed_while_a_live_job_depends_on_their_job,
            a_graph_is_described_listed_and_goes_with_the_last_of_its_jobs,
            the_latest_tails_of_a_job_stay_and_go_with_it,
            history_is_filtered_and_paged,
            results_are_listed_by_slot,
            of_a_slot_the_completed_execution_has_the_results,
            events_of_all_jobs_are_listed_in_order,
            removed_events_leave_a_gap,
            events_are_found_by_their_time,
            events_of_nodes_are_apart_from_those_of_jobs,
            a_known_node_keeps_its_newest_events,
            a_forgotten_node_leaves_its_history_for_a_while,
            a_job_is_removed_with_everything_that_belongs_to_it,
            jobs_that_ended_first_are_removed_first,
            the_namespace_with_the_most_finished_jobs_loses_its_oldest,
            a_large_job_is_removed_in_small_parts,
            a_half_removed_job_is_invisible_and_removal_resumes_after_a_restart,
            live_jobs_and_those_within_bounds_are_kept,
        );
    };
}
pub(super) use store_contract;
