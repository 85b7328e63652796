//! `/api/v1/orchestrator/tokens`.

use std::time::{Duration, Instant};

use orchestrator::settings::Auth;
use reqwest::Method;
use serde_json::{Value, json};

use crate::access::{Guarded, id_of, secret_of};
use crate::lateness::Lateness;
use crate::server::{JOBS, PATIENCE, Server, list, text};

crate::covers! {
    "listTokens" => a_token_is_listed_without_its_secret_and_revoked;
    "createToken" => a_token_is_listed_without_its_secret_and_revoked;
    "revokeToken" => a_token_is_listed_without_its_secret_and_revoked;
}

const TOKENS: &str = "/api/v1/orchestrator/tokens";
const IDENTITY: &str = "/api/v1/auth/identity";

/// Longer than it takes to notice that a right has ended.
const A_SECOND: Duration = Duration::from_millis(1500);

#[tokio::test]
async fn a_token_is_listed_without_its_secret_and_revoked() {
    // A listener that asks for no credentials manages tokens all the same, before it asks for some.
    let server = Server::start().await;
    let body = json!({ "Name": " build server ", "TTLSeconds": 3600 });
    let created = crate::server::answer(server.request(Method::POST, TOKENS).json(&body)).await;
    let secret = text(&created.ok()["Secret"]);
    let token = &created.ok()["Token"];
    assert_eq!(token["Name"], "build server");
    assert_eq!((&token["Role"], &token["Namespaces"]), (&json!("submitter"), &json!(["default"])));
    assert_eq!((&token["CreatedBy"], &token["LastUseTime"]), (&json!("local"), &json!("")));
    assert!(text(&token["ExpireTime"]) > text(&token["CreateTime"]));

    let listed = server.get(TOKENS).await;
    assert_eq!(listed.ok()["Tokens"], json!([token]));
    let stored = std::fs::read(server.data_dir().join("orchestrator.db-wal")).unwrap_or_default();
    // The secret itself may contain a '_'.
    let tail = secret_of(&secret).as_bytes();
    assert!(!stored.windows(tail.len()).any(|part| part == tail), "the secret is stored");

    let path = format!("{TOKENS}/{}", id_of(&secret));
    assert_eq!(server.delete(&path).await.ok()["Token"], *token);
    server.delete(&path).await.refused(404, "TokenNotFound");
    assert_eq!(list(&server.get(TOKENS).await.ok()["Tokens"]).len(), 0);
}

#[tokio::test]
async fn what_is_wrong_with_a_token_is_said() {
    let server = Server::start().await;
    let ask = |body: Value| {
        let request = server.request(Method::POST, TOKENS).json(&body);
        crate::server::answer(request)
    };
    for (body, problem) in [
        (json!({}), "Name: say in 1 to 100 characters"),
        (json!({ "Name": "a\u{7}b" }), "Name: say"),
        (json!({ "Name": "a\u{202e}b" }), "Name: say"),
        (json!({ "Name": "a", "Role": "root" }), "Role: 'root' is not a role"),
        (json!({ "Name": "a", "Namespaces": ["*", "b"] }), "Namespaces: '*' stands alone"),
        (json!({ "Name": "a", "Role": "admin", "Namespaces": ["b"] }), "Namespaces: a role of the"),
        (json!({ "Name": "a", "TTLSeconds": 1_000_000_000 }), "TTLSeconds: must be at most"),
    ] {
        let problems = ask(body).await.problems();
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
    let unknown = json!({ "Name": "a", "Namespaces": ["unknown"] });
    ask(unknown).await.refused(404, "NamespaceNotFound");
}

#[tokio::test]
async fn bad_credentials_are_refused_and_say_what_to_do() {
    let guarded = Guarded::start().await;
    let refused = guarded.ask(Method::GET, JOBS, "", None).await;
    refused.refused(401, "Unauthenticated").says("the request has no credentials");
    assert!(text(&refused.body["Hint"]).contains("jobctl login"), "{}", refused.text);
    let mut forged = guarded.admin.clone();
    forged.pop();
    forged.push(if guarded.admin.ends_with('A') { 'E' } else { 'A' });
    for bad in [forged.as_str(), "x", "jt1_0000000000000000_AAAA"] {
        let refused = guarded.ask(Method::GET, JOBS, bad, None).await;
        refused.refused(401, "Unauthenticated").says("invalid or revoked");
    }
    let basic = guarded.server.request(Method::GET, JOBS).basic_auth("admin", Some("x"));
    crate::server::answer(basic).await.refused(401, "Unauthenticated");
    // An unknown path tells nothing; the page's files are open.
    guarded.ask(Method::GET, "/api/v1/nothing", "", None).await.refused(404, "PathNotFound");
}

#[tokio::test]
async fn an_owner_gives_away_no_more_than_it_has() {
    let guarded = Guarded::start().await;
    let owner = guarded.token("owner", &["home"]).await;
    let create = |role: &str, namespaces: Value| {
        let body = json!({ "Name": "x", "Role": role, "Namespaces": namespaces });
        let (guarded, owner) = (&guarded, &owner);
        async move { guarded.ask(Method::POST, TOKENS, owner, Some(&body)).await }
    };
    create("owner", json!(["home"])).await.ok();
    create("admin", json!([])).await.refused(403, "Forbidden");
    create("operator", json!([])).await.refused(403, "Forbidden");
    create("viewer", json!(["*"])).await.refused(403, "Forbidden");
    create("viewer", json!(["home", "away"])).await.refused(404, "NamespaceNotFound");

    // It lists and revokes what belongs to its namespaces alone.
    let other = guarded.token("viewer", &["home", "away"]).await;
    let mine = guarded.token("viewer", &["home"]).await;
    let listed = guarded.ask(Method::GET, TOKENS, &owner, None).await;
    let ids: Vec<_> = list(&listed.ok()["Tokens"]).iter().map(|it| text(&it["ID"])).collect();
    assert!(ids.iter().any(|id| id == id_of(&mine)) && ids.iter().all(|id| id != id_of(&other)));
    let revoke = |token: &str| format!("{TOKENS}/{}", id_of(token));
    let foreign = [revoke(&other), revoke(&guarded.admin)];
    for path in foreign {
        guarded.ask(Method::DELETE, &path, &owner, None).await.refused(404, "TokenNotFound");
    }
    guarded.ask(Method::DELETE, &revoke(&mine), &owner, None).await.ok();
    // Every caller may revoke its own.
    guarded.ask(Method::DELETE, &revoke(&other), &other, None).await.ok();
    guarded.ask(Method::GET, IDENTITY, &other, None).await.refused(401, "Unauthenticated");
}

#[tokio::test]
async fn what_a_token_opened_ends_when_it_is_revoked() {
    let guarded = Guarded::start().await;
    let token = guarded.token("submitter", &["home"]).await;
    let open = |path: String| guarded.server.request(Method::GET, &path).bearer_auth(&token).send();
    let mut events = open("/api/v1/orchestrator/events".to_owned()).await.expect("a stream");
    let mut changes = open("/api/v1/orchestrator/changes".to_owned()).await.expect("a stream");
    let logs = open(format!("{JOBS}/{}/logs?follow", guarded.job)).await.expect("a stream");
    events.chunk().await.expect("a first piece");
    changes.chunk().await.expect("a first piece");
    let waits = format!("{JOBS}/{}?wait=60s", guarded.job);
    let waiting = tokio::spawn(open(waits.clone()));
    let head = guarded.server.request(Method::HEAD, &waits).bearer_auth(&token);
    let without_body = tokio::spawn(head.send());
    tokio::time::sleep(Duration::from_millis(200)).await;

    let path = format!("{TOKENS}/{}", id_of(&token));
    guarded.ask(Method::DELETE, &path, &guarded.admin, None).await.ok();
    let (machine, revoked) = (Lateness::start(), Instant::now());
    let ends = async {
        while events.chunk().await.is_ok_and(|piece| piece.is_some()) {}
        while changes.chunk().await.is_ok_and(|piece| piece.is_some()) {}
        assert!(logs.bytes().await.is_err(), "cut off, not complete");
        for waiting in [waiting, without_body] {
            let status = waiting.await.expect("a task").expect("an answer").status();
            assert_eq!(status.as_u16(), 401);
        }
    };
    tokio::time::timeout(PATIENCE, ends).await.expect("all of it ends");
    let (took, late) = (revoked.elapsed(), machine.longest());
    assert!(took < A_SECOND + late, "{took:?}, of which {late:?} idle");
}

#[tokio::test]
async fn a_token_ends_at_its_time_and_so_does_what_it_opened() {
    let guarded = Guarded::start().await;
    let body = json!({ "Name": "short", "Namespaces": ["home"], "TTLSeconds": 2 });
    let created = guarded.ask(Method::POST, TOKENS, &guarded.admin, Some(&body)).await;
    let token = text(&created.ok()["Secret"]);
    let request = guarded.server.request(Method::GET, "/api/v1/orchestrator/events");
    let mut events = request.bearer_auth(&token).send().await.expect("a stream");
    assert_eq!(events.status().as_u16(), 200);
    let ended = async { while events.chunk().await.is_ok_and(|piece| piece.is_some()) {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("it ends");
    let refused = guarded.ask(Method::GET, JOBS, &token, None).await;
    refused.refused(401, "Unauthenticated").says("expired");
}

#[tokio::test]
async fn the_first_token_is_made_once_and_again_when_no_admin_is_left() {
    let mut server = Server::start_with(|settings| orchestrator::Settings {
        auth: Auth::Required,
        insecure: true,
        ..settings
    })
    .await;
    let file = server.data_dir().join("admin.token");
    let mode = {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777
    };
    assert_eq!(mode, 0o600);
    let read = || std::fs::read_to_string(&file).expect("the file").trim().to_owned();
    let first = read();
    server.restart().await;
    assert_eq!(read(), first);
    let path = format!("{TOKENS}/{}", id_of(&first));
    let revoked = server.request(Method::DELETE, &path).bearer_auth(&first);
    crate::server::answer(revoked).await.ok();
    server.restart().await;
    assert_ne!(read(), first);
    let identity = server.request(Method::GET, IDENTITY).bearer_auth(read());
    let identity = crate::server::answer(identity).await;
    assert_eq!(identity.ok()["Role"], "admin");
    assert_eq!(identity.ok()["Namespaces"], json!(["*"]));
}
