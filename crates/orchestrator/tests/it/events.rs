//! `GET /api/v1/orchestrator/events`.

use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job, node_path};
use crate::server::{Server, job_path, job_with, list, plain_job, text};
use crate::stream::{EVENTS, Events};

crate::covers! {
    "streamEvents" => filters_select_the_streamed_events;
}

/// The history of a job according to Job History.
async fn history(server: &Server, job: &str) -> Vec<Value> {
    let answer = server.get(&format!("{}/history?limit=1000", job_path(job))).await;
    list(&answer.ok()["History"]).clone()
}

/// The event as a history has it, without names.
fn unnamed(mut event: Value) -> Value {
    for name in ["JobName", "Index", "NodeName"] {
        event.as_object_mut().expect("an event").remove(name);
    }
    event
}

fn ids(events: &[(u64, Value)]) -> Vec<u64> {
    events.iter().map(|(id, _)| *id).collect()
}

#[tokio::test]
async fn a_stream_has_only_events_committed_after_it_opened() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (before, _) = completed_job(&server, &node, plain_job()).await;
    // The join of the node is an event too, which the stream leaves out.
    let earlier = 1 + history(&server, &before).await.len() as u64;
    let mut stream = Events::open(&server, "").await;
    let greeting = stream.block().await.unwrap();
    assert_eq!((greeting.id, greeting.data), (Some(earlier), Value::Null));

    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let expected = history(&server, &id).await;
    let events = stream.events(expected.len()).await;
    let sequence: Vec<u64> = (earlier + 1..=earlier + expected.len() as u64).collect();
    assert_eq!(ids(&events), sequence);
    let names = |event: &Value| json!([event["JobName"], event["Index"], event["NodeName"]]);
    let of_job = text(&events[0].1["JobName"]);
    assert!(events[0].1.get("Index").is_none() && !of_job.is_empty());
    let node = text(&server.get(&node_path(&node.id, "")).await.ok()["Node"]["Name"]);
    let of_execution = events.iter().find(|(_, event)| event["Type"] == "ExecutionLevel");
    assert_eq!(names(&of_execution.unwrap().1), json!([of_job, 0, node]));
    let told: Vec<Value> = events.into_iter().map(|(_, event)| unnamed(event)).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_stream_resumes_after_the_last_event_also_across_a_restart() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut stream = Events::open(&server, "since=0").await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let count = history(&server, &id).await.len();
    let all = stream.events(count).await;
    drop(stream);
    server.restart().await;

    for last in [0, 1, count as u64 - 1] {
        let rest: Vec<_> = all.iter().filter(|(id, _)| *id > last).cloned().collect();
        let mut by_header = Events::resume(&server, "last_event_id=0", Some(last)).await;
        assert_eq!(by_header.block().await.unwrap().id, None, "the reader knows its position");
        assert_eq!(by_header.events(rest.len()).await, rest);
        let mut by_query = Events::open(&server, &format!("last_event_id={last}")).await;
        assert_eq!(by_query.events(rest.len()).await, rest);
    }
    // New events follow directly after old ones.
    let mut stream = Events::resume(&server, "", Some(all[1].0)).await;
    let id = server.submit(plain_job()).await;
    let events = stream.events(count - 2 + 1).await;
    assert_eq!(events[..count - 2], all[2..]);
    assert_eq!(events[count - 2].0, all[count - 1].0 + 1);
    assert_eq!(events[count - 2].1["JobID"], id);
}

#[tokio::test]
async fn filters_select_the_streamed_events() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (first, _) = completed_job(&server, &node, plain_job()).await;
    let (second, _) =
        completed_job(&server, &node, job_with(json!({ "Namespace": "other" }))).await;
    let (of_first, of_second) = (history(&server, &first).await, history(&server, &second).await);
    let both: Vec<Value> = of_first.iter().chain(&of_second).cloned().collect();
    let of_type = |events: &[Value], kind: &str| -> Vec<Value> {
        events.iter().filter(|event| event["Type"] == kind).cloned().collect()
    };
    let moment = text(&of_second[0]["Time"]);
    for (query, expected) in [
        ("".to_owned(), both.clone()),
        (format!("job_id={first}"), of_first.clone()),
        (format!("job_id={}", &second[..10]), of_second.clone()),
        ("namespace=other".to_owned(), of_second.clone()),
        ("namespace=default".to_owned(), of_first.clone()),
        ("namespace=*".to_owned(), both.clone()),
        (format!("job_id={first}&namespace=other"), Vec::new()),
        ("event_type=job".to_owned(), of_type(&both, "JobLevel")),
        ("event_type=execution".to_owned(), of_type(&both, "ExecutionLevel")),
        ("event_type=all".to_owned(), both.clone()),
        (format!("event_type=job&job_id={second}"), of_type(&of_second, "JobLevel")),
        (format!("since={moment}"), of_second.clone()),
    ] {
        let mut stream = Events::open(&server, &format!("last_event_id=0&{query}")).await;
        let told: Vec<Value> = stream
            .events(expected.len())
            .await
            .into_iter()
            .map(|(_, event)| unnamed(event))
            .collect();
        assert_eq!(told, expected, "{query}");
    }
    // No event of one job appears on the stream of another.
    let mut stream = Events::open(&server, &format!("job_id={first}&last_event_id=0")).await;
    stream.events(of_first.len()).await;
    completed_job(&server, &node, plain_job()).await;
    server.delete(&job_path(&first)).await.refused(409, "JobFinished");
    drop(server);
    while let Some(block) = stream.block().await {
        assert_eq!(block.data, Value::Null);
    }
}

#[tokio::test]
async fn since_sets_where_a_stream_begins() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let all = history(&server, &id).await;
    let third = text(&all[3]["Time"]);
    let later = all.iter().filter(|event| text(&event["Time"]) >= third).count();
    let mut stream = Events::open(&server, &format!("since={third}")).await;
    let events = stream.events(later).await;
    assert_eq!(events[0].0, (1 + all.len() - later + 1) as u64, "the node joined first");
    let told: Vec<Value> = events.into_iter().map(|(_, event)| unnamed(event)).collect();
    assert_eq!(told, all[all.len() - later..]);
    let mut stream = Events::open(&server, "since=0").await;
    assert_eq!(stream.events(all.len()).await.len(), all.len());
}

#[tokio::test]
async fn an_invalid_query_is_refused_before_anything_is_streamed() {
    let server = Server::start().await;
    let path = |query: &str| format!("{EVENTS}?{query}");
    for query in ["event_type=evaluation", "since=yesterday", "last_event_id=x", "last_event_id=-1"]
    {
        server.get(&path(query)).await.refused(400, "InvalidQuery");
    }
    let answer = server.get(&path("last_event_id=1")).await;
    answer.refused(400, "InvalidQuery").says("the last event is 0");
    for (job, code) in [("j-00000000", "JobNotFound"), ("nonsense", "JobNotFound")] {
        server.get(&path(&format!("job_id={job}"))).await.refused(404, code);
    }
    for value in ["x", "-1", "1.5", "+1", "99999999999999999999"] {
        let request = server.request(reqwest::Method::GET, EVENTS).header("Last-Event-ID", value);
        crate::server::answer(request).await.refused(400, "InvalidRequest").says("Last-Event-ID");
    }
    server.put(EVENTS, &json!({})).await.refused(405, "MethodNotAllowed");
}

#[tokio::test]
async fn a_stop_ends_the_streams_at_once() {
    let mut server = Server::start().await;
    let mut streams = Vec::new();
    for query in ["", "event_type=job", "since=0"] {
        let mut stream = Events::open(&server, query).await;
        stream.block().await.unwrap();
        streams.push(stream);
    }
    let began = std::time::Instant::now();
    server.stop().await;
    // The drain timeout would have ended them too, after ten seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(8), "{:?}", began.elapsed());
    for stream in &mut streams {
        assert_eq!(stream.block().await, None);
    }
}

#[tokio::test]
async fn a_stalled_reader_delays_no_other_and_misses_nothing() {
    let server = Server::start().await;
    let mut stalled = Events::open(&server, "since=0").await;
    let mut prompt = Events::open(&server, "since=0").await;
    // More than the sockets on both sides buffer, so that the stalled stream really blocks: the
    // longest reasons, of four bytes a character.
    let reason = "%F0%9F%8C%8D".repeat(1000);
    let mut ids = Vec::new();
    for _ in 0..25 {
        let jobs = (0..100).map(|_| server.submit(plain_job()));
        for id in futures_util::future::join_all(jobs).await {
            ids.push(id);
        }
    }
    // A hundred at a time: the system refuses connections beyond its backlog.
    for some in ids.chunks(100) {
        let stops = some.iter().map(|id| {
            let path = format!("{}?reason={reason}", job_path(id));
            let server = &server;
            async move { server.delete(&path).await.ok()["EvaluationID"].clone() }
        });
        futures_util::future::join_all(stops).await;
    }
    let expected: Vec<u64> = (1..=2 * ids.len() as u64).collect();
    let told = prompt.events(expected.len()).await;
    assert_eq!(self::ids(&told), expected);
    assert_eq!(stalled.events(expected.len()).await, told);
}
