//! `jobctl login --oidc` and `jobctl login --id-token-file`.

use std::collections::BTreeMap;
use std::process::Stdio;

use api_types::access::Role;
use orchestrator::Settings;
use orchestrator::settings::{Auth, ClaimValue, OidcSettings, RuleSettings};
use peers::issuer::Issuer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::service::Service;
use crate::transcript::Transcript;

const AUDIENCE: &str = "jobs";

async fn guarded(issuer: &Issuer, change: impl FnOnce(&mut OidcSettings)) -> Service {
    let group = ClaimValue::Text("platform".to_owned());
    let mut oidc = OidcSettings {
        issuer: issuer.url().to_owned(),
        audience: AUDIENCE.to_owned(),
        rules: vec![RuleSettings {
            claims: BTreeMap::from([("groups".to_owned(), group)]),
            role: Role::Submitter,
            namespaces: vec!["default".to_owned()],
        }],
        ..OidcSettings::default()
    };
    change(&mut oidc);
    Service::start_with(|settings| Settings {
        auth: Auth::Required,
        insecure: true,
        oidc,
        ..settings
    })
    .await
}

fn member(more: &Value) -> Value {
    let mut claims = json!({
        "sub": "7", "email": "ada@example.org", "email_verified": true, "groups": ["platform"],
    });
    for (name, value) in more.as_object().expect("claims") {
        claims[name] = value.clone();
    }
    claims
}

#[track_caller]
fn done(ran: &Transcript) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.trim()
}

#[tokio::test]
async fn a_program_signs_in_with_an_id_token() {
    let issuer = Issuer::start().await;
    let service = guarded(&issuer, |_| ()).await;
    let token = issuer.token(AUDIENCE, &member(&json!({})));
    let login = ["login", "--id-token-file", "-"];
    let signed_in = service.run_with_input(&login, &format!("{token}\n")).await;
    let said = done(&signed_in);
    assert!(said.contains("as ada@example.org (submitter of default, until "), "{said}");
    assert!(!signed_in.stdout.contains(&token) && !signed_in.stderr.contains("jt1_"));
    done(&service.run(&["list"]).await);

    // Kubernetes and others leave it in a file.
    done(&service.run(&["logout"]).await);
    service.write("id-token", &token);
    done(&service.run(&["login", "--id-token-file", "id-token"]).await);
    assert!(done(&service.run(&["whoami"]).await).starts_with("ada@example.org"));

    let without_groups = issuer.token(AUDIENCE, &member(&json!({ "groups": [] })));
    let refused = service.run_with_input(&login, &without_groups).await;
    assert_eq!(refused.code, Some(122), "{refused}");
    assert!(refused.stderr.contains("compare the claims groups"), "{refused}");
    let empty = service.run_with_input(&login, "\n").await;
    assert_eq!(empty.code, Some(120), "{empty}");
    // What was kept before is kept.
    done(&service.run(&["whoami"]).await);
}

/// A login that waits for a browser: its URL, and then what it prints and its exit code.
async fn browse(
    service: &Service,
    visit: impl AsyncFnOnce(&str, &reqwest::Client),
) -> (i32, String) {
    let mut command = service.command(&["login", "--oidc"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().expect("run it");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut url = String::new();
    while url.is_empty() {
        let line = stderr.next_line().await.expect("read").expect("it prints a URL");
        if line.trim().starts_with("http") {
            line.trim().clone_into(&mut url);
        }
    }
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    visit(&url, &http).await;
    let mut said = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut said).await.expect("read");
    while let Some(line) = stderr.next_line().await.expect("read") {
        said.push_str(&line);
    }
    (child.wait().await.expect("its end").code().expect("no signal"), said)
}

#[tokio::test]
async fn somebody_signs_in_with_a_browser() {
    let issuer = Issuer::start().await;
    issuer.sign_in(member(&json!({})));
    let service = guarded(&issuer, |_| ()).await;
    let (code, said) = browse(&service, async |url, http| {
        let redirect = url.split("redirect_uri=").nth(1).unwrap().split('&').next().unwrap();
        let port = redirect.split("%3A").nth(2).unwrap().split("%2F").next().unwrap();
        // Neither another request nor another person's code ends it.
        for path in ["", "favicon.ico", "callback?code=x&state=y", "callback?error=no"] {
            let other = http.get(format!("http://127.0.0.1:{port}/{path}")).send().await.unwrap();
            assert_eq!(other.status(), 404, "{path}");
        }
        let shown = http.get(url).send().await.unwrap().text().await.unwrap();
        assert!(shown.contains("goes on in the terminal"), "{shown}");
    })
    .await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("as ada@example.org (submitter of default"), "{said}");
    done(&service.run(&["list"]).await);
}

#[tokio::test]
async fn a_sign_in_that_the_issuer_ends_otherwise_keeps_nothing() {
    let issuer = Issuer::start().await;
    let service = guarded(&issuer, |_| ()).await;
    let (code, said) = browse(&service, async |url, http| {
        let part = |name: &str| {
            let value = url.split(&format!("{name}=")).nth(1).unwrap().split('&').next().unwrap();
            value.replace("%3A", ":").replace("%2F", "/")
        };
        let denied =
            format!("{}?state={}&error=access_denied", part("redirect_uri"), part("state"));
        assert_eq!(http.get(denied).send().await.unwrap().status(), 400);
    })
    .await;
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("access_denied"), "{said}");

    issuer.sign_in(member(&json!({ "nonce": "of-another" })));
    let (code, said) = browse(&service, async |url, http| {
        http.get(url).send().await.unwrap();
    })
    .await;
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("of another sign-in"), "{said}");
    assert_eq!(service.run(&["list"]).await.code, Some(122));
}

#[tokio::test]
async fn a_login_says_where_there_is_no_browser_to_sign_in_with() {
    let issuer = Issuer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    std::fs::write(&file, "x").unwrap();
    let confidential = guarded(&issuer, |oidc| oidc.client_secret_file.clone_from(&file)).await;
    let refused = confidential.run(&["login", "--oidc"]).await;
    assert_eq!(refused.code, Some(120), "{refused}");
    assert!(refused.stderr.contains("has a secret"), "{refused}");

    let without = Service::start_with(|settings| settings).await;
    let refused = without.run(&["login", "--oidc"]).await;
    assert_eq!(refused.code, Some(120), "{refused}");
    assert!(refused.stderr.contains("has no issuer"), "{refused}");

    let away = guarded(&issuer, |_| ()).await;
    issuer.be_away(true);
    let refused = away.run(&["login", "--oidc"]).await;
    assert_eq!(refused.code, Some(121), "{refused}");
}
