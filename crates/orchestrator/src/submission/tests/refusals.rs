//! Every refusal of a submission in one table: a call of `refuse` or `take` without a row fails.
//!
//! Reasons are texts, so the compiler cannot keep the table whole. Each call notes where it is, and
//! the places are compared with those in the source code.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use api_types::testing::flaw;

use super::*;
use crate::submission::findings::REFUSED;
use crate::submission::graph::accept_graph;

/// Characters of a reason that the table shows: some echo what is too long.
const SHOWN_CHARS: usize = 200;

/// Calls whose receiver is the findings.
const CALLS: [&str; 4] = ["findings.refuse(", "findings.take(", "self.refuse(", "    .refuse("];

/// Of some job.
const AN_ID: &str = "j-00000000-0000-4000-8000-000000000001";

/// Files of the checks, below `src`.
const FOLDER: &str = "submission";

/// The places in the source code where something is refused.
fn places() -> BTreeSet<(String, u32)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join(FOLDER).with_extension("rs")];
    let mut folders = vec![source.join(FOLDER)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("read a folder") {
            let path = entry.expect("read an entry").path();
            let name = path.file_stem().expect("a name");
            match (name.to_str(), path.is_dir()) {
                // The findings themselves, and what is not a check.
                (Some("findings" | "tests"), _) => {}
                (_, true) => folders.push(path),
                (_, false) => files.push(path),
            }
        }
    }
    let mut places = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("read a file");
        let name = file.strip_prefix(&source).expect("below the folder").display().to_string();
        for (number, line) in (1..).zip(text.lines()) {
            if CALLS.iter().any(|call| line.contains(call)) {
                places.insert((name.clone(), number));
            }
        }
    }
    places
}

fn docker(params: Value) -> Value {
    let params = merged(json!({ "Image": "i" }), params);
    task(json!({ "Engine": { "Type": "docker", "Params": params } }))
}

fn wasm(params: Value) -> Value {
    task(json!({ "Engine": { "Type": "wasm", "Params": params } }))
}

fn module(source: Value) -> Value {
    wasm(json!({ "EntryModule": { "Source": source } }))
}

fn input(fields: Value) -> Value {
    let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    let input = merged(json!({ "Source": source, "Target": "/inputs/a" }), fields);
    task(json!({ "InputSources": [input] }))
}

fn targets(targets: [&str; 2]) -> Value {
    let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    let inputs = targets.map(|target| json!({ "Source": source, "Target": target }));
    task(json!({ "InputSources": inputs }))
}

fn source(kind: &str, params: Value) -> Value {
    input(json!({ "Source": { "Type": kind, "Params": params } }))
}

fn result(name: &str, path: &str) -> Value {
    task(json!({ "ResultPaths": [{ "Name": name, "Path": path }] }))
}

fn secrets(secrets: Value) -> Value {
    task(json!({ "Secrets": secrets }))
}

fn published(kind: &str, count: u32, params: Value) -> Value {
    let job = task(json!({ "Publisher": { "Type": kind, "Params": params } }));
    merged(job, json!({ "Count": count }))
}

fn constraint(key: &str, operator: &str) -> Value {
    json!({ "Key": key, "Operator": operator, "Values": ["a"] })
}

fn map_of(entries: usize) -> Value {
    let entries = (0..entries).map(|number| (format!("key{number}"), json!("")));
    Value::Object(entries.collect())
}

fn of_a_job() -> Vec<Value> {
    let main = plain()["Tasks"][0].clone();
    let values: Vec<_> = (0..257).map(|number| number.to_string()).collect();
    vec![
        job(json!({ "Type": "" })),
        job(json!({ "Type": "weekly" })),
        job(json!({ "Type": "service", "ID": "mine" })),
        job(json!({ "Priority": 101 })),
        job(json!({ "Count": -1 })),
        job(json!({ "Count": 1_000_001 })),
        job(json!({ "MaxRunning": -1 })),
        job(json!({ "Type": "service", "MaxRunning": 1 })),
        job(json!({ "MaxFailed": -2 })),
        job(json!({ "Type": "service", "MaxFailed": 1 })),
        job(json!({ "DependsOn": vec![json!({}); 21] })),
        job(
            json!({ "DependsOn": [{}, { "JobID": "x" }, { "JobID": AN_ID, "Condition": "Ready" }] }),
        ),
        job(json!({ "DependsOn": [{ "JobID": AN_ID }, { "JobID": AN_ID }] })),
        job(json!({ "DependsOn": [{ "JobID": AN_ID, "Indexes": "Some" }] })),
        job(json!({ "Type": "ops", "DependsOn": [
            { "JobID": AN_ID, "Indexes": "Same", "Condition": "Ended" },
        ] })),
        job(json!({ "ConcurrencyGroups": ["a", "b", "c", "d", "e", "f", "g", "h", "i"] })),
        job(json!({ "Type": "service", "ConcurrencyGroups": ["db"] })),
        job(json!({ "ConcurrencyGroups": ["-db"] })),
        job(json!({ "ConcurrencyGroups": ["db", "db"] })),
        job(json!({ "ConcurrencyGroups": ["db"], "OnConflict": "Fight" })),
        job(json!({ "ConcurrencyGroups": ["a", "b"], "OnConflict": "Replace" })),
        job(json!({ "Name": " " })),
        job(json!({ "Name": "x".repeat(256) })),
        job(json!({ "Name": "a\nb" })),
        job(json!({ "Namespace": "*" })),
        job(json!({ "Namespace": "x".repeat(129) })),
        job(json!({ "Namespace": "a b" })),
        job(json!({ "Labels": map_of(1025) })),
        job(json!({ "Labels": { " ": "", "a=b": "" } })),
        job(json!({ "Labels": { "long": "x".repeat(1025) } })),
        job(json!({ "Meta": { "a\tb": "" } })),
        job(json!({ "Constraints": vec![constraint("zone", "="); 65] })),
        job(json!({ "Constraints": [{ "Key": "a", "Operator": "in", "Values": values }] })),
        job(json!({ "Constraints": [constraint("", ""), constraint("zone", "~")] })),
        job(json!({ "RetryPolicy": { "Attempts": -1 } })),
        job(json!({ "RetryPolicy": { "Delay": 5, "MaxDelay": 4 } })),
        job(json!({ "Tasks": [] })),
        job(json!({ "Tasks": [main, main] })),
    ]
}

fn of_a_task() -> Vec<Value> {
    let many = |number: usize| {
        let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
        let one = |at| json!({ "Source": source, "Target": format!("/inputs/{at}") });
        (0..number).map(one).collect::<Vec<_>>()
    };
    let results = |number: usize| {
        let one = |at| json!({ "Name": format!("out{at}"), "Path": format!("/out/{at}") });
        (0..number).map(one).collect::<Vec<_>>()
    };
    let twice = json!({ "Name": "out", "Path": "/out" });
    let prefix = json!({ "Type": "s3", "Params": { "Bucket": "b", "Key": "a/" } });
    let prefix = json!({ "Source": prefix, "Target": "/inputs/" });
    let network = |fields: Value| task(json!({ "Network": fields }));
    vec![
        task(json!({ "Name": "" })),
        task(json!({ "Engine": { "Type": "" } })),
        task(json!({ "Engine": { "Type": "podman" } })),
        task(json!({ "Publisher": { "Type": "ftp" } })),
        task(json!({ "InputSources": many(65) })),
        input(json!({ "Target": "" })),
        input(json!({ "Alias": "a/b" })),
        input(json!({ "Source": {} })),
        input(json!({ "Source": { "Type": "ftp" } })),
        source("s3", json!({ "Bucket": "b", "Key": "a/", "VersionID": "1" })),
        source("s3", json!({ "Bucket": "b", "Key": "k", "Filter": "x".repeat(1025) })),
        source("s3", json!({ "Bucket": "b", "Key": "k", "Filter": "(" })),
        source("inline", json!({ "URL": "data:;base64,?" })),
        source("inline", json!({ "URL": "https://host/a" })),
        source("urldownload", json!({ "URL": "ftp://host/a" })),
        source("repoclone", json!({ "Repo": "host/a" })),
        source("job", json!({})),
        source("job", json!({ "JobID": AN_ID })),
        source("job", json!({ "JobID": "x" })),
        source("job", json!({ "JobID": AN_ID, "Path": "../x", "Index": -1 })),
        source("job", json!({ "JobID": AN_ID, "Path": "x/".repeat(129) })),
        merged(source("job", json!({ "JobID": AN_ID, "Index": "Same" })), json!({ "Type": "ops" })),
        task(json!({ "ResultPaths": results(65) })),
        result("", ""),
        result("a/b", "/out"),
        result("stdout", "/out"),
        task(json!({ "ResultPaths": [twice, twice] })),
        result("out", "/dev/shm/out"),
        result("out", "/proc/self"),
        result("out", "out"),
        result("out", &format!("/{}", "x/".repeat(2048))),
        result("out", "/out/../etc"),
        result("out", "/a\tb"),
        result("out", &format!("/{}", "x".repeat(256))),
        result("out", "/"),
        targets(["/inputs", "/inputs"]),
        targets(["/inputs", "/inputs/a"]),
        targets(["/inputs/a", "/inputs"]),
        targets(["/inputs/", "/inputs/"]),
        task(json!({ "InputSources": [prefix, prefix] })),
        task(json!({ "Resources": { "CPU": "1" }, "ResourcesConfig": { "CPU": "2" } })),
        task(json!({ "Resources": { "CPU": "much", "Memory": "0" } })),
        network(json!({ "Type": "Host" })),
        network(json!({ "Type": "HTTP" })),
        network(json!({ "Type": "None", "Domains": ["a.example"] })),
        network(json!({ "Type": "HTTP", "Domains": vec!["a.example"; 257] })),
        network(json!({ "Type": "HTTP", "Domains": ["a b"] })),
        task(json!({ "Timeouts": { "ExecutionTimeout": -1 } })),
        secrets(vec![json!({ "Name": "db", "Env": "A" }); 65].into()),
        secrets(json!([{ "Name": "a", "Path": "/run/a" }, { "Name": "b", "Path": "/run/a/b" }])),
        secrets(json!([{ "Name": "a", "Env": "A" }, { "Name": "b", "Env": "A" }])),
        secrets(json!([{ "Name": "" }, { "Name": "a b" }])),
        secrets(json!([{ "Name": "a", "Path": "/run/a/" }])),
        secrets(json!([{ "Name": "a", "Path": "/run/a", "Env": "A" }])),
        secrets(json!([{ "Name": "a", "Env": "A=B" }])),
    ]
}

fn of_params() -> Vec<Value> {
    let text = "x".repeat(131_072);
    let inline = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    let s3 = |key: &str| json!({ "Bucket": "b", "Key": key });
    vec![
        docker(json!({ "Image": "" })),
        docker(json!({ "Image": "Upper" })),
        docker(json!({ "Credentials": "a b" })),
        docker(json!({ "PullPolicy": "sometimes" })),
        docker(json!({ "Parameters": vec!["x"; 4097] })),
        docker(json!({ "EnvironmentVariables": ["A"] })),
        docker(json!({ "Entrypoint": "sh" })),
        docker(json!({ "Parameters": [text] })),
        docker(json!({ "Parameters": vec![&text[1..]; 16] })),
        task(json!({ "Engine": { "Type": "noop", "Params": { "FailEvery": 0 } } })),
        module(json!(null)),
        module(json!({ "Type": "ftp" })),
        module(json!({ "Params": {} })),
        module(json!({ "Type": "job", "Params": { "JobID": AN_ID } })),
        wasm(json!({ "EntryModule": { "Source": inline }, "Parameters": {} })),
        published("s3", 1, s3("dir/")),
        published("s3", 1, s3("{job}")),
        published("s3", 2, s3("key")),
    ]
}

fn of_a_graph() -> Vec<Value> {
    let after = |name: &str| job(json!({ "DependsOn": [{ "Job": name }] }));
    let many = |number: usize| -> serde_json::Map<String, Value> {
        (0..number).map(|at| (format!("j{at}"), job(json!({})))).collect()
    };
    // Each of 251 jobs depends on 20 of the others.
    let mut dense = many(271);
    for at in 20..271 {
        let named: Vec<_> = (at - 20..at).map(|on| json!({ "Job": format!("j{on}") })).collect();
        dense[&format!("j{at}")] = job(json!({ "DependsOn": named }));
    }
    let chain = (0..30).map(|at| (format!("j{at:02}"), after(&format!("j{:02}", (at + 1) % 30))));
    vec![
        json!({ "Jobs": {} }),
        json!({ "Jobs": many(1001) }),
        json!({ "Jobs": { " a": job(json!({ "ID": "mine" })) } }),
        json!({ "Jobs": { "a": after("b"), "b": job(json!({ "Count": -1 })) } }),
        json!({ "Jobs": { "a": job(json!({ "DependsOn": [{}] })) } }),
        json!({ "Jobs": { "a": after("c") } }),
        json!({ "Jobs": { "a": job(json!({})), "b": job(json!({ "Namespace": "other" })) } }),
        json!({ "Jobs": { "a": after("b"), "b": job(json!({ "Type": "service" })) } }),
        json!({ "Jobs": { "a": after("b"), "b": after("c"), "c": after("b") } }),
        json!({ "Jobs": {
            "a": job(json!({ "Count": 2, "DependsOn": [{ "Job": "b", "Indexes": "Same" }] })),
            "b": job(json!({ "Count": 3 })), "c": job(json!({ "Type": "ops" })),
            "d": job(json!({ "DependsOn": [{ "Job": "c", "Indexes": "Same" }] })),
        } }),
        json!({ "Jobs": chain.collect::<serde_json::Map<_, _>>() }),
        json!({ "Jobs": dense }),
    ]
}

fn problems_of_graph(graph: &Value) -> Vec<String> {
    let (id, mut last) = (api_types::GraphId::from_uuid(Uuid::from_u128(1)), 0);
    let mint = || {
        last += 1;
        JobId::from_uuid(Uuid::from_u128(last))
    };
    match accept_graph(graph.to_string().as_bytes(), id, mint, &requester()) {
        Err(Rejected::Invalid(problems)) => problems
            .into_iter()
            .map(|FieldError { path, reason }| format!("{path}: {reason}"))
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// More expressions than compile in time; which is the first beyond that differs.
fn many_filters() -> Value {
    let source = |at: usize| {
        let filter = format!(r"(?:[\pL\pN]{{{}}}|\w{{{at}}})x", 40 + at);
        json!({ "Type": "s3", "Params": { "Bucket": "b", "Key": "a/*", "Filter": filter } })
    };
    let one = |at| json!({ "Source": source(at), "Target": format!("/inputs/{at}") });
    task(json!({ "InputSources": (0..64).map(one).collect::<Vec<_>>() }))
}

#[test]
fn every_refusal_is_in_the_table() {
    REFUSED.take();
    let mut table = String::new();
    for (what, rows) in
        [("the job", of_a_job()), ("its task", of_a_task()), ("Params", of_params())]
    {
        let _ = writeln!(table, "# {what}");
        for row in rows {
            for problem in problems(&row) {
                assert_eq!(flaw(&problem), None, "{problem}");
                let _ = writeln!(table, "{}", json::shorten(problem, SHOWN_CHARS));
            }
        }
    }
    let _ = writeln!(table, "# the graph");
    for problem in of_a_graph().iter().flat_map(problems_of_graph) {
        assert_eq!(flaw(&problem), None, "{problem}");
        let _ = writeln!(table, "{}", json::shorten(problem, SHOWN_CHARS));
    }
    problems(&many_filters());
    let _ = accept_text("{}");
    insta::assert_snapshot!(table);
    let places = places();
    assert!(places.len() > 50, "the checks have moved; this test has to follow");
    let missing: Vec<_> = places.difference(&REFUSED.take()).cloned().collect();
    assert!(missing.is_empty(), "refusals without a row in this table: {missing:#?}");
}
