//! No statement of the writer opens a temporary table.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

use super::{Backend, Directory, directory};
use crate::store::contract;
use crate::store::sqlite::open;
use crate::store::{Reads, Store};

/// What SQLite does to get a temporary table, with a separate page cache, that it faults in and
/// gives back each time.
const OPENS: [&str; 2] = ["OpenEphemeral", "OpenAutoindex"];

/// A store whose writer notes each statement.
struct Traced {
    directory: Directory,
    statements: Arc<Mutex<BTreeSet<String>>>,
}

impl Backend for Traced {
    fn open(&self) -> (Box<dyn Store>, Arc<dyn Reads>) {
        let (mut store, reads) = open(self.directory.path()).unwrap();
        let statements = Arc::clone(&self.statements);
        let note = move |event: TraceEvent<'_>| {
            if let TraceEvent::Stmt(statement, _) = event {
                statements.lock().unwrap().insert(statement.sql().into_owned());
            }
        };
        store.connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note)).unwrap();
        (Box::new(store), reads)
    }
}

impl Traced {
    /// The statements that open a temporary table, of those that were run.
    fn offending(&self) -> Vec<String> {
        let connection = Connection::open(self.directory.path().join("orchestrator.db")).unwrap();
        let statements = self.statements.lock().unwrap();
        assert!(statements.iter().any(|sql| sql.starts_with("INSERT")), "{statements:?}");
        statements.iter().filter(|sql| opens_temporary(&connection, sql)).cloned().collect()
    }
}

fn opens_temporary(connection: &Connection, sql: &str) -> bool {
    let mut explain = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
    let mut operations = explain.raw_query();
    while let Some(operation) = operations.next().unwrap() {
        let name: String = operation.get("opcode").unwrap();
        if OPENS.contains(&name.as_str()) {
            return true;
        }
    }
    false
}

#[test]
fn no_statement_of_the_writer_opens_a_temporary_table() {
    let promises: [fn(&Traced); _] = [
        contract::a_forgotten_node_leaves_its_history_for_a_while,
        contract::a_job_is_removed_with_everything_that_belongs_to_it,
        contract::a_known_node_keeps_its_newest_events,
        contract::an_idempotency_key_is_found_until_it_is_too_old,
        contract::every_record_reads_back,
        contract::executions_carry_their_output_and_results,
        contract::keys_are_removed_in_parts,
        contract::many_keys_and_ids_are_looked_up_together,
        contract::records_outlive_the_process,
        contract::the_last_of_several_changes_wins,
        contract::the_latest_tails_of_a_job_stay_and_go_with_it,
    ];
    for promise in promises {
        let traced = Traced { directory: directory(), statements: Arc::default() };
        promise(&traced);
        assert_eq!(traced.offending(), Vec::<String>::new());
    }
}
