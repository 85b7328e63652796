//! `GET /api/v1/orchestrator/search`.

use serde_json::{Value, json};

use crate::node::FakeNode;
use crate::server::{JOBS, Server, job_with, list, text};

const SEARCH: &str = "/api/v1/orchestrator/search";

crate::covers! {
    "search" => any_part_of_a_name_an_id_or_a_label_finds_a_job;
}

async fn submit(server: &Server, name: &str, labels: Value) -> String {
    let mut job = job_with(json!({ "Labels": labels }));
    job["Name"] = name.into();
    server.submit(job).await
}

async fn jobs(server: &Server, wanted: &str) -> Vec<String> {
    let answer = server.get(&format!("{SEARCH}?text={wanted}")).await;
    list(&answer.ok()["Jobs"]).iter().map(|job| text(&job["Name"])).collect()
}

#[tokio::test]
async fn any_part_of_a_name_an_id_or_a_label_finds_a_job() {
    let server = Server::start().await;
    let first = submit(&server, "nightly-report", json!({ "team": "Docs" })).await;
    let second = submit(&server, "render", json!({ "night": "no" })).await;
    assert_eq!(jobs(&server, "REPORT").await, ["nightly-report"]);
    assert_eq!(jobs(&server, "night").await, ["render", "nightly-report"], "the newest first");
    assert_eq!(jobs(&server, "team%3Ddocs").await, ["nightly-report"]);
    assert_eq!(jobs(&server, &first[5..12]).await, ["nightly-report"]);
    assert_eq!(jobs(&server, &second.to_uppercase()).await, ["render"]);
    assert_eq!(jobs(&server, "%25").await, Vec::<String>::new(), "no pattern");
    server.delete(&format!("{JOBS}/{second}")).await.ok();
    assert_eq!(jobs(&server, "night").await, ["nightly-report", "render"], "live ones come first");
    let answer = server.get(&format!("{SEARCH}?text=night&limit=1")).await;
    let answer = answer.ok();
    assert_eq!((list(&answer["Jobs"]).len(), &answer["MoreJobs"]), (1, &json!(true)));
    assert_eq!(answer["OlderJobs"], json!(false));
    server.get(SEARCH).await.refused(400, "InvalidQuery");
    server.get(&format!("{SEARCH}?text=%20")).await.refused(400, "InvalidQuery");
    let long = "x".repeat(257);
    server.get(&format!("{SEARCH}?text={long}")).await.refused(400, "InvalidQuery");
}

#[tokio::test]
async fn nodes_are_found_by_name_label_and_id() {
    let server = Server::start().await;
    let node = FakeNode::join_with(&server, |node| {
        node["Name"] = json!("build-host");
        node["Labels"] = json!({ "zone": "north" });
    })
    .await;
    FakeNode::join(&server).await;
    let id = node.id.to_string();
    for wanted in ["host", "zone%3Dnor", &id[4..14]] {
        let answer = server.get(&format!("{SEARCH}?text={wanted}")).await;
        let nodes = list(&answer.ok()["Nodes"]);
        let names: Vec<_> = nodes.iter().map(|node| text(&node["Name"])).collect();
        assert_eq!(names, ["build-host"], "{wanted}");
    }
    let answer = server.get(&format!("{SEARCH}?text=n-&limit=1")).await;
    assert_eq!(answer.ok()["MoreNodes"], json!(true));
}
