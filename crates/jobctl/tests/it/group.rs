//! `jobctl group …`, and `jobctl run --group`.

use serde_json::json;

use crate::service::Service;
use crate::transcript::Transcript;

#[track_caller]
fn done(ran: &Transcript) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.trim()
}

#[tokio::test]
async fn a_group_is_put_shown_with_its_jobs_and_deleted() {
    let service = Service::start().await;
    let unknown = service.run(&["run", "--detach", "--group", "db", "image"]).await;
    assert_eq!(unknown.code, Some(122));
    assert!(unknown.stderr.contains("`jobctl group put default/db --limit N`"), "{unknown}");
    let paused = service.run(&["group", "put", "db", "--limit", "0"]).await;
    assert_eq!(done(&paused), "group default/db has limit 0 and is paused");
    let ran = service.run(&["run", "--detach", "--name", "import", "--group", "db", "image"]).await;
    done(&ran);
    assert_eq!(service.only_job().await.spec.concurrency_groups, ["db"]);

    let listed = service.run(&["group", "list"]).await;
    let row = done(&listed).lines().nth(1).expect("a row").to_owned();
    assert!(row.contains("db") && row.contains("0 (paused)"), "{listed}");
    let described = service.run(&["group", "describe", "default/db"]).await;
    let text = done(&described);
    assert!(text.contains("Waiting jobs") && text.contains("import (j-"), "{text}");
    let described = service.run(&["group", "describe", "db", "-o", "json"]).await;
    let described: serde_json::Value = serde_json::from_str(done(&described)).expect("JSON");
    assert_eq!((&described["Limit"], &described["Waiting"]), (&json!(0), &json!(1)));

    let in_use = service.run(&["group", "delete", "db"]).await;
    assert_eq!(in_use.code, Some(122));
    assert!(in_use.stderr.contains("live jobs that name it: 1"), "{in_use}");
    done(&service.run(&["stop", "import"]).await);
    assert_eq!(done(&service.run(&["group", "delete", "db"]).await), "group default/db is deleted");
    let gone = service.run(&["group", "describe", "db"]).await;
    assert!(gone.stderr.contains("no concurrency group matches 'db'"), "{gone}");
}

#[tokio::test]
async fn a_job_that_replaces_others_says_so() {
    let service = Service::start().await;
    done(&service.run(&["group", "put", "deploy", "--limit", "1"]).await);
    let run = ["run", "--detach", "--group", "deploy", "--on-conflict", "replace", "image"];
    done(&service.run(&run).await);
    let job = service.only_job().await;
    let described = service.run(&["describe", &job.id.to_string()]).await;
    let text = done(&described);
    assert!(text.contains("deploy") && text.contains("Replace"), "{text}");
}
