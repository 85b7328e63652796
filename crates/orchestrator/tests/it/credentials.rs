//! `/api/v1/orchestrator/credentials`, and the credentials that nodes ask for.

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::Guarded;
use crate::node::{FakeNode, executions, node_path};
use crate::sealed::CREDENTIALS;
use crate::server::{JOBS, Server, answer, list, task_with, text};

crate::covers! {
    "listCredentials" => credentials_are_put_listed_and_deleted_without_their_login;
    "describeCredential" => credentials_are_put_listed_and_deleted_without_their_login;
    "putCredential" => credentials_are_put_listed_and_deleted_without_their_login;
    "deleteCredential" => credentials_are_put_listed_and_deleted_without_their_login;
    "readCredentials" => a_node_gets_the_credentials_of_what_it_has_accepted_and_of_nothing_else;
}

const PASSWORD: &str = "correct horse battery staple";

fn path(name: &str, namespace: &str) -> String {
    CREDENTIALS.path(name, namespace)
}

fn registry(host: &str) -> Value {
    let login = json!({ "Username": "ci", "Password": PASSWORD });
    json!({ "Type": "registry", "Hosts": [host], "Login": login })
}

/// A job whose image names credentials.
fn job(namespace: &str, image: &str) -> Value {
    let params = json!({ "Image": image, "Credentials": "hub" });
    let mut job = task_with(json!({ "Engine": { "Type": "docker", "Params": params } }));
    job["Namespace"] = json!(namespace);
    job
}

#[tokio::test]
async fn credentials_are_put_listed_and_deleted_without_their_login() {
    let server = Server::start().await;
    let keys = json!({ "AccessKeyID": "AKIA", "SecretAccessKey": "x", "SessionToken": "y" });
    let s3 = json!({ "Type": "S3", "Hosts": ["*.amazonaws.com"], "Buckets": ["b"], "Login": keys });
    let bodies = [&registry("ghcr.io"), &s3];
    CREDENTIALS.is_put_listed_and_deleted(&server, bodies, PASSWORD).await;
    let put = server.put(&path("hub", "prod"), &registry("ghcr.io")).await;
    let found = &put.ok()["Credential"];
    assert_eq!((&found["Type"], &found["Hosts"]), (&json!("registry"), &json!(["ghcr.io"])));
    assert!(!put.text.contains("Login"), "{}", put.text);
}

#[tokio::test]
async fn what_is_wrong_with_credentials_is_said() {
    let server = Server::start().await;
    let with = |change: Value| {
        let mut body = registry("ghcr.io");
        for (key, value) in change.as_object().expect("an object") {
            body[key] = value.clone();
        }
        body
    };
    for (name, body, problem) in [
        ("-x", with(json!({})), ": the name of credentials must have 1 to 63 letters"),
        ("x", with(json!({ "Type": "ftp" })), "Type: 'ftp' is not a type of credentials; known"),
        ("x", with(json!({ "Hosts": [] })), "Hosts: is required"),
        ("x", with(json!({ "Hosts": ["https://h"] })), "Hosts[0]: must be a host"),
        ("x", with(json!({ "Hosts": ["*.com"] })), "Hosts[0]: must not stand for a whole"),
        ("x", with(json!({ "Buckets": ["b"] })), "Buckets: does not belong to this Type"),
        ("x", with(json!({ "Login": {} })), "Login.Username: is required"),
        ("x", with(json!({ "Login": { "Token": "t" } })), "Login.Username: is required"),
        ("x", with(json!({ "Type": "s3" })), "Login.Username: does not belong to this Type"),
    ] {
        let problems = server.put(&path(name, "default"), &body).await.problems();
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
}

#[tokio::test]
async fn a_job_is_judged_by_the_credentials_that_it_names() {
    let server = Server::start().await;
    let body = json!({ "Job": job("prod", "ghcr.io/a/b:1") });
    let created = server.put(JOBS, &body).await;
    let warnings = created.ok()["Warnings"].to_string();
    let warning = "credentials 'hub' do not exist in namespace 'prod'; the job waits until they do";
    assert!(warnings.contains(warning), "{warnings}");

    server.put(&path("hub", "prod"), &registry("ghcr.io")).await.ok();
    assert_eq!(server.put(JOBS, &body).await.ok().get("Warnings"), None);
    for image in ["alpine", "ghcr.io:5000/a", "ghcr.io.evil.org/a"] {
        let body = json!({ "Job": job("prod", image) });
        let problems = server.put(JOBS, &body).await.problems();
        let problem = "Tasks[0].Engine.Params.Credentials: credentials 'hub' are not for ";
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
    // Those of another namespace are not there.
    let body = json!({ "Job": job("test", "alpine") });
    assert!(server.put(JOBS, &body).await.ok()["Warnings"].to_string().contains("do not exist"));
    // A source that signs in nowhere has no such field.
    let source = json!({ "Type": "inline", "Params": { "URL": "data:,x", "Credentials": "hub" } });
    let task = task_with(json!({ "InputSources": [{ "Source": source, "Target": "/in" }] }));
    let warnings = server.put(JOBS, &json!({ "Job": task })).await;
    let warning = "Source.Params.Credentials is not a known field and was ignored";
    assert!(warnings.ok()["Warnings"].to_string().contains(warning));
}

#[tokio::test]
async fn a_node_gets_the_credentials_of_what_it_has_accepted_and_of_nothing_else() {
    let server = Server::start().await;
    let (node, other) = (FakeNode::join(&server).await, FakeNode::join(&server).await);
    let id = server.submit(job("prod", "ghcr.io/a/b:1")).await;
    let execution = executions(&server, &id, 1).await.remove(0);
    let (node, other) = match text(&execution["NodeID"]) == node.id {
        true => (node, other),
        false => (other, node),
    };
    let execution = text(&execution["ID"]);
    let ask = async |node: &FakeNode| {
        let body = json!({ "ExecutionID": execution });
        let path = node_path(&node.id, "/credentials");
        answer(server.request(Method::POST, &path).json(&body)).await
    };
    // It is an offer still.
    ask(&node).await.refused(404, "ExecutionNotFound");
    let report = json!({ "ExecutionID": execution, "Sequence": 1, "ComputeState": 3 });
    node.report(&server, report).await;
    ask(&other).await.refused(404, "ExecutionNotFound");
    ask(&node).await.refused(404, "CredentialNotFound").says("credentials 'hub' do not exist");

    server.put(&path("hub", "prod"), &registry("ghcr.io")).await.ok();
    let expected = json!([{
        "Name": "hub", "Type": "registry", "Hosts": ["ghcr.io"], "Buckets": [], "Version": 1,
        "Login": { "Username": "ci", "Password": PASSWORD },
    }]);
    assert_eq!(ask(&node).await.ok()["Credentials"], expected);

    let failed = json!({
        "ExecutionID": execution, "Sequence": 2, "ComputeState": 8, "Message": "over",
    });
    node.report(&server, failed).await;
    ask(&node).await.refused(404, "ExecutionNotFound");
}

#[tokio::test]
async fn an_owner_sets_credentials_and_a_namespace_that_has_some_stays() {
    let guarded = Guarded::start().await;
    let [owner, submitter] =
        [guarded.token("owner", &["home"]).await, guarded.token("submitter", &["home"]).await];
    let body = registry("ghcr.io");
    let put = async |token: &str, namespace: &str| {
        guarded.ask(Method::PUT, &path("hub", namespace), token, Some(&body)).await
    };
    put(&owner, "home").await.ok();
    put(&submitter, "home").await.refused(403, "Forbidden");
    put(&owner, "away").await.refused(404, "NamespaceNotFound");
    let audit = guarded.ask(Method::GET, "/api/v1/orchestrator/audit", &guarded.admin, None).await;
    let records = list(&audit.ok()["Records"]);
    let set = records.iter().find(|it| it["Operation"] == "putCredential").expect("a record");
    assert_eq!(set["Object"], "home/hub");
    let namespace = "/api/v1/orchestrator/namespaces/spare";
    guarded.ask(Method::PUT, namespace, &guarded.admin, Some(&json!({}))).await.ok();
    put(&guarded.admin, "spare").await.ok();
    let refused = guarded.ask(Method::DELETE, namespace, &guarded.admin, None).await;
    refused.refused(409, "Conflict").says("it has credentials");
}
