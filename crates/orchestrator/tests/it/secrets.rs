//! `/api/v1/orchestrator/secrets`, and the secrets that nodes ask for.

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::Guarded;
use crate::node::{FakeNode, executions, node_path};
use crate::sealed::SECRETS;
use crate::server::{Server, answer, list, task_with, text};

crate::covers! {
    "listSecrets" => a_secret_is_put_listed_and_deleted_without_its_value;
    "describeSecret" => a_secret_is_put_listed_and_deleted_without_its_value;
    "putSecret" => a_secret_is_put_listed_and_deleted_without_its_value;
    "deleteSecret" => a_secret_is_put_listed_and_deleted_without_its_value;
    "readSecrets" => a_node_gets_the_secrets_of_what_it_has_accepted_and_of_nothing_else;
}

fn path(name: &str, namespace: &str) -> String {
    SECRETS.path(name, namespace)
}

/// A job whose task names secrets.
fn job(namespace: &str, secrets: Value) -> Value {
    let mut job = task_with(json!({ "Secrets": secrets }));
    job["Namespace"] = json!(namespace);
    job
}

#[tokio::test]
async fn a_secret_is_put_listed_and_deleted_without_its_value() {
    let server = Server::start().await;
    let value = "correct horse battery staple";
    let bodies = [&json!({ "Value": value }), &json!({ "Data": "AAH/" })];
    SECRETS.is_put_listed_and_deleted(&server, bodies, value).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_secret_is_said() {
    let server = Server::start().await;
    let long = "x".repeat((32 << 10) + 1);
    for (name, body, problem) in [
        ("db", json!({}), "Value: is required, or Data"),
        ("db", json!({ "Value": "a", "Data": "YQ==" }), "Data: stands for Value"),
        ("db", json!({ "Data": "?" }), "Data: must be base64"),
        ("db", json!({ "Value": long }), "Value: must not be longer than 32768 bytes"),
        ("-db", json!({ "Value": "a" }), ": the name of a secret must have 1 to 63 letters"),
    ] {
        let problems = server.put(&path(name, "default"), &body).await.problems();
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
    for (secrets, problem) in [
        (json!([{ "Path": "/x" }]), "Tasks[0].Secrets[0].Name: is required"),
        (json!([{ "Name": "a/b" }]), "Tasks[0].Secrets[0].Name: must have 1 to 63 letters"),
        (json!([{ "Name": "a", "Path": "x" }]), "Tasks[0].Secrets[0].Path: must be an absolute"),
        (json!([{ "Name": "a", "Path": "/x/" }]), "Tasks[0].Secrets[0].Path: must be the path"),
        (json!([{ "Name": "a", "Path": "/x", "Env": "X" }]), "Tasks[0].Secrets[0].Env: a secret"),
        (json!([{ "Name": "a", "Env": "X=" }]), "Tasks[0].Secrets[0].Env: a variable's name"),
        (json!([{ "Name": "a" }, { "Name": "a" }]), "Tasks[0].Secrets[1].Path: '/run/secrets/a'"),
        (
            json!([{ "Name": "a", "Env": "X" }, { "Name": "b", "Env": "X" }]),
            "Tasks[0].Secrets[1].Env: 'X' is the variable of another",
        ),
    ] {
        let body = json!({ "Job": job("default", secrets) });
        let problems = server.put(crate::server::JOBS, &body).await.problems();
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
}

#[tokio::test]
async fn a_job_warns_of_secrets_that_do_not_exist_and_of_values_that_look_like_some() {
    let server = Server::start().await;
    let task = json!({ "Secrets": [{ "Name": "db" }], "Env": { "DB_PASSWORD": "hunter2" } });
    let body = json!({ "Job": task_with(task) });
    let created = server.put(crate::server::JOBS, &body).await;
    let warnings = created.ok()["Warnings"].to_string();
    for part in ["Tasks[0].Env.DB_PASSWORD looks like a secret", "secret 'db' does not exist"] {
        assert!(warnings.contains(part), "{warnings}");
    }
    let stored = server.get(&crate::server::job_path(&text(&created.ok()["JobID"]))).await;
    let task = &stored.ok()["Job"]["Tasks"][0];
    assert_eq!(task["Secrets"], json!([{ "Name": "db", "Path": "/run/secrets/db" }]));
}

#[tokio::test]
async fn a_node_gets_the_secrets_of_what_it_has_accepted_and_of_nothing_else() {
    let server = Server::start().await;
    let (node, other) = (FakeNode::join(&server).await, FakeNode::join(&server).await);
    server.put(&path("db", "prod"), &json!({ "Value": "pa55" })).await.ok();
    let wanted = json!([{ "Name": "db" }, { "Name": "late", "Env": "LATE" }]);
    let id = server.submit(job("prod", wanted)).await;
    let execution = executions(&server, &id, 1).await.remove(0);
    let (node, other) = match text(&execution["NodeID"]) == node.id {
        true => (node, other),
        false => (other, node),
    };
    let execution = text(&execution["ID"]);
    let ask = async |node: &FakeNode| {
        let body = json!({ "ExecutionID": execution });
        let path = node_path(&node.id, "/secrets");
        answer(server.request(Method::POST, &path).json(&body)).await
    };
    // It is an offer still.
    ask(&node).await.refused(404, "ExecutionNotFound");
    let report = |sequence: u32, state: u32| json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
    node.report(&server, report(1, 3)).await;
    ask(&other).await.refused(404, "ExecutionNotFound");
    ask(&node).await.refused(404, "SecretNotFound").says("secret 'late' does not exist");

    server.put(&path("late", "prod"), &json!({ "Data": "AAH/" })).await.ok();
    let answered = ask(&node).await;
    let expected = json!([
        { "Name": "db", "Version": 1, "Data": "cGE1NQ==" },
        { "Name": "late", "Version": 1, "Data": "AAH/" },
    ]);
    assert_eq!(answered.ok()["Secrets"], expected);

    let failed = json!({
        "ExecutionID": execution, "Sequence": 2, "ComputeState": 8, "Message": "over",
    });
    node.report(&server, failed).await;
    ask(&node).await.refused(404, "ExecutionNotFound");
}

#[tokio::test]
async fn an_owner_sets_secrets_and_a_submitter_names_them() {
    let guarded = Guarded::start().await;
    let [owner, submitter] =
        [guarded.token("owner", &["home"]).await, guarded.token("submitter", &["home"]).await];
    let body = json!({ "Value": "x" });
    let put = async |token: &str, namespace: &str| {
        guarded.ask(Method::PUT, &path("db", namespace), token, Some(&body)).await
    };
    put(&owner, "home").await.ok();
    put(&submitter, "home").await.refused(403, "Forbidden");
    put(&owner, "away").await.refused(404, "NamespaceNotFound");
    let all = format!("{}?namespace=*", SECRETS.path);
    let listed = guarded.ask(Method::GET, &all, &submitter, None).await;
    assert_eq!(list(&listed.ok()["Secrets"]).len(), 1);
    let outsider = guarded.token("owner", &["away"]).await;
    let listed = guarded.ask(Method::GET, &all, &outsider, None).await;
    assert_eq!(list(&listed.ok()["Secrets"]).len(), 0);

    // The change is in the audit log with its name, and a namespace with secrets stays.
    let audit = guarded.ask(Method::GET, "/api/v1/orchestrator/audit", &guarded.admin, None).await;
    let records = list(&audit.ok()["Records"]);
    let set = records.iter().find(|record| record["Operation"] == "putSecret").expect("a record");
    assert_eq!(set["Object"], "home/db");
    let namespace = "/api/v1/orchestrator/namespaces/spare";
    guarded.ask(Method::PUT, namespace, &guarded.admin, Some(&json!({}))).await.ok();
    put(&guarded.admin, "spare").await.ok();
    let refused = guarded.ask(Method::DELETE, namespace, &guarded.admin, None).await;
    refused.refused(409, "Conflict").says("it has secrets");
}
