//! `jobctl explain`.

use api_types::job::JobStateType;
use insta::assert_snapshot;
use serde_json::Value;

use crate::fake_node::FakeNode;
use crate::service::Service;

const PICKY: &str = "\
Type: batch
Name: picky
Constraints: [{Key: zone, Operator: '=', Values: [a]}]
Tasks:
- Name: main
  Engine: {Type: docker, Params: {Image: ok}}
  Resources: {Memory: 16gb}
";

#[tokio::test]
async fn a_queued_job_is_explained_node_by_node() {
    let service = Service::start().await;
    let _alpha = FakeNode::idle(&service, 1).await;
    let _beta = FakeNode::idle(&service, 2).await;
    let id = service.submit(PICKY).await;
    service.until(&id, JobStateType::Queued).await;
    // The message is updated shortly after the state.
    let begin = std::time::Instant::now();
    while !service.client.describe_job(&id).await.unwrap().state.message.contains("memory") {
        assert!(begin.elapsed() < crate::service::TIMEOUT, "the message does not mention memory");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_snapshot!(service.run(&["explain", &id]).await.normal());
    let json = service.run(&["explain", &id, "-o", "json"]).await;
    let explained: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(explained["State"], "Queued");
    assert_eq!(explained["Nodes"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_failed_job_is_explained_by_its_executions() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&PICKY.replace("16gb", "1gb").replace("ok", "exit-3")).await;
    service.until(&id, JobStateType::Failed).await;
    assert_snapshot!(service.run(&["explain", &id]).await.normal());
}

#[tokio::test]
async fn a_service_in_a_crash_loop_says_how_often_since_when_and_why() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let job = PICKY.replace("batch", "service").replace("16gb", "1gb").replace("ok", "exit-3");
    let id = service.submit(&format!("{job}RetryPolicy: {{Delay: 1, MaxDelay: 1}}\n")).await;
    let begin = std::time::Instant::now();
    loop {
        let message = service.client.describe_job(&id).await.unwrap().state.message;
        if message.contains(" 3 tries since ") {
            break;
        }
        assert!(begin.elapsed() < crate::service::TIMEOUT, "{message}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    for arguments in [&["describe", &id][..], &["explain", &id], &["list", "-o", "wide"]] {
        let shown = service.run(arguments).await.stdout;
        assert!(shown.contains("exit code 3 (1 node, "), "{shown}");
        let (_, since) = shown.split_once(" tries since ").expect("it says since when");
        // Like `2026-01-02 03:04:05 +00:00`: of this machine's zone.
        assert!(since.get(10..11) == Some(" ") && since.get(19..20) == Some(" "), "{shown}");
    }
}

#[tokio::test]
async fn a_job_at_its_limit_says_what_holds_it_back() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let limited = ["run", "--detach", "--count", "3", "--max-running", "2", "forever"];
    let id = service.run(&limited).await.stdout.trim().to_owned();
    service.until(&id, JobStateType::Running).await;
    let explained = service.run(&["explain", &id]).await.stdout;
    assert!(explained.contains("2 of 2 executions run, as MaxRunning allows"), "{explained}");
    assert!(explained.contains("Held back"), "{explained}");
    let described = service.run(&["describe", &id]).await.stdout;
    assert!(described.contains("Max running"), "{described}");
}
