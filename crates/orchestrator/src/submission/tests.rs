//! Submissions: what is accepted, what is stored, and everything that is refused.

mod limits;
mod paths;
mod refusals;
mod task;

use api_types::job::generated_name;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

fn requester() -> Requester {
    Requester { id: "n-1".to_owned(), public_key: "key".to_owned() }
}

fn minted() -> JobId {
    JobId::from_uuid(Uuid::from_u128(0xabc))
}

fn accept_text(body: &str) -> Result<Accepted, Rejected> {
    accept(body.as_bytes(), minted(), &requester(), Regexes::Compile)
}

fn accept_job(job: &Value) -> Accepted {
    accept_text(&json!({ "Job": job }).to_string()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Every problem as `path: reason`.
fn problems(job: &Value) -> Vec<String> {
    match accept_text(&json!({ "Job": job }).to_string()) {
        Err(Rejected::Invalid(problems)) => problems
            .into_iter()
            .map(|problem| format!("{}: {}", problem.path, problem.reason))
            .collect(),
        other => panic!("{job} resulted in {other:?}"),
    }
}

/// The same, or none if it is accepted.
fn problems_or_none(job: &Value) -> Vec<String> {
    let accepted = accept_text(&json!({ "Job": job }).to_string()).is_ok();
    if accepted { Vec::new() } else { problems(job) }
}

fn plain() -> Value {
    json!({
        "Type": "batch",
        "Tasks": [{ "Name": "main", "Engine": { "Type": "docker", "Params": { "Image": "i" } } }],
    })
}

fn job(fields: Value) -> Value {
    merged(plain(), fields)
}

fn task(fields: Value) -> Value {
    let mut job = plain();
    let task = job["Tasks"][0].take();
    job["Tasks"][0] = merged(task, fields);
    job
}

fn merged(mut base: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    base.as_object_mut().unwrap().extend(fields);
    base
}

#[test]
fn a_job_without_a_name_is_named_after_what_it_runs() {
    let digits = &minted().to_string()[2..6];
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    for (image, stem) in [
        ("busybox", "busybox"),
        ("ghcr.io/acme/render:2.4", "render"),
        (&*format!("registry:5000/render@{digest}"), "render"),
        (&*format!("a/b:1@{digest}"), "b"),
    ] {
        let job = task(json!({ "Engine": { "Type": "docker", "Params": { "Image": image } } }));
        assert_eq!(accept_job(&job).spec.name, format!("{stem}-{digits}"), "{image}");
    }
    let url = json!({ "URL": "https://h/secret.wasm" });
    let module = json!({ "Source": { "Type": "urldownload", "Params": url } });
    let engine = json!({ "Engine": { "Type": "wasm", "Params": { "EntryModule": module } } });
    assert_eq!(accept_job(&task(engine)).spec.name, format!("wasm-{digits}"));
    assert_eq!(accept_job(&merged(plain(), json!({ "Name": "x" }))).spec.name, "x");
}

#[test]
fn everything_has_a_default() {
    let accepted = accept_job(&plain());
    let expected = json!({
        "Name": generated_name("i", minted()), "Namespace": "default", "Type": "batch", "Priority": 50,
        "Count": 1, "Constraints": [], "Labels": {},
        "Meta": { "service.org/requester.id": "n-1", "service.org/requester.publicKey": "key" },
        "RetryPolicy": { "Attempts": 1, "Delay": 1, "MaxDelay": 60 },
        "Tasks": [{
            "Name": "main", "Engine": { "Type": "docker", "Params": { "Image": "i" } },
            "Publisher": { "Type": "", "Params": {} }, "Env": {}, "Meta": {}, "InputSources": [],
            "ResultPaths": [], "Resources": { "CPU": "", "Memory": "", "Disk": "", "GPU": "" },
            "Network": { "Type": "None" },
            "Timeouts": {
                "ExecutionTimeout": 0, "QueueTimeout": 0, "TotalTimeout": 0, "LostAfter": 0,
            },
        }],
    });
    assert_eq!(serde_json::from_str::<Value>(&accepted.spec_json).unwrap(), expected);
    assert_eq!(serde_json::to_value(&accepted.spec).unwrap(), expected);
    assert_eq!((accepted.id, accepted.id_given), (minted(), false));
    assert_eq!(accepted.warnings, Vec::<String>::new());
}

#[test]
fn empty_and_null_fields_have_their_default_too() {
    let filled = merged(
        plain(),
        json!({
            "ID": "", "Name": "", "Namespace": "", "Priority": null, "Count": 0,
            "Constraints": null, "Meta": null, "Labels": null, "RetryPolicy": null,
            "MaxFailed": null, "State": null,
        }),
    );
    assert_eq!(accept_job(&filled).spec, accept_job(&plain()).spec);
    let task = task(json!({
        "Publisher": { "Type": "", "Params": null }, "Env": null, "InputSources": null,
        "ResultPaths": null, "Resources": {}, "Network": { "Type": "" }, "Timeouts": {},
    }));
    assert_eq!(accept_job(&task).spec, accept_job(&plain()).spec);
}

#[test]
fn amounts_that_mean_something_else_are_warned_of() {
    let warnings = |job: &Value| accept_job(job).warnings;
    let with = |resources: Value| warnings(&task(json!({ "Resources": resources })));
    assert_eq!(
        with(json!({ "Memory": "512" })),
        [
            "Memory 512 is 512 bytes, and a container gets at least 6.2 MB; write '512MB' for megabytes"
        ]
    );
    assert_eq!(with(json!({ "Disk": "20" })), ["Disk 20 is 20 bytes; write '20MB' for megabytes"]);
    for plain in ["512MB", "512000000", "1Gi"] {
        assert_eq!(
            with(json!({ "Memory": plain, "Disk": plain })),
            Vec::<String>::new(),
            "{plain}"
        );
    }
    assert_eq!(
        warnings(&job(json!({ "Count": 0 }))),
        ["Count 0 is taken as 1; leave it out for one execution"]
    );
}

#[test]
fn keys_match_in_any_case_except_in_maps() {
    let accepted = accept_text(
        r#"{"job":{"TYPE":"Batch","labels":{"Zone":"a"},"tasks":[{"name":"main",
            "ENGINE":{"type":"Docker","params":{"Image":"i","image":"j"}},
            "resourcesconfig":{"cpu":"500m"}}]}}"#,
    )
    .unwrap();
    let task = &accepted.spec.tasks[0];
    assert_eq!(accepted.spec.labels["Zone"], "a");
    assert_eq!(task.engine.params["Image"], "i");
    assert_eq!(task.resources.cpu, "500m");
    assert_eq!(
        accepted.warnings,
        ["Tasks[0].Engine.Params.image is not a known field and was ignored"]
    );
}

#[test]
fn fields_of_the_service_are_ignored_with_a_warning() {
    let accepted = accept_job(&job(json!({
        "ID": "anything", "State": { "StateType": "Completed" }, "Version": 9, "Revision": "x",
        "CreateTime": 5, "ModifyTime": [], "Foo": 1,
        "Meta": { "service.org/requester.id": "me", "mine": "x" },
    })));
    assert_eq!(
        accepted.warnings,
        [
            "Foo is not a known field and was ignored",
            "State is set by the service; the value was ignored",
            "Version is set by the service; the value was ignored",
            "Revision is set by the service; the value was ignored",
            "CreateTime is set by the service; the value was ignored",
            "ModifyTime is set by the service; the value was ignored",
            "ID is assigned by the service for batch jobs; the value was ignored",
            "Meta.service.org/requester.id is set by the service; the value was ignored",
        ]
    );
    assert_eq!(accepted.spec.meta["service.org/requester.id"], "n-1");
    assert_eq!(accepted.spec.meta["mine"], "x");
    assert_eq!(accepted.id, minted());
}

#[test]
fn service_and_daemon_jobs_may_choose_their_id() {
    let id = "j-12ab34cd-0000-4000-8000-0123456789ab";
    for job_type in ["service", "daemon"] {
        let accepted = accept_job(&job(json!({ "Type": job_type, "ID": id })));
        assert_eq!((accepted.id.to_string().as_str(), accepted.id_given), (id, true));
        assert_eq!(accepted.spec.name, "i-12ab");
        assert_eq!(accepted.spec.retry_policy.attempts, 0, "without limit");
    }
    assert_eq!(
        problems(&job(json!({ "Type": "service", "ID": "mine" }))),
        ["ID: 'mine' is not a job ID: it is 'j-' followed by a UUID"]
    );
}

#[test]
fn ops_and_daemon_jobs_ignore_a_count() {
    for job_type in ["ops", "daemon"] {
        let accepted = accept_job(&job(json!({ "Type": job_type, "Count": 3 })));
        assert_eq!(accepted.spec.count, 1);
        let warning =
            format!("Count 3 was ignored: {job_type} jobs run once on every matching node");
        assert_eq!(accepted.warnings, [warning]);
    }
    assert_eq!(accept_job(&job(json!({ "Count": 1_000_000 }))).spec.count, 1_000_000);
}

#[test]
fn one_response_lists_every_problem() {
    let wrong = json!({
        "Type": "weekly", "Count": "two", "Priority": 101, "Labels": { "a b": "c" },
        "Constraints": [{ "Key": "zone", "Operator": "in" }, { "Operator": "exists" }],
        "Tasks": [{
            "Engine": { "Type": "podman" },
            "Env": { "A": 1 },
            "Timeouts": { "ExecutionTimeout": -1 },
            "Resources": { "CPU": "much", "Memory": 512 },
        }],
    });
    assert_eq!(
        problems(&wrong),
        [
            "Count: expected a 64-bit integer, got the string \"two\"",
            "Tasks[0].Env.A: expected a string, got the number 1",
            "Tasks[0].Resources.Memory: expected a string, got the number 512",
            "Type: 'weekly' is not a job type; known: batch, ops, service, daemon",
            "Labels.a b: a label's key must not contain white space or any of = ! < > , ( )",
            "Priority: must be between 0 and 100, got 101",
            "Constraints[0]: operator 'in' takes at least one value",
            "Constraints[1].Key: is required",
            "Tasks[0].Name: is required",
            "Tasks[0].Engine.Type: 'podman' is not an engine; known: docker, wasm, noop",
            "Tasks[0].Resources.CPU: 'much' is not an amount of CPU: cores like '0.5' and '2', or \
             millicores like '500m'",
            "Tasks[0].Timeouts.ExecutionTimeout: must be whole seconds between 0 (none) and \
             3153600000, got -1",
        ]
    );
}

#[test]
fn an_unreadable_field_is_not_also_reported_as_missing() {
    assert_eq!(problems(&json!(5)), ["Job: expected an object, got the number 5"]);
    assert_eq!(problems(&job(json!({ "Tasks": {} }))), ["Tasks: expected an array, got an object"]);
    assert_eq!(
        problems(&job(json!({ "Tasks": [null] }))),
        ["Tasks[0]: expected an object, got null"]
    );
    assert_eq!(
        problems(&task(json!({ "Engine": [] }))),
        ["Tasks[0].Engine: expected an object, got an array"]
    );
}

#[test]
fn a_body_without_a_job_is_refused_with_the_expected_shape() {
    for body in ["{}", r#"{"Job":null}"#, r#"{"Type":"batch"}"#] {
        let Err(Rejected::Invalid(problems)) = accept_text(body) else { panic!("{body}") };
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].reason, "is required: the body is {\"Job\": {…}}");
    }
    let Err(Rejected::Invalid(problems)) = accept_text("[]") else { panic!("a list is no body") };
    assert_eq!(problems[0].reason, "expected an object, got an array");
    assert!(matches!(accept_text("{"), Err(Rejected::Malformed(_))));
}

#[test]
fn exactly_one_task_is_accepted() {
    assert_eq!(problems(&job(json!({ "Tasks": [] }))), ["Tasks: is required: exactly one task"]);
    let one = plain()["Tasks"][0].clone();
    assert_eq!(
        problems(&job(json!({ "Tasks": [one, one] }))),
        ["Tasks: must be exactly one, got 2"]
    );
}

#[test]
fn fields_of_a_job_are_checked() {
    let long = "x".repeat(256);
    for (fields, problem) in [
        (json!({ "Type": "" }), "Type: is required; known: batch, ops, service, daemon"),
        (json!({ "Count": -1 }), "Count: must not be negative, got -1"),
        (json!({ "Count": 1_000_001 }), "Count: must not be above 1000000, got 1000001"),
        (json!({ "Priority": -1 }), "Priority: must be between 0 and 100, got -1"),
        (json!({ "Name": "a\nb" }), "Name: must not contain control characters"),
        (json!({ "Name": "a\u{202e}b" }), "Name: must not contain control characters"),
        (
            json!({ "Labels": { "a\u{2066}b": "" } }),
            "Labels.a\u{2066}b: a key must not contain control characters",
        ),
        (json!({ "Name": "a\u{0}b" }), "Name: must not contain the NUL character"),
        (json!({ "Name": " " }), "Name: must not be blank"),
        (json!({ "Name": long }), "Name: must not be longer than 255 bytes"),
        (
            json!({ "Namespace": "*" }),
            "Namespace: '*' stands for all namespaces and cannot be the name of one",
        ),
        (
            json!({ "Namespace": "a b" }),
            "Namespace: must not contain white space or control characters",
        ),
        (json!({ "Meta": { "": "x" } }), "Meta.: a key must not be blank"),
        (
            json!({ "RetryPolicy": { "Attempts": -1 } }),
            "RetryPolicy.Attempts: must be between 0 and 1000000, got -1",
        ),
        (
            json!({ "RetryPolicy": { "Delay": 5, "MaxDelay": 4 } }),
            "RetryPolicy.MaxDelay: must not be below Delay (5), got 4",
        ),
        (
            json!({ "Constraints": [{ "Key": "a", "Operator": "gt", "Values": ["x"] }] }),
            "Constraints[0]: operator 'gt' takes an integer, got 'x'",
        ),
        (
            json!({ "Constraints": [{ "Key": "a", "Operator": "=", "Values": ["x", null] }] }),
            "Constraints[0].Values[1]: expected a string, got null",
        ),
    ] {
        let found = problems(&job(fields));
        assert_eq!(found.first().map(String::as_str), Some(problem));
    }
    assert_eq!(
        accept_job(&job(json!({ "RetryPolicy": { "Delay": 90 } }))).spec.retry_policy.max_delay,
        90
    );
}

#[test]
fn a_job_compares_labels_with_a_bounded_number_of_values() {
    let listing = |values: usize| {
        let values: Vec<_> = (0..values).map(|n| n.to_string()).collect();
        json!({ "Key": "zone", "Operator": "notin", "Values": values })
    };
    let accepted = accept_job(&job(json!({ "Constraints": [listing(200), listing(56)] })));
    assert_eq!(accepted.spec.constraints.len(), 2);
    let wrong = job(json!({ "Constraints": [listing(200), listing(57)] }));
    assert_eq!(problems(&wrong), ["Constraints: must not list more than 256 values in all"]);
}

#[test]
fn problems_and_warnings_are_bounded() {
    let values: Vec<Value> = (0..500).map(Value::from).collect();
    let wrong = job(json!({ "Constraints": [{ "Key": "a", "Operator": "in", "Values": values }] }));
    assert_eq!(problems(&wrong).len(), MAX_PROBLEMS);
    let unknown: serde_json::Map<String, Value> =
        (0..500).map(|n| (format!("Field{n}"), Value::from(n))).collect();
    let params = merged(json!({ "Image": "i" }), unknown.into());
    let accepted = accept_job(&task(json!({ "Engine": { "Type": "docker", "Params": params } })));
    assert_eq!(accepted.warnings.len(), MAX_WARNINGS + 1);
    assert_eq!(accepted.warnings[MAX_WARNINGS], "400 more warnings omitted");
}
