//! `/api/v1/orchestrator/namespaces`.

use reqwest::Method;
use serde_json::json;

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
