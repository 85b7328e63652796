//! `/api/v1/orchestrator/audit`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::{Guarded, secret_of};
use crate::server::{JOBS, PATIENCE, Server, job_with, list, text};

crate::covers! {
    "listAudit" => where_nobody_is_asked_nothing_is_audited;
}

const AUDIT: &str = "/api/v1/orchestrator/audit";

async fn records(guarded: &Guarded, query: &str) -> Vec<Value> {
    let path = format!("{AUDIT}{query}");
    let listed = guarded.ask(Method::GET, &path, &guarded.admin, None).await;
    list(&listed.ok()["Records"]).clone()
}

/// The same, once there are some.
async fn until_some(guarded: &Guarded, query: &str) -> Vec<Value> {
    let begin = std::time::Instant::now();
    loop {
        let found = records(guarded, query).await;
        if !found.is_empty() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "no record of {query}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn where_nobody_is_asked_nothing_is_audited() {
    let server = Server::start().await;
    server.submit(job_with(json!({}))).await;
    let empty = json!({ "Records": [], "NextToken": "" });
    assert_eq!(server.get(AUDIT).await.ok(), &empty);
}

#[tokio::test]
async fn a_change_is_a_record_and_a_refused_one_is_not() {
    let mut guarded = Guarded::start().await;
    let token = guarded.token("submitter", &["home"]).await;
    let body = json!({ "Job": job_with(json!({ "Namespace": "home" })) });
    let created = guarded.ask(Method::PUT, JOBS, &token, Some(&body)).await;
    let job = text(&created.ok()["JobID"]);
    let path = format!("{JOBS}/{job}");
    let request = guarded.server.request(Method::DELETE, &path).bearer_auth(&token);
    crate::server::answer(request.header("X-Request-Id", "mine-7")).await.ok();
    // Reads and dry runs change nothing, and neither does what is refused.
    guarded.ask(Method::GET, &path, &token, None).await.ok();
    let dry = format!("{JOBS}?dry_run");
    guarded.ask(Method::PUT, &dry, &token, Some(&body)).await.ok();
    let ended = format!("{JOBS}/{}", guarded.ended);
    guarded.ask(Method::DELETE, &ended, &token, None).await.refused(409, "JobFinished");

    guarded.server.restart().await;
    let of_user = records(&guarded, "?chain=rest&user=submitter").await;
    let seen: Vec<_> =
        of_user.iter().map(|it| (text(&it["Operation"]), text(&it["Object"]))).collect();
    let expected = [("createJob", job), ("stopJob", path)];
    assert_eq!(seen, expected.map(|(operation, object)| (operation.to_owned(), object)));
    let stop = &of_user[1];
    assert_eq!((&stop["RequestID"], &stop["Outcome"]), (&json!("mine-7"), &json!("done")));
    assert_eq!((&stop["Address"], &stop["Count"]), (&json!("127.0.0.1"), &json!(1)));
    assert!(token.contains(&text(&stop["TokenID"])));

    // The first denial is a record immediately, and those that follow are one more.
    let node = format!("/api/v1/orchestrator/nodes/{}", guarded.node);
    for _ in 0..4 {
        guarded.ask(Method::DELETE, &node, &token, None).await.refused(403, "Forbidden");
    }
    let denied = until_some(&guarded, "?chain=rest&operation=forgetNode").await;
    assert_eq!((&denied[0]["Outcome"], &denied[0]["Count"]), (&json!("denied"), &json!(1)));
    guarded.server.restart().await;
    let denied = records(&guarded, "?chain=rest&operation=forgetNode").await;
    let counts: Vec<_> = denied.iter().map(|it| it["Count"].as_u64()).collect();
    assert_eq!(counts, [Some(1), Some(3)]);
    assert_eq!(denied[1]["User"], "submitter");

    // A token is named by its ID, and its secret is in no record.
    let all = records(&guarded, "").await;
    let of_token = all.iter().find(|it| it["Operation"] == "createToken").expect("a record");
    assert!(token.contains(&text(&of_token["Object"])));
    assert!(!json!(all).to_string().contains(secret_of(&token)));
    // Each follows the one before, over the restart.
    let body = json!({ "Description": "x" });
    let home = "/api/v1/orchestrator/namespaces/home";
    guarded.ask(Method::PUT, home, &guarded.admin, Some(&body)).await.ok();
    for chain in ["changes", "rest"] {
        let all = records(&guarded, &format!("?chain={chain}")).await;
        assert_eq!((&all[0]["Sequence"], &all[0]["Previous"]), (&json!(1), &json!("")));
        for (before, record) in all.iter().zip(&all[1..]) {
            assert_eq!(record["Previous"], before["Hash"]);
            assert_eq!(record["Sequence"].as_u64(), before["Sequence"].as_u64().map(|it| it + 1));
        }
        assert!(all.iter().all(|record| record["Chain"] == chain), "{chain}");
    }
    let other = format!("{AUDIT}?chain=other");
    guarded.ask(Method::GET, &other, &guarded.admin, None).await.refused(400, "InvalidQuery");
    let newest = records(&guarded, "?reverse&limit=1").await;
    assert_eq!(newest[0]["Operation"], "putNamespace");
}

#[tokio::test]
async fn a_flood_of_sign_ins_pushes_out_no_change() {
    let guarded = Guarded::start().await;
    let token = guarded.token("viewer", &["home"]).await;
    let before = records(&guarded, "?limit=1000").await;
    let body = json!({ "Token": token });
    for _ in 0..100 {
        let path = "/api/v1/auth/session";
        guarded.ask(Method::POST, path, "", Some(&body)).await.ok();
    }
    assert_eq!(records(&guarded, "?limit=1000").await, before, "none is a change");
    let sign_ins = records(&guarded, "?chain=rest&operation=signIn").await;
    // A minute may end in between.
    assert!((1..=3).contains(&sign_ins.len()), "{sign_ins:?}");
    assert_eq!(sign_ins[0]["Count"], 1);
}

#[tokio::test]
async fn the_changes_of_a_namespace_have_a_pace() {
    let guarded = Guarded::start().await;
    let owner = guarded.token("owner", &["home"]).await;
    let secret = "/api/v1/orchestrator/secrets/db?namespace=home";
    let body = json!({ "Value": "hidden" });
    // What fails costs nothing, and neither do reads.
    let absent = "/api/v1/orchestrator/secrets/none?namespace=home";
    for _ in 0..20 {
        guarded.ask(Method::DELETE, absent, &owner, None).await.refused(404, "SecretNotFound");
        guarded.ask(Method::GET, secret, &owner, None).await.ok();
    }
    let mut made = 0;
    let refused = loop {
        // Each to its own, because they come at the same time.
        let changes = (0..50).map(async |number| {
            let path = format!("/api/v1/orchestrator/secrets/db{number}?namespace=home");
            guarded.ask(Method::PUT, &path, &owner, Some(&body)).await
        });
        let answers = futures_util::future::join_all(changes).await;
        made += answers.iter().filter(|answer| answer.status == 200).count();
        if let Some(refused) = answers.into_iter().find(|answer| answer.status == 429) {
            break refused;
        }
        assert!(made < 5000, "{made} changes were accepted");
    };
    refused.refused(429, "TooManyRequests").says("the callers of namespace 'home' made 1000");
    assert!(made >= 1000, "{made}");
    let elsewhere = guarded.token("owner", &["away"]).await;
    let other = "/api/v1/orchestrator/secrets/db?namespace=away";
    guarded.ask(Method::PUT, other, &elsewhere, Some(&body)).await.ok();
    guarded.ask(Method::PUT, secret, &guarded.admin, Some(&body)).await.ok();
}
