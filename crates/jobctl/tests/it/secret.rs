//! `jobctl secret …`, and `jobctl run --secret`.

use serde_json::json;

use crate::service::Service;
use crate::transcript::Transcript;

#[track_caller]
fn done(ran: &Transcript) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.trim()
}

#[tokio::test]
async fn a_secret_is_set_from_a_file_and_from_standard_input_and_never_shown() {
    let service = Service::start().await;
    let set = ["secret", "set", "prod/db"];
    let ran = service.run_with_input(&set, "hunter2").await;
    assert_eq!(done(&ran), "secret prod/db is set (version 1)");
    service.write("password", "hunter3\n");
    let ran = service.run(&["secret", "set", "db", "-n", "prod", "--file", "password"]).await;
    assert_eq!(done(&ran), "secret prod/db is set (version 2)");

    let listed = service.run(&["secret", "list", "-n", "*"]).await;
    let row = done(&listed).lines().nth(1).expect("a row").to_owned();
    assert!(row.starts_with("prod") && row.contains("db"), "{listed}");
    let described = service.run(&["secret", "describe", "prod/db", "-o", "json"]).await;
    let described: serde_json::Value = serde_json::from_str(done(&described)).expect("JSON");
    assert_eq!((&described["Name"], &described["Version"]), (&json!("db"), &json!(2)));
    for ran in [&ran, &listed] {
        assert!(!format!("{ran}").contains("hunter"), "{ran}");
    }

    done(&service.run(&["secret", "delete", "prod/db"]).await);
    let gone = service.run(&["secret", "describe", "prod/db"]).await;
    assert_eq!(gone.code, Some(122));
    assert!(gone.stderr.contains("no secret matches 'db'"), "{}", gone.stderr);
    let both = service.run_with_input(&["secret", "set", "prod/db", "-n", "test"], "x").await;
    assert_eq!(both.code, Some(120), "{}", both.stderr);
    let missing = service.run(&["secret", "set", "db", "--file", "nothing"]).await;
    assert_eq!(missing.code, Some(125), "{}", missing.stderr);
}

#[tokio::test]
async fn a_value_that_is_too_long_is_refused() {
    let service = Service::start().await;
    let long = "x".repeat(100 << 10);
    let refused = service.run_with_input(&["secret", "set", "db"], &long).await;
    assert_eq!(refused.code, Some(122));
    assert!(refused.stderr.contains("must not be longer than 32768 bytes"), "{}", refused.stderr);
}

#[tokio::test]
async fn run_names_secrets_for_its_task() {
    let service = Service::start().await;
    let secrets = ["--secret", "db", "--secret", "key:/etc/key", "--secret", "token:TOKEN"];
    let ran = service.run(&[&["run", "--detach"], &secrets[..], &["image"]].concat()).await;
    done(&ran);
    assert!(ran.stderr.contains("secret 'db' does not exist in namespace 'default'"), "{ran}");
    let task = &service.only_job().await.spec.tasks[0];
    let expected = json!([
        { "Name": "db", "Path": "/run/secrets/db" },
        { "Name": "key", "Path": "/etc/key" },
        { "Name": "token", "Env": "TOKEN" },
    ]);
    assert_eq!(serde_json::to_value(&task.secrets).expect("JSON"), expected);
}

#[tokio::test]
async fn keys_are_listed_and_replaced() {
    let service = Service::start().await;
    let refused = service.run(&["key", "rotate", "secrets"]).await;
    assert_eq!(refused.code, Some(122), "{refused}");
    assert!(refused.stderr.contains("no such key yet"), "{refused}");
    done(&service.run_with_input(&["secret", "set", "db"], "hunter2").await);
    let ids = |ran: &Transcript| -> Vec<String> {
        let rows = done(ran).lines().skip(1).map(|row| row.split_whitespace().take(3).collect());
        rows.map(|words: Vec<_>| words.join(" ")).collect()
    };
    let before = ids(&service.run(&["key", "list"]).await);
    assert!(before.iter().any(|row| row.starts_with("secrets") && row.ends_with("active")));
    let after = ids(&service.run(&["keys", "rotate", "cluster"]).await);
    assert_eq!(before.len(), after.len());
    let unknown = service.run(&["key", "rotate", "other"]).await;
    assert_eq!(unknown.code, Some(120), "{unknown}");
}
