//! `jobctl credential …`, and `jobctl run --credentials`.

use serde_json::json;

use crate::service::Service;
use crate::transcript::Transcript;

#[track_caller]
fn done(ran: &Transcript) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.trim()
}

#[tokio::test]
async fn credentials_of_each_type_are_set_and_never_shown() {
    let service = Service::start().await;
    let set = ["credential", "set", "prod/ghcr", "--type", "registry", "--host", "ghcr.io"];
    let ran = service.run_with_input(&[&set[..], &["-u", "ci"]].concat(), "hunter2\n").await;
    assert_eq!(done(&ran), "credentials prod/ghcr are set (version 1)");
    service.write("key", "hunter3\r\n");
    let s3 = ["credential", "set", "out", "-n", "prod", "--type", "s3", "--host", "h.example:9000"];
    let keys = ["--bucket", "b", "--access-key-id", "AKIA", "--file", "key"];
    done(&service.run(&[&s3[..], &keys].concat()).await);
    let http = ["credential", "set", "prod/files", "-t", "http", "--host", "*.files.example"];
    done(&service.run_with_input(&http, "hunter4").await);

    let listed = service.run(&["credential", "list", "-n", "prod"]).await;
    let rows: Vec<Vec<_>> =
        done(&listed).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..5], ["NAMESPACE", "NAME", "TYPE", "HOSTS", "BUCKETS"]);
    assert_eq!(rows[1][..5], ["prod", "files", "http", "*.files.example", "-"]);
    assert_eq!(rows[2][..5], ["prod", "ghcr", "registry", "ghcr.io", "-"]);
    assert_eq!(rows[3][..5], ["prod", "out", "s3", "h.example:9000", "b"]);
    let described = service.run(&["credential", "describe", "prod/out", "-o", "json"]).await;
    let found: serde_json::Value = serde_json::from_str(done(&described)).expect("JSON");
    assert_eq!((&found["Type"], &found["Buckets"]), (&json!("s3"), &json!(["b"])));
    assert_eq!(found.get("Login"), None);
    let text = service.run(&["credential", "describe", "prod/out"]).await;
    for ran in [&listed, &described, &text] {
        let shown = format!("{ran}");
        assert!(!shown.contains("hunter") && !shown.contains("AKIA"), "{shown}");
    }
    done(&service.run(&["credential", "delete", "prod/out", "prod/ghcr"]).await);
    let gone = service.run(&["credential", "describe", "prod/out"]).await;
    assert_eq!(gone.code, Some(122));
    assert!(gone.stderr.contains("no credential matches 'out'"), "{}", gone.stderr);
}

#[tokio::test]
async fn what_a_type_lacks_is_said_before_anything_is_asked_for() {
    let service = Service::start().await;
    let set = ["credential", "set", "x", "--host", "h.example", "--type"];
    for (kind, needed) in
        [("git", "--username"), ("registry", "--username"), ("s3", "--access-key-id")]
    {
        let refused = service.run_with_input(&[&set[..], &[kind]].concat(), "x").await;
        assert_eq!(refused.code, Some(120), "{}", refused.stderr);
        assert!(
            refused.stderr.contains(&format!("type {kind} needs {needed}")),
            "{}",
            refused.stderr
        );
    }
    let refused = service.run_with_input(&[&set[..], &["ftp"]].concat(), "x").await;
    assert!(refused.stderr.contains("known: registry, s3, git, http"), "{}", refused.stderr);
    let url = ["credential", "set", "x", "--host", "https://h/", "--type", "http"];
    let refused = service.run_with_input(&url, "x").await;
    assert!(refused.stderr.contains("must be a host"), "{}", refused.stderr);
}

#[tokio::test]
async fn run_names_credentials_for_its_image() {
    let service = Service::start().await;
    let run = ["run", "--detach", "--credentials", "ghcr", "ghcr.io/a/b:1"];
    let ran = service.run(&run).await;
    done(&ran);
    let warning = "credentials 'ghcr' do not exist in namespace 'default'";
    assert!(ran.stderr.contains(warning), "{ran}");
    let task = &service.only_job().await.spec.tasks[0];
    assert_eq!(task.engine.params["Credentials"], json!("ghcr"));

    // Once they exist, an image that they are not for is refused.
    let set = ["credential", "set", "ghcr", "-t", "registry", "--host", "other.io", "-u", "ci"];
    done(&service.run_with_input(&set, "x").await);
    let refused = service.run(&run).await;
    assert_eq!(refused.code, Some(122));
    let reason = "credentials 'ghcr' are not for ghcr.io: their Hosts are other.io";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
}
