//! What one caller holds, others do not miss.

use std::time::{Duration, Instant};

use reqwest::{Method, Response, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::Guarded;
use crate::server::{Answer, JOBS, PATIENCE, answer, job_with, text};

const CHANGES: &str = "/api/v1/orchestrator/changes";
const EVENTS: &str = "/api/v1/orchestrator/events";

/// More than any single caller gets of a pool.
const MANY: usize = 600;

/// Opens what stays open until that is refused; returns what is open, and the refusal.
async fn fill(guarded: &Guarded, paths: &[&str], token: &str) -> (Vec<Response>, Answer) {
    let mut open = Vec::new();
    for path in paths.iter().cycle().take(MANY) {
        let response =
            guarded.request(Method::GET, path, token, None).send().await.expect("an answer");
        if response.status() != StatusCode::OK {
            assert_eq!(response.headers()["retry-after"], "1");
            let refused = answer(guarded.request(Method::GET, path, token, None)).await;
            return (open, refused);
        }
        open.push(response);
    }
    panic!("{} requests were all accepted", open.len());
}

/// One more, which is accepted.
async fn one(guarded: &Guarded, path: &str, token: &str) -> Response {
    let response = guarded.request(Method::GET, path, token, None).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    response
}

async fn metric(guarded: &Guarded, name: &str) -> Vec<String> {
    let metrics = guarded.ask(Method::GET, "/metrics", &guarded.admin, None).await;
    let lines = metrics.text.lines().filter(|line| line.starts_with(name));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn streams_of_one_viewer_leave_others_theirs() {
    let guarded = Guarded::start().await;
    let viewer = guarded.token("viewer", &["home"]).await;
    let (mut open, refused) = fill(&guarded, &[EVENTS, CHANGES], &viewer).await;
    let share = format!("this caller holds {} of", open.len());
    refused.refused(429, "TooManyRequests").says(&share).says("event streams, its share");
    // A sign-in with the token is the same principal, and another token of the namespace is not.
    let colleague = guarded.token("viewer", &["home"]).await;
    let (more, refused) = fill(&guarded, &[EVENTS], &colleague).await;
    assert!(!more.is_empty() && more.len() < open.len());
    refused.refused(429, "TooManyRequests").says("namespace 'home' hold");
    open.extend(more);
    for number in 0..3 {
        let token = guarded.token("viewer", &["home"]).await;
        let path = if number == 0 { EVENTS } else { CHANGES };
        guarded.ask(Method::GET, path, &token, None).await.refused(429, "TooManyRequests");
    }
    let away = guarded.token("viewer", &["away"]).await;
    let both = guarded.token("viewer", &["away", "home"]).await;
    let operator = guarded.token("operator", &["*"]).await;
    for token in [&away, &both, &operator, &guarded.admin] {
        open.push(one(&guarded, EVENTS, token).await);
        open.push(one(&guarded, CHANGES, token).await);
    }

    let refusals = metric(&guarded, "orchestrator_pool_refusals_total").await.join("\n");
    assert!(refusals.contains(r#"pool="event_stream",refused="home""#), "{refusals}");
    for token in [&viewer, &colleague] {
        assert!(!refusals.contains(crate::access::id_of(token)), "no tokens: {refusals}");
    }
    let held = format!(r#"orchestrator_pool_used{{pool="event_stream"}} {}"#, open.len());
    assert_eq!(metric(&guarded, r#"orchestrator_pool_used{pool="event_stream"#).await, [held]);
    drop(open);
    let begin = Instant::now();
    loop {
        let path = format!("{EVENTS}?since=0");
        let again = guarded.request(Method::GET, &path, &viewer, None).send().await.unwrap();
        if again.status() == StatusCode::OK {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "the permits did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The only value of a metric of a pool.
async fn of_pool(guarded: &Guarded, metric_name: &str, pool: &str) -> usize {
    let lines = metric(guarded, &format!(r#"{metric_name}{{pool="{pool}""#)).await;
    let value = lines.first().and_then(|line| line.rsplit_once(' ')).expect("a value").1;
    value.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_reads_of_one_viewer_leave_others_theirs() {
    const POOL: &str = "waiting_read";
    let guarded = Guarded::start().await;
    let viewer = guarded.token("viewer", &["home"]).await;
    let path = format!("{JOBS}/{}", guarded.job);
    let record = guarded.ask(Method::GET, &path, &viewer, None).await;
    let revision = &record.ok()["Job"]["Revision"];
    let waiting = |wait: &str| format!("{path}?wait={wait}&after_revision={revision}");
    // An eighth is reserved for operators and admins; of the rest, one token gets a third.
    let total = of_pool(&guarded, "orchestrator_pool_size", POOL).await;
    let share = (total - total / 8) / 3;
    let reads: Vec<_> = (0..share + 20)
        .map(|_| tokio::spawn(guarded.request(Method::GET, &waiting("200s"), &viewer, None).send()))
        .collect();
    let begin = Instant::now();
    loop {
        let used = of_pool(&guarded, "orchestrator_pool_used", POOL).await;
        let refused = reads.iter().filter(|read| read.is_finished()).count();
        if used + refused == reads.len() {
            assert!(used.abs_diff(share) <= 1, "{used} of {total}");
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{used} wait, {refused} are refused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = guarded.ask(Method::GET, &waiting("10ms"), &viewer, None).await;
    refused.refused(429, "TooManyRequests").says("waiting reads, its share");
    let colleague = guarded.token("viewer", &["home"]).await;
    let operator = guarded.token("operator", &["*"]).await;
    for token in [&colleague, &operator, &guarded.admin] {
        guarded.ask(Method::GET, &waiting("10ms"), token, None).await.ok();
    }
    // A read that ends returns its permit.
    for read in &reads {
        read.abort();
    }
    let begin = Instant::now();
    while of_pool(&guarded, "orchestrator_pool_used", POOL).await > 0 {
        assert!(begin.elapsed() < PATIENCE, "the permits did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guarded.ask(Method::GET, &waiting("10ms"), &viewer, None).await.ok();
}

#[tokio::test]
async fn log_readers_of_one_submitter_leave_others_theirs() {
    let guarded = Guarded::start().await;
    let submitter = guarded.token("submitter", &["home"]).await;
    let path = format!("{JOBS}/{}/logs?follow", guarded.job);
    let (_open, refused) = fill(&guarded, &[&path], &submitter).await;
    refused.refused(429, "TooManyRequests").says("log requests, its share");
    let away = guarded.token("submitter", &["away"]).await;
    let body = json!({ "Job": job_with(json!({ "Namespace": "away" })) });
    let created = guarded.ask(Method::PUT, JOBS, &away, Some(&body)).await;
    let elsewhere = format!("{JOBS}/{}/logs?follow", text(&created.ok()["JobID"]));
    let _one = one(&guarded, &elsewhere, &away).await;
    let _another = one(&guarded, &path, &guarded.admin).await;
    // What was asked for in vain holds nothing.
    let absent = format!("{JOBS}/j-00000000-0000-4000-8000-000000000000/logs");
    guarded.ask(Method::GET, &absent, &away, None).await.refused(404, "JobNotFound");
}

/// A request to the open operation of sign-ins, of which this much arrives.
async fn unfinished(guarded: &Guarded, announced: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(guarded.server.address()).await.expect("a connection");
    let head = format!(
        "POST /api/v1/auth/session HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{}",
        "x".repeat(sent)
    );
    stream.write_all(head.as_bytes()).await.expect("it is sent");
    stream
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await.expect("an end").ok();
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn unfinished_bodies_of_unknown_callers_hold_nothing_up() {
    let guarded = Guarded::start().await;
    let mut bodies = Vec::new();
    for _ in 0..40 {
        bodies.push(unfinished(&guarded, 20_000, 18_000).await);
    }
    let bodies_used = r#"orchestrator_pool_used{pool="large_body""#;
    assert_eq!(metric(&guarded, bodies_used).await, [format!("{bodies_used}}} 0")]);
    let submitter = guarded.token("submitter", &["home"]).await;
    let large =
        job_with(json!({ "Namespace": "home", "Meta": { "padding": "x".repeat(100_000) } }));
    let body = json!({ "Job": large });
    guarded.ask(Method::PUT, JOBS, &submitter, Some(&body)).await.ok();
    let begin = Instant::now();
    for body in bodies {
        let text = rest(body).await;
        assert!(text.starts_with("HTTP/1.1 400") && text.contains("MalformedBody"), "{text}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "a body that does not grow is cut off");
    // Longer ones are refused however they come.
    let long = json!({ "Token": "x".repeat(24 * 1024) });
    let refused = guarded.ask(Method::POST, "/api/v1/auth/session", "", Some(&long)).await;
    refused.refused(413, "BodyTooLarge").says("larger than 24576 bytes");
    let fits = json!({ "Token": "x".repeat(23 * 1024) });
    let unknown = guarded.ask(Method::POST, "/api/v1/auth/session", "", Some(&fits)).await;
    unknown.refused(401, "Unauthenticated");
}

#[tokio::test]
async fn a_known_caller_holds_memory_no_longer_than_its_body_grows() {
    let guarded = Guarded::start().await;
    let submitter = guarded.token("submitter", &["home"]).await;
    let mut stream = TcpStream::connect(guarded.server.address()).await.unwrap();
    let head = format!(
        "PUT {JOBS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {submitter}\r\n\
         Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n{}",
        "x".repeat(100_000)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let text = rest(stream).await;
    assert!(text.starts_with("HTTP/1.1 400") && text.contains("MalformedBody"), "{text}");
    let bodies_used = r#"orchestrator_pool_used{pool="large_body""#;
    assert_eq!(metric(&guarded, bodies_used).await, [format!("{bodies_used}}} 0")]);
}

/// A document that takes long to read, and is refused in the end.
fn long_yaml() -> String {
    format!("Job: {{Namespace: home, Labels: [{}]}}", "[a],".repeat(100_000))
}

#[tokio::test]
async fn a_crowd_of_long_bodies_is_one_in_line_with_others() {
    let guarded = Guarded::start().await;
    let (home, away) =
        (guarded.token("submitter", &["home"]).await, guarded.token("submitter", &["away"]).await);
    let submit = |token: &str, yaml: String| {
        let request = guarded.request(Method::PUT, JOBS, token, None);
        tokio::spawn(request.header("Content-Type", "application/yaml").body(yaml).send())
    };
    let crowd: Vec<_> = (0..12).map(|_| submit(&home, long_yaml())).collect();
    let begin = Instant::now();
    while !crowd.iter().any(|sent| sent.is_finished()) {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let job = job_with(json!({ "Namespace": "away" }));
    let small = submit(&away, json!({ "Job": job }).to_string());
    assert_eq!(small.await.unwrap().unwrap().status(), 200);
    let finished = crowd.iter().filter(|sent| sent.is_finished()).count();
    assert!(finished < 8, "{finished} of the crowd came first");
    for sent in crowd {
        let status = sent.await.unwrap().unwrap().status();
        assert!(status == 400 || status == 429, "{status}");
    }
}
