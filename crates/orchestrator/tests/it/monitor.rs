//! Tokens of the role `monitor`, which nodes may see.

use std::collections::BTreeMap;

use api_types::access::Role;
use orchestrator::settings::{ClaimValue, RuleSettings};
use peers::issuer::Issuer;
use reqwest::Method;
use serde_json::{Value, json};

use crate::access::Guarded;
use crate::joining::Protected;
use crate::login;
use crate::oidc::{self, EXCHANGE, IDENTITY, TOKENS};
use crate::server::{Answer, answer, text};

const SESSION: &str = "/api/v1/auth/session";
const METRICS: &str = "/metrics";

#[track_caller]
fn scraped(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.text.contains("orchestrator_build_info"), "{}", answer.text);
}

#[tokio::test]
async fn a_monitors_token_opens_nothing_but_metrics() {
    let guarded = Guarded::start_with(false).await;
    let token = guarded.token("monitor", &[]).await;
    assert!(token.starts_with("jm1_"), "{token}");
    scraped(&guarded.ask(Method::GET, METRICS, &token, None).await);
    let identity = guarded.ask(Method::GET, IDENTITY, &token, None).await;
    assert_eq!(identity.ok()["Role"], "monitor");

    // Whatever else it asks for.
    let open =
        ["isAlive", "describeVersion", "isLive", "isReady", "describeIdentity", "scrapeMetrics"];
    for (operation, (method, path, body)) in guarded.requests(&token) {
        if open.contains(&operation) || ["enrolNode", "requester"].contains(&operation) {
            continue;
        }
        let refused = guarded.ask(method, &path, &token, body.as_ref()).await;
        assert_eq!(refused.status.as_u16(), 403, "{operation}: {}", refused.text);
    }
    let signed_in = guarded.server.request(Method::POST, SESSION).json(&json!({ "Token": token }));
    let refused = answer(signed_in).await;
    refused.refused(403, "Forbidden").says("access to metrics only");
    assert!(refused.headers.get("set-cookie").is_none());
}

/// Agents judge tokens by their beginning, so it must not be the holder's to choose.
#[tokio::test]
async fn a_token_with_the_beginning_of_another_kind_is_none() {
    let guarded = Guarded::start().await;
    let monitor = guarded.token("monitor", &[]).await;
    let operator = guarded.token("operator", &[]).await;
    for token in [
        monitor.replacen("jm1_", "jt1_", 1),
        operator.replacen("jt1_", "jm1_", 1),
        guarded.admin.replacen("jt1_", "jm1_", 1),
    ] {
        let refused = guarded.ask(Method::GET, IDENTITY, &token, None).await;
        refused.refused(401, "Unauthenticated");
        let body = json!({ "Token": token });
        let signed_in = guarded.server.request(Method::POST, SESSION).json(&body);
        answer(signed_in).await.refused(401, "Unauthenticated");
    }
}

#[tokio::test]
async fn admins_alone_make_tokens_of_monitors() {
    let guarded = Guarded::start().await;
    let create = async |by: &str, namespaces: Value| {
        let body = json!({ "Name": "prometheus", "Role": "monitor", "Namespaces": namespaces });
        guarded.ask(Method::POST, TOKENS, by, Some(&body)).await
    };
    for role in ["owner", "operator", "monitor"] {
        let namespaces: &[&str] = if role == "owner" { &["home"] } else { &[] };
        let token = guarded.token(role, namespaces).await;
        create(&token, json!([])).await.refused(403, "Forbidden");
    }
    let problems = create(&guarded.admin, json!(["home"])).await.problems();
    assert!(problems[0].starts_with("Namespaces: a role of the cluster"), "{problems:?}");
    create(&guarded.admin, json!([])).await.ok();
}

/// Machines that watch the cluster may sign in at the issuer; browsers have no use for the role.
#[tokio::test]
async fn a_rule_may_make_a_machine_a_monitor_and_no_browser() {
    let issuer = Issuer::start().await;
    let server = oidc::start(&issuer, |settings| {
        settings.oidc.rules = vec![RuleSettings {
            claims: BTreeMap::from([("groups".to_owned(), ClaimValue::Text("watch".to_owned()))]),
            role: Role::Monitor,
            namespaces: Vec::new(),
        }];
    })
    .await;
    let claims = json!({ "sub": "7", "groups": "watch" });
    let body = json!({ "IDToken": issuer.token("jobs", &claims) });
    let created = answer(server.request(Method::POST, EXCHANGE).json(&body)).await;
    let token = text(&created.ok()["Secret"]);
    assert!(token.starts_with("jm1_"), "{token}");
    scraped(&oidc::with(&server, Method::GET, METRICS, &token).await);
    let nodes = "/api/v1/orchestrator/nodes";
    oidc::with(&server, Method::GET, nodes, &token).await.refused(403, "Forbidden");

    issuer.sign_in(claims);
    let (back, flow) = login::to_the_issuer(&server, login::LOGIN).await;
    let ended = login::as_browser(&server, &back, &flow, "cross-site").await;
    assert_eq!(ended.header("location"), "/?sign_in_problem=rules");
    let session = ended.headers.get_all("set-cookie").iter();
    assert!(session.into_iter().all(|it| !it.as_bytes().starts_with(b"session=js1")));
}

/// Over TLS, with the certificate of a node, and with the session of a person who may scrape.
#[tokio::test]
async fn metrics_are_for_monitors_operators_and_admins_in_any_way_they_prove_it() {
    let protected = Protected::start().await;
    let body = json!({ "Name": "prometheus", "Role": "monitor" });
    let created = protected.ask(Method::POST, TOKENS, &body).await;
    let monitor = text(&created.ok()["Secret"]);
    let server = protected.server();
    let scrape = |token: &str| answer(server.request(Method::GET, METRICS).bearer_auth(token));
    scraped(&scrape(&monitor).await);
    let body = json!({ "Name": "ops", "Role": "operator" });
    let operator = text(&protected.ask(Method::POST, TOKENS, &body).await.ok()["Secret"]);
    scraped(&scrape(&operator).await);
    let body = json!({ "Token": operator });
    let signed_in = answer(server.request(Method::POST, SESSION).json(&body)).await;
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let page = server.request(Method::GET, METRICS).header("Cookie", &cookie);
    scraped(&answer(page.header("Sec-Fetch-Site", "same-origin")).await);

    let node = protected.node(&protected.token(json!({})).await).await;
    node.ask(Method::GET, METRICS, &Value::Null).await.refused(403, "Forbidden");
    node.ask(Method::GET, IDENTITY, &Value::Null).await.refused(403, "Forbidden");
}
