//! `/api/v1/orchestrator/groups`, and jobs that name concurrency groups.

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::{Guarded, Request};
use crate::node::{FakeNode, executions};
use crate::server::{JOBS, Server, job_path, job_with, list, redacted, text};

const GROUPS: &str = "/api/v1/orchestrator/groups";

/// A group of the namespace that the table of roles is about.
pub(crate) const HOME_GROUP: &str = "/api/v1/orchestrator/groups/db?namespace=home";

crate::covers! {
    "listGroups" => a_group_is_put_listed_described_and_deleted;
    "describeGroup" => a_group_is_put_listed_described_and_deleted;
    "putGroup" => a_group_is_put_listed_described_and_deleted;
    "deleteGroup" => a_group_is_put_listed_described_and_deleted;
}

/// The requests about groups, for the table of roles.
pub(crate) fn of_groups() -> [(&'static str, Request); 4] {
    let (get, put, delete) = (Method::GET, Method::PUT, Method::DELETE);
    [
        ("listGroups", (get.clone(), format!("{GROUPS}?namespace=home"), None)),
        ("describeGroup", (get, HOME_GROUP.to_owned(), None)),
        ("putGroup", (put, HOME_GROUP.to_owned(), Some(json!({ "Limit": 1 })))),
        ("deleteGroup", (delete, path("none", "home"), None)),
    ]
}

fn path(name: &str, namespace: &str) -> String {
    format!("{GROUPS}/{name}?namespace={namespace}")
}

fn of_group(name: &str, fields: Value) -> Value {
    let mut job = job_with(fields);
    job["ConcurrencyGroups"] = json!(["db"]);
    job["Name"] = json!(name);
    job
}

#[tokio::test]
async fn a_group_is_put_listed_described_and_deleted() {
    let server = Server::start().await;
    let _node = FakeNode::join(&server).await;
    server.put(&path("other", "team"), &json!({ "Limit": 0 })).await.ok();
    let put = server.put(&path("db", "default"), &json!({ "Limit": 2 })).await;
    assert_eq!(put.ok()["Group"]["Limit"], 2);
    let first = server.submit(of_group("first", json!({ "Count": 2 }))).await;
    executions(&server, &first, 2).await;
    let second = server.submit(of_group("second", json!({}))).await;

    let group = server.get(&path("db", "default")).await.ok()["Group"].clone();
    let expected = json!({
        "Name": "db", "Namespace": "default", "Limit": 2, "Running": 2, "Holding": 1, "Waiting": 1,
        "Holders": [{ "JobID": "j-…", "Name": "first", "Executions": 2 }],
        "Waiters": [{ "JobID": "j-…", "Name": "second" }],
        "CreateTime": "T", "ModifyTime": "T",
    });
    assert_eq!(redacted(&group), expected);
    let listed = async |query: &str| {
        let found = server.get(&format!("{GROUPS}{query}")).await.ok().clone();
        let found = list(&found["Groups"]).iter();
        found.map(|it| (text(&it["Name"]), it["Waiting"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, [("db".to_owned(), json!(1))]);
    assert_eq!(listed("?namespace=*").await.len(), 2);

    let in_use = server.delete(&path("db", "default")).await;
    in_use.refused(409, "Conflict").says("live jobs that name it: 2");
    server.put(&path("db", "default"), &json!({ "Limit": 3 })).await.ok();
    executions(&server, &second, 1).await;
    server.delete(&path("other", "team")).await.ok();
    server.get(&path("other", "team")).await.refused(404, "GroupNotFound");
    server.delete(&path("other", "team")).await.refused(404, "GroupNotFound");
}

#[tokio::test]
async fn what_is_wrong_with_a_group_and_with_its_jobs_is_said() {
    let server = Server::start().await;
    for (name, body, problem) in [
        ("db", json!({}), "Limit: is required; 0 pauses the group"),
        ("db", json!({ "Limit": -1 }), "Limit: must be between 0 (paused) and 1000000, got -1"),
        ("db", json!({ "Limit": 1_000_001 }), "Limit: must be between 0 (paused) and 1000000"),
        ("-db", json!({ "Limit": 1 }), ": the name of a group must have 1 to 63 letters"),
    ] {
        let problems = server.put(&path(name, "default"), &body).await.problems();
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
    server.put(&path("db", "other"), &json!({ "Limit": 1 })).await.ok();
    let unknown = server.put(JOBS, &json!({ "Job": of_group("a", json!({})) })).await.problems();
    let expected = "ConcurrencyGroups[0]: concurrency group 'db' does not exist in namespace \
                    'default'; an owner creates it with `jobctl group put default/db --limit N`";
    assert_eq!(unknown, [expected]);
    server.put(&path("db", "default"), &json!({ "Limit": 5 })).await.ok();
    let replacing = of_group("a", json!({ "OnConflict": "replace" }));
    for path in [JOBS.to_owned(), format!("{JOBS}?dry_run=true")] {
        let shared = server.put(&path, &json!({ "Job": replacing })).await.problems();
        let why = "OnConflict: Replace needs a group with Limit 1, and 'db' has Limit 5";
        assert_eq!(shared, [why]);
    }
}

#[tokio::test]
async fn a_job_that_waits_for_a_group_is_explained_and_counted() {
    let server = Server::start().await;
    let _node = FakeNode::join(&server).await;
    server.put(&path("db", "default"), &json!({ "Limit": 1 })).await.ok();
    let first = server.submit(of_group("first", json!({}))).await;
    executions(&server, &first, 1).await;
    let second = server.submit(of_group("second", json!({}))).await;
    let found = server.get(&format!("{}/explain", job_path(&second))).await.ok().clone();
    assert_eq!(found["State"], "Queued");
    assert_eq!(found["Waiting"], Value::Null);
    let message = "1 of 1 executions of the concurrency group 'db' are live";
    let gate = json!({ "Type": "ConcurrencyGroup", "Slots": 1, "Since": "T", "Message": message });
    assert_eq!(redacted(&found)["Gates"], json!([gate]));
    let last = server.submit(of_group("last", json!({ "OnConflict": "Replace" }))).await;
    for stopped in [&first, &second] {
        let job = server.get(&job_path(stopped)).await.ok()["Job"].clone();
        assert_eq!(job["State"]["StateType"], "Stopped");
        let why = "replaced by a newer job of its concurrency group";
        assert_eq!(job["State"]["Message"], why);
    }
    let job = server.get(&job_path(&last)).await.ok()["Job"].clone();
    assert_eq!(
        (&job["OnConflict"], &job["ConcurrencyGroups"]),
        (&json!("Replace"), &json!(["db"]))
    );
}

#[tokio::test]
async fn an_owner_changes_groups_and_a_viewer_sees_those_of_its_namespace() {
    let guarded = Guarded::start().await;
    let owner = guarded.token("owner", &["home"]).await;
    let viewer = guarded.token("viewer", &["home"]).await;
    let limit = json!({ "Limit": 1 });
    let one = path("web", "home");
    guarded.ask(Method::PUT, &one, &viewer, Some(&limit)).await.refused(403, "Forbidden");
    guarded.ask(Method::PUT, &one, &owner, Some(&limit)).await.ok();
    guarded.ask(Method::GET, &one, &viewer, None).await.ok();
    let other = path("db", "away");
    guarded.ask(Method::GET, &other, &viewer, None).await.refused(404, "NamespaceNotFound");
    guarded.ask(Method::DELETE, &one, &viewer, None).await.refused(403, "Forbidden");
    guarded.ask(Method::DELETE, &one, &owner, None).await.ok();
}
