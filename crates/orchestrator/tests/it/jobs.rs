//! `GET /api/v1/orchestrator/jobs` and `GET …/jobs/:jobID`.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job};
use crate::server::{Answer, JOBS, PATIENCE, Server, job_path, job_with, list, plain_job, text};

crate::covers! {
    "describeJob" => a_prefix_names_a_job_on_every_operation;
    "listJobs" => jobs_are_found_by_state_type_name_and_time;
}

/// The IDs of a list, in its order.
#[track_caller]
fn ids(answer: &Answer) -> Vec<String> {
    list(&answer.ok()["Jobs"]).iter().map(|job| text(&job["ID"])).collect()
}

async fn submit_several(server: &Server, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(server.submit(plain_job()).await);
    }
    ids
}

#[tokio::test]
async fn a_prefix_names_a_job_on_every_operation() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    for prefix in [&id[..10], &id[..11], &id[..20], &id, &id.to_uppercase().replacen('J', "j", 1)] {
        assert_eq!(text(&server.get(&job_path(prefix)).await.ok()["Job"]["ID"]), id, "{prefix}");
        for part in ["history", "executions", "results"] {
            server.get(&format!("{}/{part}", job_path(prefix))).await.ok();
        }
    }
    server.delete(&job_path(&id[..10])).await.ok();
}

#[tokio::test]
async fn an_ambiguous_prefix_lists_candidates() {
    let server = Server::start().await;
    let mut all = Vec::new();
    for number in 0..7 {
        let id = format!("j-12ab34cd-0000-4000-8000-00000000000{number}");
        let job = job_with(json!({ "Type": "service", "ID": id }));
        all.push(server.submit(job).await);
    }
    for path in ["j-12ab34cd", "j-12ab34cd/history", "j-12ab34cd-0000"] {
        let answer = server.get(&job_path(path)).await;
        answer.refused(409, "AmbiguousId").says("more than one job matches");
        let candidates: Vec<_> = list(&answer.body["Details"]).iter().map(text).collect();
        assert_eq!(candidates.len(), 5);
        assert!(candidates.iter().all(|id| all.contains(id)), "{candidates:?}");
    }
    server.delete(&job_path("j-12ab34cd")).await.refused(409, "AmbiguousId");
    server.get(&job_path(&all[3])).await.ok();
}

#[tokio::test]
async fn jobs_are_listed_in_the_order_of_their_creation() {
    let server = Server::start().await;
    let submitted = submit_several(&server, 4).await;
    assert_eq!(ids(&server.get(JOBS).await), submitted);
    let reversed: Vec<_> = submitted.iter().rev().cloned().collect();
    assert_eq!(ids(&server.get(&format!("{JOBS}?reverse=True")).await), reversed);
    let mut sorted = submitted.clone();
    sorted.sort();
    assert_eq!(ids(&server.get(&format!("{JOBS}?order_by=id")).await), sorted);
    sorted.reverse();
    assert_eq!(ids(&server.get(&format!("{JOBS}?order_by=id&reverse=1")).await), sorted);
    let empty = format!("{JOBS}?order_by=&next_token=&limit=&labels=&namespace=");
    assert_eq!(ids(&server.get(&empty).await), submitted);
}

#[tokio::test]
async fn a_page_holds_ten_jobs_by_default() {
    let server = Server::start().await;
    let submitted = submit_several(&server, 12).await;
    let first = server.get(JOBS).await;
    assert_eq!(ids(&first), submitted[..10]);
    let token = text(&first.body["NextToken"]);
    let second = server.get(&format!("{JOBS}?next_token={token}")).await;
    assert_eq!(ids(&second), submitted[10..]);
    assert_eq!(second.body["NextToken"], "");
    let all = server.get(&format!("{JOBS}?limit=12")).await;
    assert_eq!((ids(&all).len(), &all.body["NextToken"]), (12, &json!("")));
    assert_eq!(ids(&server.get(&format!("{JOBS}?limit=99999999999")).await).len(), 12);
}

#[tokio::test]
async fn paging_neither_repeats_nor_hides_while_jobs_are_added() {
    let server = Server::start().await;
    for query in ["order_by=create_time", "order_by=create_time&reverse=1", "order_by=id"] {
        let before: HashSet<String> = submit_several(&server, 7).await.into_iter().collect();
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("{JOBS}?limit=2&{query}&next_token={token}")).await;
            seen.extend(ids(&page));
            token = text(&page.body["NextToken"]);
            if token.is_empty() {
                break;
            }
            // Slower than the pages, so that the list ends.
            server.submit(plain_job()).await;
        }
        let unique: HashSet<String> = seen.iter().cloned().collect();
        assert_eq!(unique.len(), seen.len(), "{query}: none is repeated");
        assert!(before.is_subset(&unique), "{query}: none is hidden");
    }
}

#[tokio::test]
async fn namespaces_keep_jobs_apart() {
    let server = Server::start().await;
    let here = server.submit(plain_job()).await;
    let there = server.submit(job_with(json!({ "Namespace": "team" }))).await;
    assert_eq!(ids(&server.get(JOBS).await), std::slice::from_ref(&here));
    assert_eq!(
        ids(&server.get(&format!("{JOBS}?namespace=default")).await),
        std::slice::from_ref(&here)
    );
    assert_eq!(
        ids(&server.get(&format!("{JOBS}?namespace=team")).await),
        std::slice::from_ref(&there)
    );
    assert_eq!(ids(&server.get(&format!("{JOBS}?namespace=*")).await), [here, there.clone()]);
    assert_eq!(ids(&server.get(&format!("{JOBS}?namespace=none")).await), [""; 0]);
    server.get(&job_path(&there)).await.ok();
}

#[tokio::test]
async fn labels_select_jobs() {
    let server = Server::start().await;
    let labelled = |labels: Value| job_with(json!({ "Labels": labels }));
    let a = server.submit(labelled(json!({ "env": "prod", "size": "5" }))).await;
    let b = server.submit(labelled(json!({ "env": "dev", "size": "10" }))).await;
    let c = server.submit(plain_job()).await;
    for (query, expected) in [
        ("labels=env%3Dprod", vec![&a]),
        ("labels=env==dev", vec![&b]),
        ("labels=env!=prod", vec![&b, &c]),
        ("labels=env+in+(prod,dev)", vec![&a, &b]),
        ("labels=env%20notin%20(prod)", vec![&b, &c]),
        ("labels=env", vec![&a, &b]),
        ("labels=!env", vec![&c]),
        ("labels=size%3E5", vec![&b]),
        ("labels=size%3C10", vec![&a]),
        ("labels=env,size%3E5", vec![&b]),
        ("labels=env&labels=size%3C10", vec![&a]),
        ("labels=env=prod&labels=env=dev", vec![]),
    ] {
        let found = ids(&server.get(&format!("{JOBS}?{query}")).await);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn jobs_are_found_by_state_type_name_and_time() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (done, _) = completed_job(&server, &node, job_with(json!({ "Name": "first" }))).await;
    let running = server.submit(job_with(json!({ "Type": "service", "Name": "second" }))).await;
    let stopped = server.submit(job_with(json!({ "Name": "third" }))).await;
    server.delete(&job_path(&stopped)).await.ok();

    let created = |job: Value| job["Job"]["CreateTime"].as_i64().unwrap();
    let second = created(server.get(&job_path(&running)).await.ok().clone());
    let moment = format!("{}.{:09}", second / 1_000_000_000, second % 1_000_000_000);
    for (query, expected) in [
        ("state=Completed".to_owned(), vec![&done]),
        ("state=completed,STOPPED".to_owned(), vec![&done, &stopped]),
        ("state=Failed".to_owned(), vec![]),
        ("type=service".to_owned(), vec![&running]),
        ("type=Batch".to_owned(), vec![&done, &stopped]),
        ("name=third".to_owned(), vec![&stopped]),
        (format!("created_after={moment}"), vec![&running, &stopped]),
        (format!("created_before={moment}"), vec![&done]),
        ("created_before=2001-01-01T00:00:00Z".to_owned(), vec![]),
        (format!("created_after={moment}&type=batch&state=Stopped"), vec![&stopped]),
    ] {
        let found = ids(&server.get(&format!("{JOBS}?{query}")).await);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn a_queued_job_reports_why_it_waits() {
    let server = Server::start().await;
    let job = job_with(json!({
        "Constraints": [{ "Key": "region", "Operator": "=", "Values": ["north"] }],
    }));
    let id = server.submit(job).await;
    let state = |answer: Answer| answer.ok()["Job"]["State"].clone();
    let alone = state(server.get(&job_path(&id)).await);
    assert_eq!(alone["StateType"], "Queued");
    FakeNode::join(&server).await;
    // The reasons why jobs wait are updated a few times a second.
    let begin = std::time::Instant::now();
    let joined = loop {
        let joined = state(server.get(&job_path(&id)).await);
        if joined["Message"] != alone["Message"] {
            break joined;
        }
        assert!(begin.elapsed() < PATIENCE, "{joined}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(joined["StateType"], "Queued");
    assert!(text(&joined["Message"]).contains("label region"), "{joined}");
    let listed = server.get(JOBS).await;
    assert_eq!(listed.ok()["Jobs"][0]["State"], joined);
}

#[tokio::test]
async fn jobs_survive_a_restart_as_they_were() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (done, _) = completed_job(&server, &node, plain_job()).await;
    let paths: Vec<String> =
        ["", "/history", "/executions"].iter().map(|part| job_path(&done) + part).collect();
    let mut before = Vec::new();
    for path in &paths {
        before.push(server.get(path).await.text);
    }
    server.restart().await;
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(server.get(path).await.text, before);
    }
}
