//! Browsers that sign in at an issuer and come back.

use peers::issuer::Issuer;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::oidc::{EXCHANGE, IDENTITY, METHODS, TOKENS, admin_of, member, start, with};
use crate::server::{Answer, Server, answer};

crate::covers! {
    "beginSignIn" => a_browser_signs_in_at_the_issuer_and_comes_back;
    "finishSignIn" => a_browser_signs_in_at_the_issuer_and_comes_back;
}

pub(crate) const LOGIN: &str = "/api/v1/auth/login";
const CALLBACK: &str = "/api/v1/auth/callback";
const SESSION: &str = "/api/v1/auth/session";

/// A method, a path, and a body.
type RequestParts = (Method, String, Option<Value>);

/// How each operation of this kind is asked for.
pub(crate) fn requests(issuer: &Issuer) -> [(&'static str, RequestParts); 4] {
    let token = json!({ "IDToken": member(issuer, &json!({})) });
    let of = |method, path: &str, body| (method, path.to_owned(), body);
    [
        ("describeSignIn", of(Method::GET, METHODS, None)),
        ("exchangeIdToken", of(Method::POST, EXCHANGE, Some(token))),
        ("beginSignIn", of(Method::GET, LOGIN, None)),
        ("finishSignIn", of(Method::GET, CALLBACK, None)),
    ]
}

/// What a browser sends when a user follows a link, or an issuer sends it back.
pub(crate) async fn as_browser(server: &Server, path: &str, cookie: &str, site: &str) -> Answer {
    answer(navigation(server, path, cookie, site)).await
}

fn navigation(server: &Server, path: &str, cookie: &str, site: &str) -> RequestBuilder {
    server
        .request(Method::GET, path)
        .header("Cookie", cookie)
        .header("Sec-Fetch-Site", site)
        .header("Sec-Fetch-Mode", "navigate")
        .header("Sec-Fetch-Dest", "document")
}

/// The cookies that a response sets, without their attributes.
pub(crate) fn cookies(answer: &Answer) -> Vec<String> {
    let set = answer.headers.get_all("set-cookie").iter();
    set.map(|cookie| cookie.to_str().expect("ASCII").to_owned()).collect()
}

pub(crate) fn value(cookie: &str) -> &str {
    cookie.split(';').next().unwrap_or_default()
}

/// Goes to the issuer and returns with what it sends back: the path, and the cookie of the sign-in.
pub(crate) async fn to_the_issuer(server: &Server, login: &str) -> (String, String) {
    to_the_issuer_from(server, login, &server.url()).await
}

/// The same where browsers know the service by this URL.
pub(crate) async fn to_the_issuer_from(
    server: &Server,
    login: &str,
    url: &str,
) -> (String, String) {
    let begun = as_browser(server, login, "", "same-origin").await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    let [cookie] = &cookies(&begun)[..] else { panic!("{:?}", begun.headers) };
    for attribute in ["HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let location = begun.header("location");
    assert!(!location.contains(value(cookie).split(['=', '.']).nth(1).expect("a seed")));
    let browser = reqwest::Client::builder().no_proxy();
    let browser = browser.redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let sent = answer(browser.get(location)).await;
    assert_eq!(sent.status, 303);
    let back = sent.header("location").strip_prefix(url).expect("back to the service");
    assert!(back.starts_with(CALLBACK), "{back}");
    (back.to_owned(), value(cookie).to_owned())
}

#[tokio::test]
async fn a_browser_signs_in_at_the_issuer_and_comes_back() {
    let issuer = Issuer::start().await;
    let server = start(&issuer, |_| ()).await;
    issuer.sign_in(json!({
        "sub": "7", "email": "ada@example.org", "email_verified": true, "groups": "platform",
    }));
    let login = format!("{LOGIN}?to=%2Fjobs%3Flabels%3Da%23end");
    let (back, flow) = to_the_issuer(&server, &login).await;
    let ended = as_browser(&server, &back, &flow, "cross-site").await;
    assert_eq!((ended.status.as_u16(), ended.header("location")), (303, "/jobs?labels=a#end"));
    let [gone, session] = &cookies(&ended)[..] else { panic!("{:?}", ended.headers) };
    assert!(gone.starts_with("sign-in=;") && gone.contains("Max-Age=0"), "{gone}");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(session.contains(attribute), "{session}");
    }
    let page = |method: Method, path: &str| {
        let request = server.request(method, path).header("Cookie", value(session));
        answer(request.header("Sec-Fetch-Site", "same-origin"))
    };
    let identity = page(Method::GET, IDENTITY).await;
    assert_eq!(identity.ok()["Name"], "ada@example.org");
    assert_eq!(identity.ok()["Role"], "submitter");

    // The same way back does not lead in twice: the code is used up.
    let again = as_browser(&server, &back, &flow, "cross-site").await;
    assert_eq!(again.header("location"), "/jobs?labels=a&sign_in_problem=refused#end");

    // No one else has the token of the session: signing out ends both.
    page(Method::DELETE, SESSION).await.ok();
    page(Method::GET, IDENTITY).await.refused(401, "Unauthenticated");
    let tokens = with(&server, Method::GET, TOKENS, &admin_of(&server)).await;
    assert!(!tokens.ok().to_string().contains("ada@example.org"), "{}", tokens.text);
}

#[tokio::test]
async fn a_browser_comes_back_only_from_where_it_went() {
    let issuer = Issuer::start().await;
    let server = start(&issuer, |_| ()).await;
    issuer.sign_in(json!({ "sub": "7", "groups": "platform" }));
    let ends = async |path: &str, cookie: &str| {
        let ended = as_browser(&server, path, cookie, "cross-site").await;
        assert_eq!(ended.status, 303, "{}", ended.text);
        let sets_session = cookies(&ended).iter().any(|it| it.starts_with("session="));
        assert!(!sets_session, "{:?}", ended.headers);
        ended.header("location").to_owned()
    };
    let (back, flow) = to_the_issuer(&server, LOGIN).await;
    let (_, other) = to_the_issuer(&server, LOGIN).await;
    // A code that another person got, in a browser that began nothing or something else.
    assert_eq!(ends(&back, "").await, "/?sign_in_problem=other");
    assert_eq!(ends(&back, &other).await, "/?sign_in_problem=other");
    assert_eq!(ends(CALLBACK, &flow).await, "/?sign_in_problem=other");
    let denied = format!("{}&error=access_denied", back.replace("code=", "x="));
    assert_eq!(ends(&denied, &flow).await, "/?sign_in_problem=denied");
    // The issuer's token is of another sign-in.
    issuer.sign_in(json!({ "sub": "7", "groups": "platform", "nonce": "of-another" }));
    assert_eq!(ends(&back, &flow).await, "/?sign_in_problem=refused");
    issuer.sign_in(json!({ "sub": "8", "groups": "guests" }));
    let (back, flow) = to_the_issuer(&server, &format!("{LOGIN}?to=/nodes")).await;
    assert_eq!(ends(&back, &flow).await, "/nodes?sign_in_problem=rules");
    // Elsewhere is no page of the service.
    let begun = as_browser(&server, &format!("{LOGIN}?to=//evil.example"), "", "none").await;
    issuer.sign_in(json!({ "sub": "8", "groups": "platform" }));
    assert!(begun.header("location").starts_with(issuer.url()));
    let (back, flow) = to_the_issuer(&server, &format!("{LOGIN}?to=//evil.example")).await;
    let ended = as_browser(&server, &back, &flow, "cross-site").await;
    assert_eq!(ended.header("location"), "/");
    // A page of another site cannot begin a sign-in.
    let foreign = as_browser(&server, LOGIN, "", "cross-site").await;
    foreign.refused(403, "Forbidden");

    let without = Server::start().await;
    let off = as_browser(&without, LOGIN, "", "same-origin").await;
    assert_eq!(off.header("location"), "/?sign_in_problem=off");
}

#[tokio::test]
async fn a_confidential_client_shows_its_secret_and_the_public_url_is_where_people_return() {
    let issuer = Issuer::start().await;
    issuer.ask_for_secret("s e+cret");
    issuer.sign_in(json!({ "sub": "7", "groups": "platform" }));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("secret");
    std::fs::write(&file, "s e+cret\n").expect("write");
    let server = start(&issuer, |settings| {
        settings.oidc.client_secret_file = file.clone();
        settings.oidc.public_url = "https://jobs.example.com/".to_owned();
    })
    .await;
    assert_eq!(server.get(METHODS).await.ok()["OIDC"]["Confidential"], true);
    let cli = start(&issuer, |settings| {
        settings.oidc.client_secret_file = file.clone();
        settings.oidc.cli_client_id = "cli".to_owned();
    })
    .await;
    let methods = cli.get(METHODS).await;
    assert_eq!(methods.ok()["OIDC"]["ClientID"], "cli");
    assert_eq!(methods.ok()["OIDC"]["Confidential"], false);
    let token = member(&issuer, &json!({ "aud": "cli" }));
    let traded = cli.request(Method::POST, EXCHANGE).json(&json!({ "IDToken": token }));
    answer(traded).await.ok();
    let token = member(&issuer, &json!({ "aud": "cli" }));
    let refused = server.request(Method::POST, EXCHANGE).json(&json!({ "IDToken": token }));
    answer(refused).await.refused(401, "Unauthenticated");
    let begun = as_browser(&server, LOGIN, "", "same-origin").await;
    let location = begun.header("location").to_owned();
    let encoded = "redirect_uri=https%3A%2F%2Fjobs.example.com%2Fapi%2Fv1%2Fauth%2Fcallback";
    assert!(location.contains(encoded), "{location}");
    let browser = reqwest::Client::builder().no_proxy();
    let browser = browser.redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let sent = answer(browser.get(&location)).await;
    let back = sent.header("location").strip_prefix("https://jobs.example.com").expect("back");
    let flow = cookies(&begun);
    // What stands in front of the service leaves the name that browsers ask for.
    let ended = navigation(&server, back, value(&flow[0]), "cross-site");
    let ended = answer(ended.header("Host", "jobs.example.com")).await;
    assert_eq!(ended.header("location"), "/", "{:?}", ended.headers);
}
