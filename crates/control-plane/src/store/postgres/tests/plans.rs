//! Each list walks its intended index, however many jobs there are.

use std::time::{Duration, Instant};

use api_types::id::IdPrefix;
use api_types::job::JobStateType;
use api_types::selector::Selector;
use api_types::{ExecutionId, GraphId, JobId, NodeId, Timestamp};
use postgres_server::TestDatabase;
use uuid::Uuid;

use super::opened;
use crate::store::contract::Backend;
use crate::store::postgres::reader::Reader;
use crate::store::postgres::select::numbered;
use crate::store::postgres::{audit, events, executions, graphs, jobs, names, results, search};
use crate::store::postgres::{cluster_load, outcomes};
use crate::store::select::{COUNTED, Selection, search::WINDOW};
use crate::store::{
    AuditQuery, EventsQuery, ExecutionOrder, ExecutionQuery, GraphQuery, HistoryQuery, JobOrder,
    JobPosition, JobQuery, LiveExecutionsQuery, Namespaces, NodeHistoryQuery, ResultQuery,
    SearchQuery,
};

/// No plan is cut short.
const LONG: Duration = Duration::from_secs(60);

/// In the middle of the jobs of [`fill`], whatever the order.
fn middle(jobs: u32) -> JobPosition {
    let middle = jobs / 2;
    let id = JobId::from_uuid(Uuid::from_u128(middle.into()));
    JobPosition { time: Timestamp(middle.into()), id }
}

/// This many jobs with three labels each, of which one in a hundred is live, and an execution and two
/// events of each.
fn fill(jobs: u32) -> Option<(TestDatabase, Reader)> {
    let database = TestDatabase::new()?;
    database.open();
    let mut admin = database.admin();
    let id = "decode(lpad(to_hex(n), 32, '0'), 'hex')";
    let texts = "''::bytea";
    let numbers = format!("generate_series(1, {jobs}) AS n");
    let fill = format!(
        "INSERT INTO job SELECT n, {id}, n, n, 0, 50, 'default', 'build', NULL FROM {numbers};
         INSERT INTO job_run SELECT n, {id}, n, 'default', CASE n % 100 WHEN 0 THEN 2 ELSE 3 END,
            CASE n % 100 WHEN 0 THEN 1 ELSE 0 END, 1, 1, n, n, 1, 0, 0, 1, 0, 0, 0, {id}, n, NULL,
            CASE n % 100 WHEN 0 THEN NULL ELSE n END, NULL, {texts} FROM {numbers};
         INSERT INTO job_spec SELECT n, 1, repeat('x', 200)::bytea FROM {numbers};
         INSERT INTO label SELECT {id}, 'env', n, n, 'prod', NULL FROM {numbers};
         INSERT INTO label SELECT {id}, 'team', n, n, ('t' || n % 100)::bytea, NULL FROM {numbers};
         INSERT INTO label SELECT {id}, 'n', n, n, n::text::bytea, n FROM {numbers};
         INSERT INTO execution SELECT n, {id}, n, 0, n, n, 6, 1,
            CASE n % 100 WHEN 0 THEN 1 ELSE 0 END, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, n, n, n, n, {id},
            {texts}, NULL, {id}, NULL, NULL, NULL, {texts}, {texts} FROM {numbers};
         INSERT INTO event SELECT 2 * n + m, n, n, 1, 1, 1, NULL, NULL, {texts}
            FROM {numbers}, generate_series(0, 1) AS m;"
    );
    admin.batch_execute(&fill).unwrap();
    admin.batch_execute("VACUUM ANALYZE").unwrap();
    let reader = Reader::open(&opened(&database), LONG).unwrap();
    Some((database, reader))
}

/// The plan of a statement for all values.
fn plan(reader: &mut Reader, sql: &str) -> String {
    reader.run(&format!("PREPARE planned AS {sql}")).unwrap();
    let count = (1..).take_while(|number| sql.contains(&format!("${number}"))).count();
    let nulls = vec!["NULL"; count].join(", ");
    let arguments = if count == 0 { String::new() } else { format!("({nulls})") };
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE planned {arguments}");
    let rows = reader.rows(&explain, &[]).unwrap();
    reader.run("DEALLOCATE planned").unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// The plan of a page, and the statement.
fn plan_of(reader: &mut Reader, query: &JobQuery, counted: usize) -> String {
    let (sql, parameters) = Selection::new(query, counted).statement(reader).unwrap();
    let (sql, _) = numbered(&sql, &parameters);
    let plan = format!("{}{sql}", plan(reader, &sql));
    let is_looked_up = uses(&plan, "job_pkey") && !plan.contains("Materialize");
    assert!(is_looked_up, "the job of an entry is not looked up: {plan}");
    plan
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

fn uses(plan: &str, index: &str) -> bool {
    plan.contains(&format!(" {index} on "))
}

fn a_walk_by_creation_sorts_nothing(reader: &mut Reader, after: JobPosition) {
    for (labels, index, condition) in [
        ("", "job_namespace", "(namespace = $"),
        ("!env", "job_namespace", "(namespace = $"),
        ("env!=prod", "job_namespace", "(namespace = $"),
        ("env=prod", "label_value", "(value = $"),
        ("env=prod,!absent,team!=x", "label_value", "(value = $"),
        ("n>5,env=prod", "label_value", "(value = $"),
        ("env in (prod,dev,x)", "label_value", "(value = $"),
        ("env", "label_time", "(key = $"),
        ("n>5", "label_time", "(key = $"),
        ("env in (a,b,c,d,e,f,g,h,i)", "label_time", "(key = $"),
    ] {
        for reverse in [false, true] {
            let mut query = query(labels, JobOrder::CreateTime);
            (query.reverse, query.after) = (reverse, Some(after));
            let plan = plan_of(reader, &query, 0);
            assert!(uses(&plan, index) && plan.contains(condition), "{labels}: {plan}");
            let beyond = if reverse { "<" } else { ">" };
            let beyond = format!("(ROW(create_time, id) {beyond} ROW($");
            assert!(plan.contains(&beyond), "{labels} does not begin at its position: {plan}");
            assert!(!plan.contains("->  Sort"), "{labels}: {plan}");
        }
    }
}

fn a_walk_by_change_sorts_nothing(reader: &mut Reader, after: JobPosition) {
    for labels in ["", "!env", "env", "env=prod", "n>5", "env=prod,!absent,team!=x"] {
        for (reverse, beyond) in [(false, ">"), (true, "<")] {
            for after in [None, Some(after)] {
                let query = JobQuery { reverse, after, ..query(labels, JobOrder::ModifyTime) };
                let plan = plan_of(reader, &query, 0);
                assert!(uses(&plan, "job_modified") && !plan.contains("->  Sort"), "{plan}");
                let beyond = format!("(ROW(modify_time, id) {beyond} ROW($");
                assert!(after.is_none() || plan.contains(&beyond), "{labels}: {plan}");
            }
        }
    }
}

fn a_walk_by_id_sorts_nothing(reader: &mut Reader, after: JobPosition) {
    for (labels, index) in [
        ("", "job_id"),
        ("!env", "job_id"),
        ("env", "label_pkey"),
        ("env!=prod,env", "label_pkey"),
        ("env=prod", "label_pkey"),
        ("env=prod,!absent,team!=x", "label_pkey"),
        ("env in (a,b,c,d,e,f,g,h,i)", "label_pkey"),
        ("n>5", "label_pkey"),
    ] {
        for after in [None, Some(after)] {
            let query = JobQuery { after, ..query(labels, JobOrder::Id) };
            let plan = plan_of(reader, &query, 0);
            assert!(uses(&plan, index) && !plan.contains("->  Sort"), "{labels}: {plan}");
            assert!(after.is_none() || plan.contains("(id > $"), "{labels}: {plan}");
        }
    }
}

fn a_rare_filter_leads_to_its_jobs(reader: &mut Reader) {
    for order in [JobOrder::CreateTime, JobOrder::ModifyTime, JobOrder::Id] {
        let with = |change: &dyn Fn(&mut JobQuery)| {
            let mut query = query("env", order);
            change(&mut query);
            query
        };
        for (query, index, condition) in [
            (query("env,env=rare", order), "label_value", "(value = $"),
            (query("env,n>9223372036854775800", order), "label_integer", "(\"integer\" > $"),
            (
                with(&|q| q.namespaces = Namespaces::one("absent")),
                "job_namespace",
                "(namespace = $",
            ),
            (with(&|q| q.name = Some("absent".to_owned())), "job_name", "(name = $"),
            (with(&|q| q.name_prefix = Some("absent".to_owned())), "job_stem", "(stem >= $"),
            (with(&|q| q.states = vec![JobStateType::Queued]), "job_state", "(state = $"),
        ] {
            let plan = plan_of(reader, &query, COUNTED);
            assert!(uses(&plan, index) && plan.contains(condition), "{query:?}: {plan}");
        }
    }
}

/// Every other statement of a reader, as it was prepared.
fn every_statement_walks_an_index(reader: &mut Reader) {
    run_everything(reader);
    let statements = reader.statements();
    for sql in statements.iter().filter(|sql| !sql.starts_with("EXPLAIN")) {
        let plan = plan(reader, sql);
        assert!(!plan.contains("Seq Scan"), "{sql}: {plan}");
        assert!(!plan.contains("Bitmap") && !plan.contains("Hash Join"), "{sql}: {plan}");
        // What no index has in order: executions of one job, and at most a page of anything else.
        let is_small = sql.contains("w.place") || sql.contains("graph_job");
        let is_of_a_job = sql.contains("FROM execution") || sql.contains("e.modify_time");
        assert!(!plan.contains("Sort  ") || is_small || is_of_a_job, "{sql}: {plan}");
        for (part, index) in INDEXES {
            assert!(!sql.contains(part) || uses(&plan, index), "{sql}: {plan}");
        }
    }
}

/// A part of a statement, and the index that it walks.
const INDEXES: [(&str, &str); 14] = [
    ("FROM execution WHERE job = (SELECT", "execution_job"),
    ("AS e ON e.job = j.number", "execution_job"),
    ("WHERE e.live = 1 AND e.number", "execution_live"),
    ("WHERE e.id BETWEEN", "execution_id"),
    ("WHERE j.id BETWEEN", "job_id"),
    ("FROM event WHERE job = (SELECT", "event_job"),
    ("WHERE e.job = $1 AND e.seq", "event_job"),
    ("WHERE e.seq > $1", "event_pkey"),
    ("WHERE job <= 0 AND node", "event_node"),
    ("FROM published WHERE job", "published_pkey"),
    ("FROM audit WHERE sequence", "audit_pkey"),
    ("FROM graph WHERE namespace", "graph_namespace"),
    ("SELECT number, ended_at FROM job_run WHERE live = 0", "job_ended"),
    ("(SELECT 1 FROM job_run WHERE live = 0 AND named = 0 AND", "job_ended_namespace"),
];

fn run_everything(reader: &mut Reader) {
    let names = Namespaces::one("default");
    let job = JobId::from_uuid(Uuid::from_u128(1));
    let execution = ExecutionId::from_uuid(Uuid::from_u128(1));
    let node = NodeId::from_uuid(Uuid::from_u128(1));
    let prefix = IdPrefix { low: Uuid::nil(), high: Uuid::max() };
    for namespaces in [Namespaces::All, names.clone()] {
        names::find_jobs(reader, prefix, &namespaces, 10).unwrap();
        names::find_executions(reader, prefix, &namespaces, 10).unwrap();
        names::jobs_within(reader, &[job], &namespaces).unwrap();
        graphs::graphs(reader, &graph_query(&namespaces)).unwrap();
        let search = SearchQuery { text: "b".to_owned(), namespaces: namespaces.clone(), limit: 5 };
        search::jobs(reader, &search, &WINDOW).unwrap();
        for (node, reverse) in [(None, false), (Some(node), true)] {
            let namespaces = namespaces.clone();
            let live = LiveExecutionsQuery { namespaces, node, reverse, after: None, limit: 10 };
            executions::live(reader, &live).unwrap();
        }
    }
    for order in [ExecutionOrder::ModifyTime, ExecutionOrder::Id, ExecutionOrder::Index] {
        let (states, slots) = (Vec::new(), None);
        let query =
            ExecutionQuery { job, order, reverse: false, states, slots, after: None, limit: 10 };
        executions::executions(reader, &query).unwrap();
    }
    executions::failures(reader, job, 10).unwrap();
    executions::execution(reader, execution).unwrap();
    executions::tail(reader, execution).unwrap();
    executions::curve(reader, execution).unwrap();
    executions::curves(reader, job, 10).unwrap();
    outcomes::of_job(reader, job).unwrap();
    outcomes::slot_nodes(reader, job).unwrap();
    results::results(reader, &ResultQuery { job, after: None, limit: 10 }).unwrap();
    jobs::job(reader, job).unwrap();
    jobs::summary(reader, job).unwrap();
    jobs::specification(reader, job, 1).unwrap();
    jobs::totals(reader).unwrap();
    names::namespace_of(reader, job).unwrap();
    names::has_jobs(reader, "absent").unwrap();
    names::names(reader, &[job].into(), &[execution].into()).unwrap();
    graphs::graph(reader, GraphId::from_uuid(Uuid::nil())).unwrap();
    cluster_load::since(reader, Timestamp(1)).unwrap();
    run_events(reader, job, node);
}

fn graph_query(namespaces: &Namespaces) -> GraphQuery {
    GraphQuery { namespaces: namespaces.clone(), name: None, after: None, limit: 10 }
}

fn run_events(reader: &mut Reader, job: JobId, node: NodeId) {
    let since = Timestamp(1);
    for of in [None, Some(job)] {
        let query = EventsQuery {
            after: 1,
            job: of,
            namespaces: Namespaces::All,
            event_type: None,
            since,
            limit: 10,
        };
        events::events(reader, &query).unwrap();
    }
    let query = HistoryQuery {
        job,
        since,
        event_type: None,
        execution: None,
        node: Some(node),
        after: None,
        limit: 10,
    };
    events::history(reader, &query).unwrap();
    events::node_history(reader, &NodeHistoryQuery { node, since, after: None, limit: 10 })
        .unwrap();
    let query = AuditQuery {
        chain: api_types::audit::AuditChain::Changes,
        since,
        user: Some("me".to_owned()),
        operation: None,
        reverse: true,
        after: None,
        limit: 10,
    };
    audit::records(reader, &query).unwrap();
}

fn check(jobs: u32) -> Option<(TestDatabase, Reader)> {
    let (database, mut reader) = fill(jobs)?;
    let after = middle(jobs);
    a_walk_by_creation_sorts_nothing(&mut reader, after);
    a_walk_by_change_sorts_nothing(&mut reader, after);
    a_walk_by_id_sorts_nothing(&mut reader, after);
    a_rare_filter_leads_to_its_jobs(&mut reader);
    every_statement_walks_an_index(&mut reader);
    Some((database, reader))
}

#[test]
fn every_list_of_a_hundred_jobs_walks_its_index() {
    check(100);
}

/// Also prints how long the pages take.
#[test]
#[ignore = "long"]
fn every_list_of_a_million_jobs_walks_its_index() {
    const JOBS: u32 = 1_000_000;
    let Some((_database, mut reader)) = check(JOBS) else { return };
    for labels in ["", "env=prod", "team=t7", "env,team=t7", "n>999900", "env=prod,!absent"] {
        for order in [JobOrder::CreateTime, JobOrder::ModifyTime, JobOrder::Id] {
            let query = JobQuery { after: Some(middle(JOBS)), ..query(labels, order) };
            let began = Instant::now();
            let found = jobs::summaries(&mut reader, &query).unwrap().items.len();
            let took = began.elapsed();
            println!("{labels:20} {order:?}: {found} jobs in {took:?}");
            assert!(took < Duration::from_secs(1), "{labels} {order:?}: {took:?}");
        }
    }
}
