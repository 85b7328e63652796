//! No statement of the writer reads a whole table.

use std::time::Duration;

use api_types::dependency::Indexes;
use postgres_server::TestDatabase;
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::{eventually, opened, store};
use crate::store::contract::{Model, Put, Random, ended, key, key_row, load};
use crate::store::{Retention, Store};

/// They have few rows, and are always read as a whole.
const SMALL: &str = "'progress', 'probe', 'node', 'record'";

#[test]
fn the_writer_walks_indexes() {
    let Some(database) = TestDatabase::new() else { return };
    drop(store(opened(&database)));
    let mut admin = database.admin();
    admin.batch_execute("SELECT pg_stat_reset()").unwrap();
    let mut store = store(opened(&database));
    let mut random = Random(1);
    Model::random(&mut random, 60).store(&mut store, &mut random, 1);
    let mut changes = Changes::default();
    let jobs: Vec<_> = (0..9).map(|end| ended(&mut random, &mut changes, end, 3)).collect();
    let number = store.last_commit().unwrap() + 1;
    store.put(number, &changes, &[key_row("k", 10)]).unwrap();
    let ids: Vec<_> = jobs.iter().map(|job| job.sample.id()).collect();
    store.lookup(&[key("k")], Moment(0), &ids).unwrap();
    store.named(&ids.iter().map(|id| (*id, Indexes::Same)).collect()).unwrap();
    // As updates of jobs that the writer has to read first.
    changes.new_jobs.clear();
    changes.events.clear();
    store.take().unwrap();
    store.put(number + 1, &changes, &[]).unwrap();
    load(&mut store);
    let age = Some(Duration::from_secs(1));
    let retention = Retention { age, count: Some(3) };
    assert!(store.prune(Moment(60_000_000_000), &retention, 10_000).unwrap().count > 5);
    assert_eq!(store.forget_keys(Moment(20), 5).unwrap(), 1);
    drop(store);
    // The server counts what a session did when it ends.
    let sql = format!(
        "SELECT sum(idx_scan)::bigint, coalesce(string_agg(relname, ', ')
            FILTER (WHERE seq_scan > 0 AND relname NOT IN ({SMALL})), '')
         FROM pg_stat_user_tables WHERE schemaname = 'jobs'"
    );
    let scanned: String = eventually(|| {
        let row = admin.query_one(&sql, &[]).unwrap();
        (row.get::<_, i64>(0) > 100).then(|| row.get(1))
    });
    assert_eq!(scanned, "", "tables that were read as a whole");
}
