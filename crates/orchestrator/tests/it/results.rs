//! `GET /api/v1/orchestrator/jobs/:jobID/results`.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{Server, answer, job_path, job_with, list, plain_job, task_with, text};

crate::covers! {
    "listResults" => results_are_listed_while_other_executions_run;
}

#[tokio::test]
async fn results_are_listed_while_other_executions_run() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut job = task_with(json!({ "Publisher": { "Type": "local" } }));
    job["Count"] = json!(3);
    let id = server.submit(job).await;
    let path = format!("{}/results", job_path(&id));
    assert_eq!(server.get(&path).await.ok(), &json!({ "Results": [], "NextToken": "" }));

    let placed = executions(&server, &id, 3).await;
    let result = |number: usize| json!({ "Type": "local", "Params": { "URL": format!("http://u{number}/x") } });
    for (number, execution) in placed.iter().enumerate().skip(1) {
        node.complete(&server, &text(&execution["ID"]), result(number)).await;
    }
    let answer = server.get(&path).await;
    assert_eq!(list(&answer.ok()["Results"]).len(), 2);
    // What the node says of the place is dropped: the archive is with this service.
    let own = placed.iter().skip(1).map(|placed| own_url(&server.url(), &text(&placed["ID"])));
    let own: BTreeSet<_> = own.collect();
    let of = |result: &Value| text(&result["Params"]["URL"]);
    assert_eq!(list(&answer.body["Results"]).iter().map(of).collect::<BTreeSet<_>>(), own);
    let first = server.get(&format!("{path}?limit=1")).await;
    let token = text(&first.ok()["NextToken"]);
    let second = server.get(&format!("{path}?limit=1&next_token={token}")).await;
    assert_eq!(second.ok()["NextToken"], "");
    let both = [first.body["Results"][0].clone(), second.body["Results"][0].clone()];
    assert_eq!(list(&answer.body["Results"])[..], both);
}

fn own_url(service: &str, execution: &str) -> String {
    format!("{service}/api/v1/orchestrator/executions/{execution}/results")
}

/// Clients fetch from the URL, so it is one of the service as the caller knows it, in each answer.
#[tokio::test]
async fn the_url_of_a_local_result_is_the_services_own() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = server.submit(task_with(json!({ "Publisher": { "Type": "local" } }))).await;
    let execution = text(&executions(&server, &id, 1).await[0]["ID"]);
    let params = json!({ "URL": "http://169.254.169.254/", "Other": "http://evil.example/" });
    node.complete(&server, &execution, json!({ "Type": "local", "Params": params })).await;
    let single = format!("/api/v1/orchestrator/executions/{execution}");
    let of_job = format!("{}/executions", job_path(&id));
    let results = format!("{}/results", job_path(&id));
    let own = server.url();
    let port = own.rsplit(':').next().expect("a port");
    for (host, base) in [
        (own.trim_start_matches("http://").to_owned(), own.clone()),
        (format!("LOCALHOST:{port}"), format!("http://LOCALHOST:{port}")),
        ("10.1.2.3".to_owned(), "http://10.1.2.3".to_owned()),
    ] {
        let get = async |path: &str| {
            let request = server.request(Method::GET, path).header("host", &host);
            answer(request).await.ok().clone()
        };
        let expected = json!({ "Type": "local", "Params": { "URL": own_url(&base, &execution) } });
        assert_eq!(get(&single).await["Execution"]["PublishedResult"], expected, "{host}");
        assert_eq!(get(&of_job).await["Executions"][0]["PublishedResult"], expected, "{host}");
        assert_eq!(get(&results).await["Results"], json!([expected]), "{host}");
    }
    let foreign = server.request(Method::GET, &single).header("host", "evil.example");
    answer(foreign).await.refused(421, "MisdirectedRequest");
    // What is elsewhere stays where its publisher says.
    let id = server.submit(task_with(json!({ "Publisher": { "Type": "local" } }))).await;
    let execution = text(&executions(&server, &id, 1).await[0]["ID"]);
    let s3 = json!({ "Type": "s3", "Params": { "Bucket": "b", "Key": "k" } });
    node.complete(&server, &execution, s3.clone()).await;
    let described = server.get(&format!("/api/v1/orchestrator/executions/{execution}")).await;
    assert_eq!(described.ok()["Execution"]["PublishedResult"], s3);
}

#[tokio::test]
async fn an_execution_that_published_nothing_is_left_out() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let answer = server.get(&format!("{}/results", job_path(&id))).await;
    assert_eq!(answer.ok(), &json!({ "Results": [], "NextToken": "" }));
}

#[tokio::test]
async fn jobs_that_do_not_end_have_no_results() {
    let server = Server::start().await;
    for job_type in ["service", "daemon"] {
        let id = server.submit(job_with(json!({ "Type": job_type }))).await;
        let answer = server.get(&format!("{}/results", job_path(&id))).await;
        answer.refused(400, "NoResultsForType").says(job_type);
    }
}
