//! ID tokens of an issuer, traded for tokens.

use std::collections::BTreeMap;

use api_types::access::Role;
use orchestrator::settings::{Auth, ClaimValue, OidcSettings, RuleSettings};
use orchestrator::{Orchestrator, Settings};
use peers::issuer::{Algorithm, Issuer, SigningKey, unix_seconds, unsigned};
use reqwest::Method;
use serde_json::{Value, json};

use crate::login;
use crate::server::{Answer, JOBS, PATIENCE, Server, answer, list, text};

crate::covers! {
    "describeSignIn" => clients_are_told_how_to_sign_in;
    "exchangeIdToken" => an_id_token_is_traded_for_a_token_with_the_role_of_its_rule;
}

const AUDIENCE: &str = "jobs";

pub(crate) const EXCHANGE: &str = "/api/v1/auth/exchange";
pub(crate) const METHODS: &str = "/api/v1/auth/methods";
pub(crate) const IDENTITY: &str = "/api/v1/auth/identity";
pub(crate) const TOKENS: &str = "/api/v1/orchestrator/tokens";

fn rule(claim: &str, value: &str, role: Role, namespaces: &[&str]) -> RuleSettings {
    RuleSettings {
        claims: BTreeMap::from([(claim.to_owned(), ClaimValue::Text(value.to_owned()))]),
        role,
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// People of this group of the issuer are submitters.
pub(crate) fn settings_of(issuer: &Issuer) -> OidcSettings {
    OidcSettings {
        issuer: issuer.url().to_owned(),
        audience: AUDIENCE.to_owned(),
        rules: vec![
            rule("groups", "platform", Role::Submitter, &["default"]),
            rule("groups", "builders", Role::Submitter, &["ci"]),
            rule("/cloud/project", "x", Role::Admin, &[]),
        ],
        ..OidcSettings::default()
    }
}

/// An orchestrator that takes the ID tokens of an issuer.
pub(crate) async fn start(issuer: &Issuer, change: impl FnOnce(&mut Settings)) -> Server {
    Server::start_with(|mut settings| {
        settings.auth = Auth::Required;
        settings.insecure = true;
        settings.oidc = settings_of(issuer);
        change(&mut settings);
        settings
    })
    .await
}

/// Of a member of the group of submitters.
pub(crate) fn member(issuer: &Issuer, more: &Value) -> String {
    let mut claims = json!({ "groups": ["other", "platform"] });
    for (name, value) in more.as_object().expect("claims") {
        claims[name] = value.clone();
    }
    issuer.token(AUDIENCE, &claims)
}

async fn exchange(server: &Server, token: &str) -> Answer {
    let body = json!({ "IDToken": token });
    answer(server.request(Method::POST, EXCHANGE).json(&body)).await
}

pub(crate) async fn with(server: &Server, method: Method, path: &str, token: &str) -> Answer {
    answer(server.request(method, path).bearer_auth(token)).await
}

pub(crate) fn admin_of(server: &Server) -> String {
    let token = std::fs::read_to_string(server.data_dir().join("admin.token"));
    token.expect("the first token").trim().to_owned()
}

#[tokio::test]
async fn clients_are_told_how_to_sign_in() {
    let issuer = Issuer::start().await;
    let server = start(&issuer, |settings| settings.oidc.client_id = "web".to_owned()).await;
    let methods = server.get(METHODS).await;
    let expected = json!({ "OIDC": {
        "Issuer": issuer.url(), "ClientID": "web", "Scopes": "openid profile email",
        "Confidential": false, "CA": "",
    } });
    assert_eq!(methods.ok(), &expected);
    assert_eq!(methods.header("cache-control"), "no-store");

    let without = Server::start().await;
    assert_eq!(without.get(METHODS).await.ok(), &json!({ "OIDC": null }));
    exchange(&without, "x").await.refused(404, "PathNotFound");
}

#[tokio::test]
async fn an_id_token_is_traded_for_a_token_with_the_role_of_its_rule() {
    let issuer = Issuer::start().await;
    let mut server = start(&issuer, |_| ()).await;
    let person = json!({ "email": "ada@example.org", "email_verified": true, "groups": ["builders", "platform"] });
    let created = exchange(&server, &issuer.token(AUDIENCE, &person)).await;
    let created = created.ok().clone();
    let secret = text(&created["Secret"]);
    assert!(secret.starts_with("jt1_"), "{created}");
    let token = &created["Token"];
    assert_eq!(token["Name"], "ada@example.org");
    assert_eq!(token["Role"], "submitter");
    assert_eq!(token["Namespaces"], json!(["ci", "default"]));
    assert_eq!(token["CreatedBy"], format!("ada at {}", issuer.url()));
    let seconds = |field: &str| {
        let time = api_types::Timestamp::parse(&text(&token[field])).expect("a time");
        time.0 / 1_000_000_000
    };
    assert_eq!(seconds("ExpireTime") - seconds("CreateTime"), 12 * 3600);

    let list_jobs = format!("{JOBS}?namespace=default");
    with(&server, Method::GET, &list_jobs, &secret).await.ok();
    // The token is the service's own from now on: neither the issuer nor its absence matters to it.
    issuer.be_away(true);
    server.restart().await;
    let identity = with(&server, Method::GET, IDENTITY, &secret).await;
    assert_eq!(identity.ok()["Name"], "ada@example.org");

    let admin = admin_of(&server);
    let audit = with(&server, Method::GET, "/api/v1/orchestrator/audit?chain=rest", &admin).await;
    let records = list(&audit.ok()["Records"]);
    let record = records.iter().find(|record| record["Operation"] == "exchangeIdToken");
    let record = record.unwrap_or_else(|| panic!("{}", audit.text));
    assert_eq!(record["User"], "ada@example.org");
    assert_eq!((&record["TokenID"], &record["Object"]), (&token["ID"], &token["ID"]));
    assert!(!audit.text.contains(&secret), "{}", audit.text);
    let path = format!("{TOKENS}/{}", text(&token["ID"]));
    with(&server, Method::DELETE, &path, &admin).await.ok();
    with(&server, Method::GET, IDENTITY, &secret).await.refused(401, "Unauthenticated");
}

#[tokio::test]
async fn refusals_say_what_to_do_and_not_what_the_rules_want() {
    let issuer = Issuer::start().await;
    let server = start(&issuer, |_| ()).await;
    let now = unix_seconds();
    let unknown = SigningKey::new(Algorithm::EdDsa, "unknown");
    for (token, words) in [
        (member(&issuer, &json!({ "exp": now - 100 })), "it has expired"),
        (member(&issuer, &json!({ "aud": "other" })), "it is for another audience"),
        (member(&issuer, &json!({ "iss": "http://127.0.0.1:1" })), "another issuer made it"),
        (unsigned(&issuer.claims(AUDIENCE, &json!({}))), "not signed with RS256"),
        (unknown.sign(&issuer.claims(AUDIENCE, &json!({}))), "does not have the key"),
        ("x".to_owned(), "not a JSON Web Token"),
        ("x".repeat(20_000), "longer than 16384 bytes"),
        (String::new(), "not a JSON Web Token"),
    ] {
        let refused = exchange(&server, &token).await;
        refused.refused(401, "Unauthenticated").says(words);
        assert!(!text(&refused.body["Hint"]).is_empty(), "{}", refused.text);
    }
    let guest = issuer.token(AUDIENCE, &json!({ "groups": ["guests"], "name": "Eve" }));
    let refused = exchange(&server, &guest).await;
    refused.refused(403, "Forbidden").says("compare the claims /cloud/project, groups");
    for secret in ["platform", "builders", "guests", "submitter"] {
        assert!(!refused.text.contains(secret), "{}", refused.text);
    }
    // A pointer leads into a claim.
    let nested = issuer.token(AUDIENCE, &json!({ "cloud": { "project": "x" } }));
    let created = exchange(&server, &nested).await;
    assert_eq!(created.ok()["Token"]["Role"], "admin");
    assert_eq!(created.ok()["Token"]["Namespaces"], json!(["*"]));
}

#[tokio::test]
async fn a_rotated_key_is_found_and_the_old_one_is_refused() {
    let issuer = Issuer::start().await;
    let server = start(&issuer, |_| ()).await;
    let old = member(&issuer, &json!({}));
    exchange(&server, &old).await.ok();
    issuer.publish(vec![SigningKey::new(Algorithm::Es256, "second")]);
    exchange(&server, &member(&issuer, &json!({}))).await.ok();
    exchange(&server, &old).await.refused(401, "Unauthenticated").says("does not have the key");
}

#[tokio::test]
async fn an_issuer_that_is_away_is_said_to_be_until_it_is_back() {
    let issuer = Issuer::start().await;
    issuer.be_away(true);
    let server = start(&issuer, |_| ()).await;
    let token = member(&issuer, &json!({}));
    let refused = exchange(&server, &token).await;
    refused.refused(503, "IssuerUnavailable");
    assert_eq!(refused.header("retry-after"), "5");
    let begun = login::as_browser(&server, login::LOGIN, "", "same-origin").await;
    assert_eq!(begun.header("location"), "/?sign_in_problem=away");
    issuer.be_away(false);
    let back = async {
        while exchange(&server, &token).await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.expect("the issuer is asked again");
    // Its keys are there now.
    issuer.be_away(true);
    exchange(&server, &token).await.ok();
}

#[tokio::test]
async fn a_token_of_the_issuer_does_not_stand_in_for_the_first_one() {
    let issuer = Issuer::start().await;
    let mut server = start(&issuer, |_| ()).await;
    let nested = issuer.token(AUDIENCE, &json!({ "cloud": { "project": "x" } }));
    let created = exchange(&server, &nested).await;
    let secret = text(&created.ok()["Secret"]);
    let first = admin_of(&server);
    let path = format!("{TOKENS}/{}", first.split('_').nth(1).expect("an ID"));
    with(&server, Method::DELETE, &path, &secret).await.ok();
    server.restart().await;
    assert_ne!(admin_of(&server), first, "an admin who ends is all that is left");
}

#[tokio::test]
async fn an_issuer_that_cannot_be_used_refuses_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("write");
        path
    };
    let good = settings_of(&Issuer::start().await);
    let missing = directory.path().join("missing");
    for (oidc, words) in [
        (OidcSettings { ca_file: missing, ..good.clone() }, "cannot read oidc.ca_file at"),
        (OidcSettings { ca_file: file("ca", "x"), ..good.clone() }, "contains no certificate"),
        (
            OidcSettings { client_secret_file: file("secret", "\n"), ..good.clone() },
            "oidc.client_secret_file at",
        ),
    ] {
        let settings = Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            data_dir: directory.path().join("data"),
            auth: Auth::Required,
            insecure: true,
            oidc,
            ..Settings::default()
        };
        let Err(error) = Orchestrator::start(settings).await else { panic!("{words}") };
        assert!(error.is_of_settings(), "{words}");
        let mut said = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            said = format!("{said}: {cause}");
            source = cause.source();
        }
        assert!(said.contains(words), "{said}");
    }
}
