//! `/api/v1/orchestrator/audit`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::{Guarded, secret_of};
use crate::server::{JOBS, Server, job_with, list, text};

crate::covers! {
    "listAudit" => where_nobody_is_asked_nothing_is_audited;
}

const AUDIT: &str = "/api/v1/orchestrator/audit";

async fn records(guarded: &Guarded, query: &str) -> Vec<Value> {
    let path = format!("{AUDIT}{query}");
    let listed = guarded.ask(Method::GET, &path, &guarded.admin, None).await;
    list(&listed.ok()["Records"]).clone()
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
    let of_user = records(&guarded, "?user=submitter").await;
    let seen: Vec<_> =
        of_user.iter().map(|it| (text(&it["Operation"]), text(&it["Object"]))).collect();
    let expected = [("createJob", job), ("stopJob", path)];
    assert_eq!(seen, expected.map(|(operation, object)| (operation.to_owned(), object)));
    let stop = &of_user[1];
    assert_eq!((&stop["RequestID"], &stop["Outcome"]), (&json!("mine-7"), &json!("done")));
    assert_eq!((&stop["Address"], &stop["Count"]), (&json!("127.0.0.1"), &json!(1)));
    assert!(token.contains(&text(&stop["TokenID"])));

    // Denials of a while are one record, which is there at the latest when the service stops.
    let node = format!("/api/v1/orchestrator/nodes/{}", guarded.node);
    for _ in 0..3 {
        guarded.ask(Method::DELETE, &node, &token, None).await.refused(403, "Forbidden");
    }
    guarded.server.restart().await;
    let denied = records(&guarded, "?operation=forgetNode").await;
    assert_eq!(denied.len(), 1);
    assert_eq!((&denied[0]["Outcome"], &denied[0]["Count"]), (&json!("denied"), &json!(3)));
    assert_eq!(denied[0]["User"], "submitter");

    // A token is named by its ID, and its secret is in no record.
    let all = records(&guarded, "").await;
    let of_token = all.iter().find(|it| it["Operation"] == "createToken").expect("a record");
    assert!(token.contains(&text(&of_token["Object"])));
    assert!(!json!(all).to_string().contains(secret_of(&token)));
    // Each follows the one before, over the restart.
    let body = json!({ "Description": "x" });
    let home = "/api/v1/orchestrator/namespaces/home";
    guarded.ask(Method::PUT, home, &guarded.admin, Some(&body)).await.ok();
    let all = records(&guarded, "").await;
    for (before, record) in all.iter().zip(&all[1..]) {
        assert_eq!(record["Previous"], before["Hash"]);
        assert_eq!(record["Sequence"].as_u64(), before["Sequence"].as_u64().map(|it| it + 1));
    }
    let newest = records(&guarded, "?reverse&limit=1").await;
    assert_eq!(newest[0]["Operation"], "putNamespace");
}
