//! Signing in to the pages at an issuer.

use fantoccini::Locator;
use serde_json::json;
use testbed::harness::ClusterSpec;

use super::accessibility::{assert_accessible, axe};
use super::browser::{Browser, in_browser};
use super::guarded::{Guarded, PLAIN_WITH_TOKENS, asks_for_a_token, is_live, sign_out};
use testbed::issuer::Provider;

/// The link of the page that signs in.
fn link(provider: &Provider) -> String {
    format!("Sign in with {}", provider.url.trim_start_matches("http://"))
}

/// Chooses an account on the issuer's page.
async fn choose(browser: &Browser, account: &str) {
    browser.wait_for_text("Authorize Client").await;
    let path = format!("//button[normalize-space()='{account}']");
    let button = browser.client.find(Locator::XPath(&path)).await.expect("the account");
    button.click().await.expect("choose the account");
}

/// The issuer's page names a style sheet of another server.
async fn without_foreign_servers(browser: &Browser) {
    browser.devtools("Network.enable", json!({})).await;
    let urls = json!({ "urls": ["*cdn.jsdelivr.net*"] });
    browser.devtools("Network.setBlockedURLs", urls).await;
}

async fn signs_in_and_comes_back(spec: ClusterSpec) {
    let Some(provider) = Provider::start().await else { return };
    let guarded = Guarded::with(provider.trusted(spec)).await;
    in_browser(&guarded.cluster, async |browser| {
        without_foreign_servers(browser).await;
        browser.visit("/jobs?order=oldest").await;
        asks_for_a_token(browser).await;
        browser.wait_for_text(&link(&provider)).await;
        assert_accessible(browser, axe().as_deref(), "sign-in with an issuer").await;
        browser.click(&link(&provider)).await;
        choose(browser, "ada").await;
        // The page that was asked for, as whom the issuer says.
        is_live(browser).await;
        let place = browser.value("location.pathname + location.search").await;
        assert_eq!(place, json!("/jobs?order=oldest"));
        let account = "document.querySelector('.account').textContent";
        let shown = browser.value(account).await;
        assert!(shown.to_string().contains("ada@example.org submitter in default"), "{shown}");
        assert_eq!(browser.value("document.cookie").await, json!(""));
        sign_out(browser).await;

        // A person without a role learns so, on the page that signs in.
        browser.click(&link(&provider)).await;
        choose(browser, "eve").await;
        asks_for_a_token(browser).await;
        browser.wait_for_text("no rule of this service gives you a role").await;
        let place = browser.value("location.pathname + location.search").await;
        assert_eq!(place, json!("/jobs?order=oldest"));
        browser.assert_no_fault("sign-in with an issuer").await;
    })
    .await;
}

#[tokio::test]
async fn somebody_signs_in_at_the_issuer_and_the_page_that_was_asked_for_opens() {
    let settings = PLAIN_WITH_TOKENS.into_iter();
    let spec = settings.fold(ClusterSpec::new(), |spec, (name, value)| spec.setting(name, value));
    signs_in_and_comes_back(spec).await;
}

#[tokio::test]
async fn over_tls_the_issuer_leads_back_as_well() {
    signs_in_and_comes_back(ClusterSpec::new().protected()).await;
}
