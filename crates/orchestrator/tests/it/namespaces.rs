//! `/api/v1/orchestrator/namespaces`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::{Guarded, id_of};
use crate::server::{JOBS, Server, job_with, list, task_with, text};

crate::covers! {
    "listNamespaces" => a_namespace_is_created_changed_and_deleted;
    "describeNamespace" => a_namespace_is_created_changed_and_deleted;
    "putNamespace" => a_namespace_is_created_changed_and_deleted;
    "deleteNamespace" => a_namespace_is_created_changed_and_deleted;
}

const NAMESPACES: &str = "/api/v1/orchestrator/namespaces";

fn path(name: &str) -> String {
    format!("{NAMESPACES}/{name}")
}

#[tokio::test]
async fn a_namespace_is_created_changed_and_deleted() {
    let mut server = Server::start().await;
    let listed = server.get(NAMESPACES).await;
    assert_eq!(listed.ok()["Namespaces"][0]["Name"], "default");
    let body = json!({ "Description": "builds", "Permissions": { "Engines": ["Docker"] } });
    let put = server.put(&path("ci"), &body).await;
    let namespace = put.ok()["Namespace"].clone();
    assert_eq!(namespace["Permissions"], json!({ "Engines": ["docker"] }));
    server.put(&path("ci"), &json!({ "Description": "tests" })).await.ok();
    server.restart().await;
    let described = server.get(&path("ci")).await;
    let described = &described.ok()["Namespace"];
    assert_eq!(
        (&described["Description"], &described["Permissions"]),
        (&json!("tests"), &json!({}))
    );
    assert_eq!(described["CreateTime"], namespace["CreateTime"]);
    let listed = server.get(NAMESPACES).await;
    let names: Vec<_> =
        list(&listed.ok()["Namespaces"]).iter().map(|it| text(&it["Name"])).collect();
    assert_eq!(names, ["ci", "default"]);

    server.submit(job_with(json!({ "Namespace": "ci" }))).await;
    server.delete(&path("ci")).await.refused(409, "Conflict").says("it has jobs");
    server.put(&path("empty"), &json!({})).await.ok();
    server.delete(&path("empty")).await.ok();
    server.delete(&path("empty")).await.refused(404, "NamespaceNotFound");
    server.get(&path("default")).await.ok();
}

#[tokio::test]
async fn what_is_wrong_with_a_namespace_is_said() {
    let server = Server::start().await;
    for (name, body, problem) in [
        ("-a", json!({}), ": the name of a namespace must have 1 to 63 letters"),
        ("a%20b", json!({}), ": the name of a namespace"),
        ("a", json!({ "Description": "x".repeat(1025) }), "Description: must have at most"),
        ("a", json!({ "Permissions": { "Engines": ["vm"] } }), "Permissions.Engines: 'vm' is not"),
        ("a", json!({ "MaxPriority": 101 }), "MaxPriority: must be between 0 and 100, got 101"),
        ("a", json!({ "Permissions": { "Networks": ["x"] } }), "Permissions.Networks: 'x'"),
        (
            "a",
            json!({ "Permissions": { "Registries": ["docker.io/library"] } }),
            "Permissions.Registries: 'docker.io/library' is not a registry",
        ),
    ] {
        let problems = server.put(&path(name), &body).await.problems();
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
}

#[tokio::test]
async fn jobs_ask_for_what_their_namespace_permits() {
    let server = Server::start().await;
    let permissions = json!({
        "Engines": ["docker"], "Networks": ["None"], "Sources": [], "Publishers": ["local"],
    });
    server.put(&path("small"), &json!({ "Permissions": permissions })).await.ok();
    let task = task_with(json!({
        "Engine": { "Type": "noop" },
        "Network": { "Type": "Full" },
        "InputSources": [{
            "Source": { "Type": "inline", "Params": { "URL": "data:,x" } }, "Target": "/in",
        }],
        "Publisher": { "Type": "noop" },
    }));
    let mut job = task;
    job["Namespace"] = json!("small");
    for dry_run in ["", "?dry_run"] {
        let refused = server.put(&format!("{JOBS}{dry_run}"), &json!({ "Job": job })).await;
        let problems = refused.problems();
        let expected = [
            "Tasks[0].Engine.Type: 'noop' is not permitted in namespace 'small'; permitted: docker",
            "Tasks[0].Network.Type: 'Full' is not permitted in namespace 'small'; permitted: None",
            "Tasks[0].Publisher.Type: 'noop' is not permitted in namespace 'small'; permitted: local",
            "Tasks[0].InputSources[0].Source.Type: 'inline' is not permitted in namespace 'small'; \
             permitted: none",
        ];
        assert_eq!(problems, expected);
    }
    // A job that publishes nothing needs no publisher.
    server.submit(job_with(json!({ "Namespace": "small" }))).await;
    job["Namespace"] = json!("other");
    server.submit(job).await;
}

#[tokio::test]
async fn a_priority_is_no_higher_than_its_namespace_allows() {
    let guarded = Guarded::start().await;
    let put = async |name: &str, body| {
        let answer = guarded.ask(Method::PUT, &path(name), &guarded.admin, Some(&body)).await;
        answer.ok()["Namespace"]["MaxPriority"].clone()
    };
    let submit = async |namespace: &str, more: Value| {
        let mut job = job_with(more);
        job["Namespace"] = json!(namespace);
        let body = json!({ "Job": job });
        guarded.ask(Method::PUT, JOBS, &guarded.admin, Some(&body)).await
    };
    // Nobody passes all others by saying so.
    assert_eq!(put("new", json!({})).await, 50);
    submit("new", json!({ "Priority": 50 })).await.ok();
    for dry_run in ["", "?dry_run"] {
        let job = job_with(json!({ "Namespace": "new", "Priority": 51 }));
        let (jobs, body) = (format!("{JOBS}{dry_run}"), json!({ "Job": job }));
        let refused = guarded.ask(Method::PUT, &jobs, &guarded.admin, Some(&body)).await;
        let expected = "Priority: must be at most 50 in namespace 'new', got 51";
        assert_eq!(refused.problems(), [expected]);
    }
    // What is set stays until it is left out.
    assert_eq!(put("new", json!({ "MaxPriority": 100 })).await, 100);
    submit("new", json!({ "Priority": 100 })).await.ok();
    assert_eq!(put("new", json!({ "Description": "other" })).await, 50);
    // A job that says nothing is no higher, either.
    assert_eq!(put("low", json!({ "MaxPriority": 20 })).await, 20);
    let job = text(&submit("low", json!({})).await.ok()["JobID"]);
    let described = guarded.ask(Method::GET, &format!("{JOBS}/{job}"), &guarded.admin, None).await;
    assert_eq!(described.ok()["Job"]["Priority"], 20);
    // `default` always existed.
    assert_eq!(put("default", json!({ "Description": "usual" })).await, 100);
    submit("default", json!({ "Priority": 100 })).await.ok();
}

#[tokio::test]
async fn a_namespace_that_had_no_bound_gets_none_by_a_change() {
    let server = Server::start().await;
    let put = async |body| {
        let answer = server.put(&path("old"), &body).await;
        answer.ok()["Namespace"]["MaxPriority"].clone()
    };
    assert_eq!(put(json!({})).await, 100);
    assert_eq!(put(json!({ "Description": "other" })).await, 100);
    assert_eq!(put(json!({ "MaxPriority": 0 })).await, 0);
    let job = server.submit(job_with(json!({ "Namespace": "old" }))).await;
    assert_eq!(server.get(&format!("{JOBS}/{job}")).await.ok()["Job"]["Priority"], 0);
}

#[tokio::test]
async fn images_come_from_registries_that_the_namespace_permits() {
    let server = Server::start().await;
    let permissions = json!({ "Registries": ["Docker.io", "127.0.0.1:5000"] });
    let put = server.put(&path("own"), &json!({ "Permissions": permissions })).await;
    let registries = &put.ok()["Namespace"]["Permissions"]["Registries"];
    assert_eq!(registries, &json!(["docker.io", "127.0.0.1:5000"]));
    let job = |image: &str| {
        let engine = json!({ "Type": "docker", "Params": { "Image": image } });
        let mut job = task_with(json!({ "Engine": engine }));
        job["Namespace"] = json!("own");
        json!({ "Job": job })
    };
    let id = format!("sha256:{}", "0".repeat(64));
    for (image, registry) in
        [("ghcr.io/a/b", "ghcr.io"), ("localhost/a", "localhost"), (id.as_str(), id.as_str())]
    {
        let problems = server.put(JOBS, &job(image)).await.problems();
        let expected = format!(
            "Tasks[0].Engine.Params.Image: '{registry}' is not permitted in namespace 'own'; \
             permitted: docker.io, 127.0.0.1:5000"
        );
        assert_eq!(problems, [expected]);
    }
    for image in ["alpine", "docker.io/library/alpine:3", "index.docker.io/a/b", "127.0.0.1:5000/a"]
    {
        server.put(JOBS, &job(image)).await.ok();
    }
}

#[tokio::test]
async fn with_credentials_a_namespace_has_to_exist_and_its_tokens_keep_it() {
    let guarded = Guarded::start().await;
    let body = json!({ "Job": job_with(json!({ "Namespace": "typo" })) });
    let refused = guarded.ask(Method::PUT, JOBS, &guarded.admin, Some(&body)).await;
    refused.refused(404, "NamespaceNotFound");
    let token = guarded.token("viewer", &["away"]).await;
    let delete = || {
        guarded.ask(Method::DELETE, "/api/v1/orchestrator/namespaces/away", &guarded.admin, None)
    };
    delete().await.refused(409, "Conflict").says("the token 'viewer' names it");
    let revoke = format!("/api/v1/orchestrator/tokens/{}", id_of(&token));
    guarded.ask(Method::DELETE, &revoke, &guarded.admin, None).await.ok();
    delete().await.ok();
}
