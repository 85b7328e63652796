//! Graphs: jobs that are submitted together; and what a job by itself says about others.

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::Guarded;
use crate::node::{FakeNode, executions};
use crate::server::{Answer, Server, answer, job_path, job_with, list, text};

crate::covers! {
    "createGraph" => a_graph_is_stored_in_one_step_and_described;
    "describeGraph" => a_graph_is_stored_in_one_step_and_described;
    "listGraphs" => graphs_are_listed_with_their_states_and_stopped_as_a_whole;
    "stopGraph" => graphs_are_listed_with_their_states_and_stopped_as_a_whole;
}

const CREATE: &str = "/api/v1/orchestrator/jobs/graph";
const GRAPHS: &str = "/api/v1/orchestrator/graphs";

fn after(jobs: &[&str]) -> Value {
    let named = jobs.iter().map(|job| json!({ "Job": job }));
    job_with(json!({ "DependsOn": named.collect::<Vec<_>>() }))
}

async fn post(server: &Server, graph: &Value, key: Option<&str>) -> Answer {
    let mut request = server.request(Method::POST, CREATE).json(graph);
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    answer(request).await
}

/// `a`, then `b` and `c`, then `d`.
fn diamond() -> Value {
    json!({
        "Name": "nightly",
        "Jobs": {
            "a": job_with(json!({})), "b": after(&["a"]), "c": after(&["a"]), "d": after(&["b", "c"]),
        },
    })
}

#[tokio::test]
async fn a_graph_is_stored_in_one_step_and_described() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let created = post(&server, &diamond(), Some("once")).await;
    let created = created.ok();
    assert_eq!(post(&server, &diamond(), Some("once")).await.ok(), created);
    let other = json!({ "Jobs": { "a": job_with(json!({})) } });
    post(&server, &other, Some("once")).await.refused(409, "IdempotencyConflict");

    let path = format!("{GRAPHS}/{}", text(&created["GraphID"]));
    let graph = server.get(&path).await;
    let graph = &graph.ok()["Graph"];
    assert_eq!((text(&graph["Name"]), text(&graph["State"])), ("nightly".into(), "Running".into()));
    assert_eq!(list(&graph["Edges"]).len(), 4);
    let ids = &created["Jobs"];
    for name in ["a", "b", "c", "d"] {
        let job = text(&ids[name]);
        let [execution] = &executions(&server, &job, 1).await[..] else { panic!("one slot") };
        node.complete(&server, &text(&execution["ID"]), json!(null)).await;
    }
    let graph = server.get(&path).await;
    assert_eq!(text(&graph.ok()["Graph"]["State"]), "Completed");
    let last = server.get(&job_path(&text(&ids["d"]))).await;
    let named = list(&last.ok()["Job"]["DependsOn"]).iter().map(|named| text(&named["Job"]));
    assert_eq!(named.collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(text(&last.ok()["Job"]["Name"]), "d");
    server.get(&format!("{GRAPHS}/g-1")).await.refused(404, "GraphNotFound");
}

#[tokio::test]
async fn graphs_are_listed_with_their_states_and_stopped_as_a_whole() {
    let server = Server::start().await;
    let created = post(&server, &diamond(), None).await;
    let path = format!("{GRAPHS}/{}", text(&created.ok()["GraphID"]));
    let stopped = server.delete(&path).await;
    assert_eq!(*stopped.ok(), json!({ "Stopped": 4 }));
    assert_eq!(*server.delete(&path).await.ok(), json!({ "Stopped": 0 }));
    post(&server, &json!({ "Jobs": { "x": job_with(json!({})) } }), None).await.ok();
    let page = server.get(&format!("{GRAPHS}?limit=1")).await;
    assert_eq!(text(&page.ok()["Graphs"][0]["Name"]), "graph");
    let next = text(&page.ok()["NextToken"]);
    let page = server.get(&format!("{GRAPHS}?limit=1&next_token={next}")).await;
    let graph = &page.ok()["Graphs"][0];
    assert_eq!(
        (text(&graph["State"]), &graph["Jobs"]),
        ("Stopped".into(), &json!({ "Stopped": 4 }))
    );
    assert_eq!(list(&server.get(&format!("{GRAPHS}?name=none")).await.ok()["Graphs"]).len(), 0);
    let job = server.get(&job_path(&text(&created.ok()["Jobs"]["b"]))).await;
    let message = text(&job.ok()["Job"]["State"]["Message"]);
    assert_eq!(message, "stopped by request: with graph 'nightly'");
}

#[tokio::test]
async fn a_graph_with_a_mistake_stores_nothing_and_says_where_it_is() {
    let server = Server::start().await;
    let cycle = json!({ "Jobs": { "a": after(&["c"]), "b": after(&["a"]), "c": after(&["b"]) } });
    let refused = post(&server, &cycle, None).await;
    refused.refused(400, "InvalidJob");
    assert_eq!(refused.problems(), ["Jobs: wait for each other: a → c → b → a"]);
    let service = job_with(json!({ "Type": "service" }));
    let wrong = json!({ "Jobs": {
        "a": after(&["none"]), "b": after(&["s"]), "s": service, "t": after(&[]),
    } });
    let refused = post(&server, &wrong, None).await;
    assert_eq!(refused.problems(), ["Jobs.a.DependsOn[0].Job: the graph has no job 'none'"]);
    let outside = json!([{ "JobID": "j-00000000-0000-4000-8000-000000000001" }]);
    let missing = json!({ "Jobs": { "a": job_with(json!({ "DependsOn": outside })) } });
    let refused = post(&server, &missing, None).await;
    let says = "Jobs.a.DependsOn[0].JobID: namespace 'default' has no job \
                j-00000000-0000-4000-8000-000000000001";
    assert_eq!(refused.problems(), [says]);
    assert_eq!(list(&server.get("/api/v1/orchestrator/jobs").await.ok()["Jobs"]).len(), 0);
}

#[tokio::test]
async fn a_job_depends_on_batch_and_ops_jobs_of_its_namespace_and_on_no_others() {
    let server = Server::start().await;
    let first = server.submit(job_with(json!({ "Name": "build" }))).await;
    let elsewhere = server.submit(job_with(json!({ "Namespace": "other" }))).await;
    let service = server.submit(job_with(json!({ "Type": "service", "Name": "web" }))).await;
    let on = |id: &str| json!({ "Job": job_with(json!({ "DependsOn": [{ "JobID": id }] })) });
    let says = |path: &str| format!("DependsOn[0].JobID: {path}");
    for query in ["", "?dry_run=true"] {
        let path = format!("/api/v1/orchestrator/jobs{query}");
        let refused = server.put(&path, &on(&elsewhere)).await;
        let absent = says(&format!("namespace 'default' has no job {elsewhere}"));
        assert_eq!(refused.problems(), [absent]);
        let refused = server.put(&path, &on(&service)).await;
        let unending = says(
            "job 'web' is a service job, which does not end by itself: a job can depend on batch and \
             ops jobs",
        );
        assert_eq!(refused.problems(), [unending]);
        server.put(&path, &on(&first)).await.ok();
    }
    let jobs = server.get("/api/v1/orchestrator/jobs?state=Queued").await;
    let mut queued = list(&jobs.ok()["Jobs"]).iter();
    let waits = queued.find(|job| !job["DependsOn"].is_null()).expect("one waits for another");
    let expected = json!([{ "JobID": first, "Job": "build", "Condition": "Completed" }]);
    assert_eq!(waits["DependsOn"], expected);
    assert_eq!(text(&waits["State"]["Message"]), "job 'build' has not completed yet");
    let explained = server.get(&format!("{}/explain", job_path(&text(&waits["ID"])))).await;
    let gate = &explained.ok()["Gates"][0];
    assert_eq!((text(&gate["Type"]), &gate["Slots"]), ("DependsOn".into(), &json!(1)));
}

#[tokio::test]
async fn a_graph_of_another_namespace_does_not_exist_for_a_caller() {
    let guarded = Guarded::start().await;
    let graph = json!({ "Jobs": { "a": job_with(json!({ "Namespace": "home" })) } });
    let created = guarded.ask(Method::POST, CREATE, &guarded.admin, Some(&graph)).await;
    let path = format!("{GRAPHS}/{}", text(&created.ok()["GraphID"]));
    let outsider = guarded.token("owner", &["away"]).await;
    for method in [Method::GET, Method::DELETE] {
        guarded.ask(method, &path, &outsider, None).await.refused(404, "GraphNotFound");
    }
    let viewer = guarded.token("viewer", &["home"]).await;
    guarded.ask(Method::GET, &path, &viewer, None).await.ok();
    guarded.ask(Method::DELETE, &path, &viewer, None).await.refused(403, "Forbidden");
}
