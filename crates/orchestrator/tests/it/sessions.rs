//! Signing in with a browser.

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::access::{Guarded, id_of, secret_of};
use crate::server::{Answer, JOBS, Server, answer, text};

crate::covers! {
    "signIn" => a_browser_signs_in_and_out;
    "signOut" => a_browser_signs_in_and_out;
    "describeIdentity" => where_nobody_is_asked_everybody_is_an_admin;
}

const SESSION: &str = "/api/v1/auth/session";
const IDENTITY: &str = "/api/v1/auth/identity";

/// What a browser adds to requests of a page of this origin.
fn of_the_page(request: RequestBuilder, cookie: &str) -> RequestBuilder {
    request.header("Cookie", format!("other=1; {cookie}")).header("Sec-Fetch-Site", "same-origin")
}

fn cookie_of(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie");
    for attribute in ["Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    cookie.split(';').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn where_nobody_is_asked_everybody_is_an_admin() {
    let server = Server::start().await;
    let expected = json!({
        "Name": "local", "Role": "admin", "Namespaces": ["*"], "TokenID": "", "ExpireTime": "",
    });
    assert_eq!(server.get(IDENTITY).await.ok(), &expected);
    // A token that is sent all the same counts.
    let refused = server.request(Method::GET, IDENTITY).bearer_auth("jt1_x");
    answer(refused).await.refused(401, "Unauthenticated");
    // What is meant for another service does not.
    let foreign = server.request(Method::GET, IDENTITY).bearer_auth("another-service");
    assert_eq!(answer(foreign).await.ok()["Name"], "local");
}

#[tokio::test]
async fn a_browser_signs_in_and_out() {
    let guarded = Guarded::start().await;
    let token = guarded.token("submitter", &["home"]).await;
    let server = &guarded.server;
    let sign_in = |token: &str| {
        let body = json!({ "Token": token });
        answer(server.request(Method::POST, SESSION).json(&body))
    };
    sign_in("jt1_x").await.refused(401, "Unauthenticated");
    let signed_in = sign_in(&token).await;
    assert_eq!(signed_in.ok()["Name"], "submitter");
    assert!(!text(&signed_in.ok()["ExpireTime"]).is_empty());
    let cookie = cookie_of(&signed_in);
    assert!(!cookie.contains(secret_of(&token)), "{cookie}");

    let page = |method: Method, path: &str| of_the_page(server.request(method, path), &cookie);
    let identity = answer(page(Method::GET, IDENTITY)).await;
    assert_eq!(identity.ok()["Role"], "submitter");
    // Without a word from the browser about the page, the cookie does not count.
    let bare = server.request(Method::GET, IDENTITY).header("Cookie", &cookie);
    answer(bare).await.refused(401, "Unauthenticated");
    let foreign = server.request(Method::GET, IDENTITY).header("Cookie", &cookie);
    let foreign = foreign.header("Sec-Fetch-Site", "cross-site");
    answer(foreign).await.refused(403, "Forbidden");

    let signed_out = answer(page(Method::DELETE, SESSION)).await;
    signed_out.ok();
    assert!(signed_out.header("set-cookie").contains("Max-Age=0"));
    answer(page(Method::GET, IDENTITY)).await.refused(401, "Unauthenticated");
    guarded.ask(Method::GET, IDENTITY, &token, None).await.ok();
}

/// A script that signs in each time must not fill the store for everybody.
#[tokio::test]
async fn a_token_has_so_many_sessions_and_the_oldest_make_room() {
    let guarded = Guarded::start().await;
    let token = guarded.token("viewer", &["home"]).await;
    let other = guarded.token("viewer", &["home"]).await;
    let server = &guarded.server;
    let sign_in = async |token: &str| {
        let request = server.request(Method::POST, SESSION).json(&json!({ "Token": token }));
        cookie_of(&answer(request).await)
    };
    let of_other = sign_in(&other).await;
    let first = sign_in(&token).await;
    let second = sign_in(&token).await;
    for _ in 2..51 {
        sign_in(&token).await;
    }
    let seen = async |cookie: &str| {
        answer(of_the_page(server.request(Method::GET, IDENTITY), cookie)).await
    };
    seen(&first).await.refused(401, "Unauthenticated");
    seen(&second).await.ok();
    seen(&of_other).await.ok();
}

#[tokio::test]
async fn a_session_outlives_a_restart_and_ends_with_its_token() {
    let mut guarded = Guarded::start().await;
    let token = guarded.token("viewer", &["home"]).await;
    let body = json!({ "Token": token });
    let signed_in = answer(guarded.server.request(Method::POST, SESSION).json(&body)).await;
    let cookie = cookie_of(&signed_in);
    guarded.server.restart().await;
    let list = format!("{JOBS}?namespace=home");
    let seen = of_the_page(guarded.server.request(Method::GET, &list), &cookie);
    answer(seen).await.ok();
    let path = format!("/api/v1/orchestrator/tokens/{}", id_of(&token));
    guarded.ask(Method::DELETE, &path, &guarded.admin, None).await.ok();
    let seen = of_the_page(guarded.server.request(Method::GET, &list), &cookie);
    answer(seen).await.refused(401, "Unauthenticated");
}
