//! Tokens that tokens make: how long they last, and what ends with what.

use api_types::Timestamp;
use peers::issuer::Issuer;
use reqwest::Method;
use serde_json::{Value, json};

use crate::access::{Guarded, id_of};
use crate::oidc::{self, EXCHANGE, IDENTITY, TOKENS, admin_of, with};
use crate::server::{Answer, Server, answer, list, text};

crate::covers! {
    "revokeTokens" => a_persons_token_for_a_machine_outlives_the_sign_in_and_ends_with_the_person;
}

const SESSION: &str = "/api/v1/auth/session";
const DAY: u64 = 86_400;

async fn create(server: &Server, by: &str, role: &str, seconds: u64) -> Answer {
    let body = json!({ "Name": role, "Role": role, "TTLSeconds": seconds });
    answer(server.request(Method::POST, TOKENS).bearer_auth(by).json(&body)).await
}

async fn secret(server: &Server, by: &str, role: &str, seconds: u64) -> String {
    text(&create(server, by, role, seconds).await.ok()["Secret"])
}

async fn revoke(server: &Server, by: &str, token: &str, query: &str) -> Value {
    let path = format!("{TOKENS}/{}{query}", id_of(token));
    with(server, Method::DELETE, &path, by).await.ok().clone()
}

async fn is_valid(server: &Server, token: &str) -> bool {
    match with(server, Method::GET, IDENTITY, token).await.status.as_u16() {
        200 => true,
        401 => false,
        other => panic!("status {other}"),
    }
}

/// The IDs of tokens in a response.
fn ids(tokens: &Value) -> Vec<String> {
    let mut ids: Vec<_> = list(tokens).iter().map(|token| text(&token["ID"])).collect();
    ids.sort();
    ids
}

fn sorted(tokens: &[&String]) -> Vec<String> {
    let mut ids: Vec<_> = tokens.iter().map(|token| id_of(token).to_owned()).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn revoking_the_first_token_leaves_all_others_valid() {
    let guarded = Guarded::start().await;
    let (server, first) = (&guarded.server, &guarded.admin);
    let second = secret(server, first, "admin", 0).await;
    let third = secret(server, &second, "operator", 0).await;
    let other = secret(server, first, "viewer", 3600).await;
    let revoked = revoke(server, &second, first, "").await;
    let living = ids(&revoked["Descendants"]);
    for token in [&second, &third, &other] {
        assert!(living.contains(&id_of(token).to_owned()), "{revoked}");
        assert!(is_valid(server, token).await);
    }
    assert_eq!(revoked["DescendantsRevoked"], false);
    assert!(!is_valid(server, first).await);
}

#[tokio::test]
async fn descendants_end_with_a_token_if_that_is_asked_for() {
    let guarded = Guarded::start().await;
    let (server, admin) = (&guarded.server, &guarded.admin);
    let parent = secret(server, admin, "admin", 0).await;
    let child = secret(server, &parent, "admin", 0).await;
    let grandchild = secret(server, &child, "viewer", 0).await;
    let sibling = secret(server, admin, "viewer", 0).await;
    // A browser that signed in makes tokens as the holder of its token does.
    let signed_in = server.request(Method::POST, SESSION).json(&json!({ "Token": parent }));
    let signed_in = answer(signed_in).await;
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap_or_default();
    let body = json!({ "Name": "of a page", "Role": "viewer" });
    let of_page = server.request(Method::POST, TOKENS).json(&body).header("Cookie", cookie);
    let of_page = answer(of_page.header("Sec-Fetch-Site", "same-origin")).await;
    let of_page = text(&of_page.ok()["Secret"]);

    // One that is gone in between cuts nothing off.
    revoke(server, admin, &child, "").await;
    let revoked = revoke(server, admin, &parent, "?descendants").await;
    assert_eq!(ids(&revoked["Descendants"]), sorted(&[&grandchild, &of_page]));
    assert_eq!(revoked["DescendantsRevoked"], true);
    for token in [&parent, &child, &grandchild, &of_page] {
        assert!(!is_valid(server, token).await);
    }
    assert!(is_valid(server, &sibling).await && is_valid(server, admin).await);
}

#[tokio::test]
async fn a_token_that_expires_makes_none_that_outlives_it() {
    let guarded = Guarded::start().await;
    let server = &guarded.server;
    let parent = secret(server, &guarded.admin, "admin", 3600).await;
    for seconds in [0, 3700, DAY] {
        let problems = create(server, &parent, "viewer", seconds).await.problems();
        assert!(problems[0].starts_with("TTLSeconds: it must end by 20"), "{problems:?}");
        let most: u64 = problems[0].rsplit(' ').next().unwrap().parse().expect("seconds");
        assert!((3000..=3600).contains(&most), "{problems:?}");
    }
    let created = create(server, &parent, "admin", 3000).await;
    let end = |answer: &Answer| Timestamp::parse(&text(&answer.ok()["Token"]["ExpireTime"]));
    let child = text(&created.ok()["Secret"]);
    // Its children end before it, whatever the grandparent has left.
    create(server, &child, "viewer", 3500).await.problems();
    let grandchild = create(server, &child, "viewer", 2000).await;
    assert!(end(&grandchild).unwrap() < end(&created).unwrap());

    // The session of a browser lasts no longer than its token, and makes none that does.
    let signed_in = server.request(Method::POST, SESSION).json(&json!({ "Token": parent }));
    let signed_in = answer(signed_in).await;
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap_or_default();
    let body = json!({ "Name": "of a page", "Role": "viewer" });
    let of_page = server.request(Method::POST, TOKENS).json(&body).header("Cookie", cookie);
    answer(of_page.header("Sec-Fetch-Site", "same-origin")).await.problems();

    // An owner of some namespaces is bound in the same way.
    let body = json!({ "Name": "o", "Role": "owner", "Namespaces": ["home"], "TTLSeconds": 3600 });
    let owner = guarded.ask(Method::POST, TOKENS, &guarded.admin, Some(&body)).await;
    let owner = text(&owner.ok()["Secret"]);
    let body = json!({ "Name": "c", "Role": "viewer", "Namespaces": ["home"] });
    guarded.ask(Method::POST, TOKENS, &owner, Some(&body)).await.problems();
}

#[tokio::test]
async fn a_persons_token_for_a_machine_outlives_the_sign_in_and_ends_with_the_person() {
    let issuer = Issuer::start().await;
    let server = oidc::start(&issuer, |_| ()).await;
    let admin = admin_of(&server);
    let signed_in = async |subject: &str, claims: &Value| {
        let mut claims = claims.clone();
        claims["sub"] = json!(subject);
        let body = json!({ "IDToken": issuer.token("jobs", &claims) });
        answer(server.request(Method::POST, EXCHANGE).json(&body)).await.ok().clone()
    };
    let is_admin = json!({ "cloud": { "project": "x" } });
    let person = signed_in("ada", &is_admin).await;
    let sign_in = text(&person["Secret"]);
    let subject = format!("{} ada", issuer.url());
    assert_eq!(person["Token"]["Subject"], subject);

    for seconds in [0, 91 * DAY] {
        let problems = create(&server, &sign_in, "submitter", seconds).await.problems();
        assert!(problems[0].starts_with("TTLSeconds: it must end by 20"), "{problems:?}");
    }
    let created = create(&server, &sign_in, "admin", 89 * DAY).await;
    let machine = text(&created.ok()["Secret"]);
    assert_eq!(created.ok()["Token"]["Subject"], subject);
    // The machine is no person: what it makes ends before it.
    create(&server, &machine, "viewer", 90 * DAY).await.problems();
    let of_machine = secret(&server, &machine, "viewer", DAY).await;
    let eve = text(&signed_in("eve", &is_admin).await["Secret"]);

    revoke(&server, &admin, &sign_in, "").await;
    assert!(is_valid(&server, &machine).await, "it outlives the sign-in");
    // The rules may have taken the role away since: that ends no token, and neither does it keep one.
    let demoted = text(&signed_in("ada", &json!({ "groups": "platform" })).await["Secret"]);

    let of_ada = format!("{TOKENS}?subject=ada");
    with(&server, Method::DELETE, &of_ada, &demoted).await.refused(403, "Forbidden");
    let revoked = with(&server, Method::DELETE, &of_ada, &admin).await;
    assert_eq!(ids(&revoked.ok()["Tokens"]), sorted(&[&machine, &of_machine, &demoted]));
    for token in [&machine, &of_machine, &demoted] {
        assert!(!is_valid(&server, token).await);
    }
    assert!(is_valid(&server, &eve).await && is_valid(&server, &admin).await);
    with(&server, Method::DELETE, &of_ada, &admin).await.refused(404, "TokenNotFound");
    with(&server, Method::DELETE, TOKENS, &admin).await.refused(400, "InvalidQuery");
}

/// Whatever the order, no token of one that is revoked stays behind.
#[tokio::test]
async fn a_token_that_is_made_while_its_parent_is_revoked_is_refused_or_revoked() {
    let guarded = Guarded::start().await;
    let server = &guarded.server;
    for _ in 0..10 {
        let parent = secret(server, &guarded.admin, "admin", 0).await;
        let makes = (0..8).map(|_| create(server, &parent, "viewer", 0));
        let (made, revoked) = tokio::join!(
            futures_util::future::join_all(makes),
            revoke(server, &guarded.admin, &parent, "?descendants"),
        );
        assert_eq!(revoked["DescendantsRevoked"], true);
        for answer in made {
            match answer.status.as_u16() {
                200 => assert!(!is_valid(server, &text(&answer.body["Secret"])).await),
                401 => {}
                other => panic!("status {other}: {}", answer.text),
            }
        }
    }
}

/// Records of earlier releases have no lineage: they descend from nothing, and stay as they were.
#[tokio::test]
async fn what_was_made_before_there_was_a_lineage_stays() {
    let mut server = Server::start().await;
    let body = json!({ "Name": "old", "Role": "admin" });
    let made = answer(server.request(Method::POST, TOKENS).json(&body)).await;
    let old = text(&made.ok()["Secret"]);
    server
        .restart_with(|settings| {
            settings.auth = orchestrator::settings::Auth::Required;
            settings.insecure = true;
        })
        .await;
    let child = secret(&server, &old, "admin", 0).await;
    let revoked = revoke(&server, &child, &old, "").await;
    assert_eq!(ids(&revoked["Descendants"]), sorted(&[&child]));
    assert!(is_valid(&server, &child).await);
}
