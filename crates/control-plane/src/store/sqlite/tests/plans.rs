//! Both ways of finding a page agree, and each walks its intended index.

use api_types::job::JobStateType;
use api_types::selector::Selector;
use rusqlite::{Connection, params_from_iter};

use super::{Backend, Directory, directory};
use crate::store::contract::{Model, Random, random_query};
use crate::store::select::Selection;
use crate::store::select::search::Window;
use crate::store::sqlite::connection::keep_statements;
use crate::store::sqlite::events;
use crate::store::sqlite::search;
use crate::store::sqlite::select::{Sqlite, used};
use crate::store::{JobOrder, JobPosition, JobQuery, Namespaces, SearchQuery};

/// Counting up to here always finds a smallest source among those that can be counted.
const EVERYTHING: usize = 1_000_000;

fn filled(random: &mut Random) -> (Directory, Model, Connection) {
    let directory = directory();
    let model = Model::random(random, 300);
    let (mut store, _) = directory.open();
    model.store(store.as_mut(), random, 1);
    drop(store);
    let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    keep_statements(&connection).unwrap();
    (directory, model, connection)
}

#[test]
fn walking_and_sorting_find_the_same_jobs() {
    let mut random = Random(70);
    let (_directory, model, connection) = filled(&mut random);
    for _ in 0..2000 {
        let query = random_query(&mut random, &model);
        let expected = model.find(&query);
        let expected = &expected[..expected.len().min(query.limit as usize + 1)];
        for counted in [0, 20, EVERYTHING] {
            let numbers =
                Selection::new(&query, counted).numbers(&mut Sqlite(&connection)).unwrap();
            let found: Vec<_> = numbers
                .iter()
                .map(|number| {
                    let id = "SELECT id FROM job WHERE number = ?1";
                    connection.query_row(id, [number], |row| row.get::<_, [u8; 16]>(0)).unwrap()
                })
                .collect();
            let expected: Vec<_> = expected.iter().map(|id| id.uuid().into_bytes()).collect();
            assert_eq!(found, expected, "{counted} {query:?}");
        }
    }
}

/// The steps of SQLite's query plan, without lookups of one row.
fn plan(connection: &Connection, query: &JobQuery, counted: usize) -> Vec<String> {
    let (sql, parameters) =
        Selection::new(query, counted).statement(&mut Sqlite(connection)).unwrap();
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let used = used(&statement, &parameters);
    let steps = statement
        .query_map(params_from_iter(used), |row| row.get::<_, String>(3))
        .unwrap()
        .map(Result::unwrap);
    steps
        .filter(|step| !step.starts_with("SEARCH j ") && !step.starts_with("SEARCH t "))
        .filter(|step| !step.starts_with("SCALAR SUBQUERY") && !step.contains("CORRELATED"))
        .filter(|step| !step.starts_with("LIST SUBQUERY") && !step.contains("json_each"))
        .collect()
}

fn query(labels: &str, order: JobOrder) -> JobQuery {
    JobQuery {
        namespaces: Namespaces::one("default"),
        selector: Selector::parse(labels).unwrap(),
        order,
        limit: 10,
        ..JobQuery::default()
    }
}

#[test]
fn a_walk_by_creation_sorts_nothing() {
    let mut random = Random(71);
    let (_directory, model, connection) = filled(&mut random);
    let first = &model.jobs[0];
    let after = Some(JobPosition { time: first.new.create_time, id: first.id() });
    for (labels, index, condition) in [
        ("", "job_namespace", "namespace=?"),
        ("!env", "job_namespace", "namespace=?"),
        ("env!=prod", "job_namespace", "namespace=?"),
        ("env=prod", "label_value", "key=? AND value=?"),
        ("n>5,env=prod", "label_value", "key=? AND value=?"),
        ("env in (prod,dev,x)", "label_value", "key=? AND value=?"),
        ("env", "label_time", "key=?"),
        ("n>5", "label_time", "key=?"),
        ("env in (a,b,c,d,e,f,g,h,i)", "label_time", "key=?"),
    ] {
        for reverse in [false, true] {
            let mut query = query(labels, JobOrder::CreateTime);
            (query.reverse, query.after) = (reverse, after);
            let steps = plan(&connection, &query, 0);
            let searches: Vec<_> = steps.iter().filter(|step| step.contains("SEARCH d")).collect();
            assert!(!searches.is_empty(), "{labels}: {steps:?}");
            for search in searches {
                assert!(
                    search.contains(index) && search.contains(condition),
                    "{labels}: {steps:?}"
                );
                let beyond =
                    if reverse { "(create_time,id)<(?,?)" } else { "(create_time,id)>(?,?)" };
                assert!(
                    search.contains(beyond),
                    "{labels} does not begin at its position: {steps:?}"
                );
            }
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{labels}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("SCAN d")), "{labels}: {steps:?}");
        }
    }
}

#[test]
fn a_walk_by_change_sorts_nothing() {
    let mut random = Random(74);
    let (_directory, model, connection) = filled(&mut random);
    let first = &model.jobs[0];
    let after = Some(JobPosition { time: first.row.modify_time, id: first.id() });
    for labels in ["", "!env", "env", "env=prod", "n>5"] {
        for reverse in [false, true] {
            let query = JobQuery { reverse, after, ..query(labels, JobOrder::ModifyTime) };
            let steps = plan(&connection, &query, 0).join("; ");
            let beyond = if reverse { "(modify_time,id)<(?,?)" } else { "(modify_time,id)>(?,?)" };
            assert!(steps.contains("job_modified") && steps.contains(beyond), "{labels}: {steps}");
            assert!(!steps.contains("TEMP B-TREE"), "{labels}: {steps}");
            let steps = plan(&connection, &JobQuery { after: None, ..query }, 0).join("; ");
            assert!(steps.contains("job_modified"), "{labels}: {steps}");
            assert!(!steps.contains("TEMP B-TREE"), "{labels}: {steps}");
        }
    }
    let named = |counted| {
        let prefix = Some("bu".to_owned());
        let query = JobQuery { name_prefix: prefix, ..query("", JobOrder::CreateTime) };
        plan(&connection, &query, counted).join("; ")
    };
    assert!(
        named(EVERYTHING).contains("INDEX job_name (name>? AND name<?)"),
        "{}",
        named(EVERYTHING)
    );
    assert!(!named(0).contains("TEMP B-TREE"), "{}", named(0));
}

#[test]
fn a_rare_filter_leads_to_its_jobs() {
    let mut random = Random(72);
    let (_directory, _model, connection) = filled(&mut random);
    let step = |query: &JobQuery| plan(&connection, query, 50).join("; ");
    for order in [JobOrder::CreateTime, JobOrder::Id] {
        let rare = step(&query("env=rare", order));
        assert!(rare.contains("USING COVERING INDEX label_value (key=? AND value=?"), "{rare}");
        let rare = step(&query("env,n>9223372036854775800", order));
        assert!(rare.contains("INDEX label_integer (key=? AND integer>?"), "{rare}");
        let rare = step(&JobQuery { namespaces: Namespaces::one("absent"), ..query("env", order) });
        assert!(rare.contains("INDEX job_namespace (namespace=?"), "{rare}");
        let rare = step(&JobQuery { name: Some("absent".to_owned()), ..query("env", order) });
        assert!(rare.contains("INDEX job_name (name=?"), "{rare}");
        let mut by_state = query("env", order);
        by_state.states = vec![JobStateType::Queued, JobStateType::Stopped];
        connection.execute("DELETE FROM job WHERE state IN (1, 5) AND number % 8", []).unwrap();
        let rare = step(&by_state);
        assert!(rare.contains("INDEX job_state (state=?"), "{rare}");
    }
}

#[test]
fn a_walk_by_id_sorts_nothing() {
    let mut random = Random(73);
    let (_directory, model, connection) = filled(&mut random);
    let first = &model.jobs[0];
    let after = Some(JobPosition { time: first.new.create_time, id: first.id() });
    for (labels, index) in [
        ("", "INDEX job_id (id>?)"),
        ("!env", "INDEX job_id (id>?)"),
        ("env", "PRIMARY KEY (id>?)"),
        ("env!=prod,env", "PRIMARY KEY (id>?)"),
        ("env=prod", "PRIMARY KEY (id>?)"),
        ("env in (a,b,c,d,e,f,g,h,i)", "PRIMARY KEY (id>?)"),
        ("n>5", "PRIMARY KEY (id>?)"),
    ] {
        let query = JobQuery { after, ..query(labels, JobOrder::Id) };
        let steps = plan(&connection, &query, 0).join("; ");
        assert!(steps.contains(index) && !steps.contains("TEMP B-TREE"), "{labels}: {steps}");
        let steps = plan(&connection, &JobQuery { after: None, ..query }, 0).join("; ");
        assert!(!steps.contains("TEMP B-TREE"), "{labels}: {steps}");
    }
}

/// Following a job costs only its new events, however long its history is.
#[test]
fn the_events_of_a_job_are_read_from_their_position() {
    let mut random = Random(75);
    let (_directory, _model, connection) = filled(&mut random);
    let sql = format!("EXPLAIN QUERY PLAN {}", events::of_one_sql());
    let mut statement = connection.prepare(&sql).unwrap();
    let steps = statement.query_map([0, 10, 1], |row| row.get::<_, String>(3)).unwrap();
    let steps = steps.map(Result::unwrap).collect::<Vec<_>>().join("; ");
    assert!(steps.contains("INDEX event_job (job=? AND seq>?)"), "{steps}");
    assert!(!steps.contains("TEMP B-TREE"), "{steps}");
}

#[test]
fn a_statement_does_not_grow_with_the_values_of_a_selector() {
    let mut random = Random(76);
    let (_directory, _model, connection) = filled(&mut random);
    let statement = |values: usize| {
        let values: Vec<_> = (0..values).map(|n| n.to_string()).collect();
        let labels = format!("env in ({0}),n notin ({0})", values.join(","));
        let query = query(&labels, JobOrder::CreateTime);
        Selection::new(&query, 20).statement(&mut Sqlite(&connection)).unwrap()
    };
    let ((few, _), (many, parameters)) = (statement(20), statement(250));
    assert_eq!(few, many);
    assert!(parameters.len() < 10, "{}", parameters.len());
}

/// Older jobs cost a search nothing, and it says that it left them out.
#[test]
fn a_search_ends_with_its_window() {
    let mut random = Random(77);
    let (_directory, model, connection) = filled(&mut random);
    let every = SearchQuery { text: String::new(), namespaces: Namespaces::All, limit: 1000 };
    let search = |live, ended| search::jobs(&connection, &every, &Window { live, ended }).unwrap();
    let ended = model.jobs.iter().filter(|sample| sample.row.state.is_terminal()).count();
    let live = model.jobs.len() - ended;
    assert!(ended > 50 && live > 50);
    let [live, ended] = [live, ended].map(|count| u32::try_from(count).unwrap());
    let found = search(10, 20);
    assert_eq!((found.jobs.len(), found.is_complete), (30, false));
    assert!(!search(live - 1, ended).is_complete && !search(live, ended - 1).is_complete);
    let all = search(live, ended);
    assert_eq!((all.jobs.len(), all.is_complete), (model.jobs.len(), true));
}
