//! `jobctl rerun`.

use crate::fake_node::FakeNode;
use crate::service::Service;

#[tokio::test]
async fn a_job_that_failed_runs_again_with_changes_and_shows_its_output() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let ran = service.run(&["run", "-q", "--name", "first", "exit-3"]).await;
    assert_eq!(ran.code, Some(3), "{ran}");
    let first = service.only_job().await.id.to_string();
    let directory = tempfile::tempdir().unwrap();
    let patch = directory.path().join("patch.yaml");
    let text = "Name: second\nTasks: [{Engine: {Params: {Image: ok}}}]\n";
    std::fs::write(&patch, text).unwrap();
    let patch = patch.to_str().unwrap();

    let rerun = ["rerun", "first", "--failed", "--patch", patch];
    let shown = service.run(&[&rerun[..], &["--dry-run"]].concat()).await;
    assert!(shown.stdout.contains("Indexes that would run: 0"), "{shown}");
    let ran = service.run(&[&rerun[..], &["-q"]].concat()).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hello\n"), "{ran}");

    let ran = service.run(&["rerun", "second", "--failed"]).await;
    assert!(ran.stderr.contains("none of the job's indexes failed"), "{ran}");
    let ran = service.run(&["rerun", &first, "--indexes", "7", "--detach"]).await;
    assert!(ran.stderr.contains("an index that the job does not have"), "{ran}");
    let refused = service.run(&["rerun", "first", "-o", "json"]).await;
    assert!(refused.stderr.contains("rerun shows the output of the task"), "{refused}");
    let detached = service.run(&["rerun", &first, "--not-completed", "--detach"]).await;
    assert!(detached.stdout.starts_with("j-"), "{detached}");
}
