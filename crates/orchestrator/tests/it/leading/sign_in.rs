//! Browsers that sign in while the lead changes.

use orchestrator::Settings;
use orchestrator::settings::{Auth, OidcSettings};
use peers::issuer::Issuer;
use reqwest::Method;
use serde_json::json;

use super::Cluster;
use crate::login::{LOGIN, as_browser, cookies, to_the_issuer_from, value};
use crate::oidc::{IDENTITY, settings_of};
use crate::server::answer;

/// Where browsers reach whichever orchestrator leads.
const PUBLIC: &str = "http://jobs.example";

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_began_at_one_leader_completes_at_the_next_and_lasts() {
    let issuer = Issuer::start().await;
    let cluster = Cluster::new();
    let guarded = |settings: Settings| {
        let oidc = OidcSettings { public_url: PUBLIC.to_owned(), ..settings_of(&issuer) };
        Settings { auth: Auth::Required, insecure: true, oidc, ..settings }
    };
    let mut leader = cluster.lead_with("a", guarded).await;
    issuer.sign_in(json!({ "sub": "7", "groups": "platform" }));
    let (back, flow) = to_the_issuer_from(&leader, LOGIN, PUBLIC).await;
    leader.stop().await;

    let mut next = cluster.lead_with("b", guarded).await;
    let ended = as_browser(&next, &back, &flow, "cross-site").await;
    assert_eq!((ended.status.as_u16(), ended.header("location")), (303, "/"), "{}", ended.text);
    let set = cookies(&ended);
    let session = set.iter().find(|cookie| cookie.starts_with("session=")).expect("a session");
    next.stop().await;

    let last = cluster.lead_with("a", guarded).await;
    let request = last.request(Method::GET, IDENTITY).header("Cookie", value(session));
    let identity = answer(request.header("Sec-Fetch-Site", "same-origin")).await;
    assert_eq!(identity.ok()["Role"], "submitter");
}
