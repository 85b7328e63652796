//! The pages of a service that asks for tokens: signing in and out, what a role is offered, and the
//! page that manages tokens and namespaces.

use fantoccini::Locator;
use reqwest::Method;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, eventually};

use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::browser::{Browser, in_browser};
use super::guarded::{
    Guarded, HEADING, NAMESPACES, PLAIN_WITH_TOKENS, asks_for_a_token, enter, is_live, sign_in,
    sign_out,
};
use super::named;

const IDENTITY: &str = "/api/v1/auth/identity";

/// The words of all buttons and links that the page shows.
const OFFERED: &str = "[...document.querySelectorAll('a, button')]
    .filter((e) => e.offsetParent).map((e) => e.textContent.trim())";

/// Where a page could leave something behind.
const LEFT_BEHIND: &str = "JSON.stringify([location.href, { ...localStorage },
    { ...sessionStorage }, document.cookie, document.documentElement.outerHTML,
    [...document.querySelectorAll('input')].map((input) => input.value),
    performance.getEntries().map((entry) => entry.name)])";

/// Requests to the API that this page has sent.
const REQUESTS: &str = "performance.getEntriesByType('resource')
    .filter((entry) => entry.name.includes('/api/')).length";

pub(super) async fn offers(browser: &Browser, word: &str) -> bool {
    let offered = browser.value(OFFERED).await;
    offered.as_array().expect("a list").contains(&json!(word))
}

/// Replaces the text of the editor, as typing does.
pub(super) async fn write_job(browser: &Browser, text: &str) {
    let write = format!(
        "(() => {{ const area = document.querySelector('textarea.editor-text'); \
         area.value = {}; area.dispatchEvent(new Event('input')); return true; }})()",
        json!(text)
    );
    assert_eq!(browser.value(&write).await, json!(true));
}

pub(super) async fn fill(browser: &Browser, label: &str, text: &str) {
    let path = format!("//dialog//label[normalize-space()=\"{label}\"]/following-sibling::*[1]");
    let field = browser.client.find(Locator::XPath(&path)).await;
    let field = field.unwrap_or_else(|error| panic!("no field '{label}': {error}"));
    field.send_keys(text).await.expect("type");
}

#[tokio::test]
async fn a_token_opens_the_page_that_was_asked_for_and_stays_nowhere() {
    let guarded = Guarded::start().await;
    in_browser(&guarded.cluster, async |browser| {
        browser.visit("/jobs?order=oldest").await;
        asks_for_a_token(browser).await;
        let focused = "document.activeElement.id === 'token'";
        assert_eq!(browser.value(focused).await, json!(true));
        browser.wait_for_text("jobctl token create").await;
        assert!(!offers(browser, "Jobs").await, "pages are offered before one has signed in");
        let wrong = format!("{}x", guarded.admin);
        enter(browser, &wrong).await;
        browser.wait_for_text("The token was refused").await;
        assert_eq!(browser.value("document.querySelector('#token').value").await, json!(""));
        // The pages do not ask again and again for what was refused.
        let requests = browser.value(REQUESTS).await.as_u64().expect("a number");
        assert!(requests <= 6, "{requests} requests");

        sign_in(browser, &guarded.admin).await;
        assert_eq!(browser.value(HEADING).await, json!("Jobs"));
        let url = "location.pathname + location.search";
        assert_eq!(browser.value(url).await, json!("/jobs?order=oldest"));
        let account = browser.value("document.querySelector('.account').innerText").await;
        assert!(account.as_str().expect("text").contains("admin"), "{account}");
        let left = browser.value(LEFT_BEHIND).await;
        for token in [&wrong, &guarded.admin] {
            assert!(!left.as_str().expect("text").contains(token.as_str()), "{left}");
        }

        // What happens afterwards arrives by itself.
        is_live(browser).await;
        guarded.submit("arrives", "default").await;
        browser.wait_for_text("arrives").await;

        sign_out(browser).await;
        browser.wait_for_text("You have signed out.").await;
        assert!(!browser.text().await.contains("arrives"));
        browser.visit("/jobs").await;
        asks_for_a_token(browser).await;
        browser.assert_no_fault("sign-in").await;
    })
    .await;
}

#[tokio::test]
async fn all_tabs_sign_in_and_out_together() {
    let guarded = Guarded::start().await;
    in_browser(&guarded.cluster, async |browser| {
        browser.visit("/jobs").await;
        asks_for_a_token(browser).await;
        let tab = browser.client.new_window(true).await.expect("open a tab");
        browser.client.switch_to_window(tab.handle).await.expect("switch to it");
        browser.visit("/nodes").await;
        sign_in(browser, &guarded.admin).await;
        let tabs = browser.client.windows().await.expect("list the tabs");
        browser.client.switch_to_window(tabs[0].clone()).await.expect("switch back");
        browser.wait_for("the other tab opens", &format!("{HEADING} === 'Jobs'")).await;
        is_live(browser).await;
        guarded.submit("arrives", "default").await;
        browser.wait_for_text("arrives").await;
        sign_out(browser).await;
        browser.assert_no_fault("tabs").await;
        browser.client.switch_to_window(tabs[1].clone()).await.expect("switch again");
        asks_for_a_token(browser).await;
    })
    .await;
}

#[tokio::test]
async fn over_tls_a_token_opens_pages_that_stay_live() {
    let guarded = Guarded::with(ClusterSpec::new().protected()).await;
    in_browser(&guarded.cluster, async |browser| {
        browser.visit("/jobs").await;
        assert_eq!(browser.value("location.protocol").await, json!("https:"));
        sign_in(browser, &guarded.admin).await;
        is_live(browser).await;
        guarded.cluster.submit(&named("arrives")).await;
        browser.wait_for_text("arrives").await;
        browser.visit("/access").await;
        browser.wait_for_text("Create a token…").await;
        sign_out(browser).await;
        browser.assert_no_fault("tls").await;
    })
    .await;
}

#[tokio::test]
async fn without_shared_workers_updates_arrive_after_signing_in_as_well() {
    let guarded = Guarded::start().await;
    in_browser(&guarded.cluster, async |browser| {
        let source = json!({ "source": "delete globalThis.SharedWorker" });
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", source).await;
        browser.visit("/jobs").await;
        sign_in(browser, &guarded.admin).await;
        is_live(browser).await;
        guarded.submit("arrives", "default").await;
        browser.wait_for_text("arrives").await;
        browser.assert_no_fault("without a worker").await;
    })
    .await;
}

#[tokio::test]
async fn a_page_whose_token_is_revoked_says_so_and_keeps_its_url_and_draft() {
    let guarded = Guarded::start().await;
    guarded.namespace("ci").await;
    let (secret, id) = guarded.token("build server", "submitter", &["ci"]).await;
    in_browser(&guarded.cluster, async |browser| {
        browser.visit("/submit").await;
        sign_in(browser, &secret).await;
        browser.click("JSON or YAML").await;
        // A new job begins in the only namespace of the role.
        let text = "document.querySelector('textarea.editor-text').value";
        let begun = browser.value(&format!("JSON.parse({text}).Job.Namespace")).await;
        assert_eq!(begun, json!("ci"));
        write_job(browser, r#"{"Job": {"Name": "draft-to-keep", "Namespace": "ci"}}"#).await;
        guarded.revoke(&id).await;
        asks_for_a_token(browser).await;
        browser.wait_for_text("Your session has ended").await;
        assert_eq!(browser.value("location.pathname").await, json!("/submit"));
        let (other, _) = guarded.token("another", "submitter", &["ci"]).await;
        sign_in(browser, &other).await;
        let kept = format!("{text}?.includes('draft-to-keep') ?? false");
        browser.wait_for("the draft is there", &kept).await;
        // The next user of the browser does not see it.
        sign_out(browser).await;
        sign_in(browser, &other).await;
        browser.wait_for("a form is there", "document.querySelector('.form') !== null").await;
        let storage = browser.value("localStorage.draft ?? ''").await;
        assert!(!storage.to_string().contains("draft-to-keep"), "{storage}");
        browser.assert_no_fault("revoked").await;
    })
    .await;
}

#[tokio::test]
async fn a_role_is_offered_only_what_it_may_do() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().engines("noop"));
    let mut guarded = Guarded::with(spec).await;
    let job = guarded.cluster.submit(&named("done")).await;
    let mut waits = named("waits");
    waits["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": ["mars"] }]);
    let waits = guarded.cluster.submit(&waits).await;
    guarded.cluster.wait_for_job(job, api_types::job::JobStateType::Completed).await;
    let node = guarded.cluster.agents[0].node_id();
    guarded.cluster.orchestrator.kill();
    for (name, value) in PLAIN_WITH_TOKENS {
        guarded.cluster.orchestrator.set_variable(name, value);
    }
    guarded.cluster.orchestrator.restart().await;
    guarded.read_admin();
    let (viewer, _) = guarded.token("auditor", "viewer", &["default"]).await;
    let (submitter, _) = guarded.token("builder", "submitter", &["default"]).await;
    let (operator, _) = guarded.token("operator", "operator", &[]).await;
    in_browser(&guarded.cluster, async |browser| {
        let page = format!("/jobs/{waits}");
        browser.visit(&page).await;
        sign_in(browser, &viewer).await;
        browser.wait_for_text("History").await;
        for word in ["Stop…", "Edit and submit as new", "Logs", "Results", "Submit", "Access"] {
            assert!(!offers(browser, word).await, "a viewer is offered '{word}'");
        }
        browser.click("Specification").await;
        browser.wait_for_text("needs the role submitter in namespace default").await;
        browser.visit(&format!("/jobs/{job}/logs")).await;
        browser.wait_for_text("Logs need the role submitter").await;
        browser.visit("/submit").await;
        browser.wait_for_text("Submitting needs the role submitter").await;
        browser.visit("/access").await;
        browser.wait_for_text("Tokens need the role owner").await;
        browser.visit("/jobs").await;
        browser.wait_for_text("waits").await;
        let boxes = "document.querySelectorAll('main input[type=checkbox]').length";
        assert_eq!(browser.value(boxes).await, json!(0));
        browser.visit(&format!("/nodes/{node}")).await;
        browser.wait_for_text("Capacity given").await;
        assert!(!offers(browser, "Cordon…").await, "a viewer is offered to cordon a node");
        browser.visit("/jobs?namespace=elsewhere").await;
        browser.wait_for_text("Namespace not found").await;
        browser.wait_for_text("no namespace matches 'elsewhere'").await;
        browser.visit("/events?namespace=elsewhere").await;
        browser.wait_for_text("no namespace matches 'elsewhere'").await;

        sign_out(browser).await;
        sign_in(browser, &operator).await;
        browser.visit(&format!("/nodes/{node}")).await;
        browser.wait_for_text("Capacity given").await;
        assert!(offers(browser, "Cordon…").await, "an operator is not offered to cordon a node");
        assert!(!offers(browser, "Submit").await);

        sign_out(browser).await;
        sign_in(browser, &submitter).await;
        browser.visit(&page).await;
        browser.wait_for_text("History").await;
        for word in ["Stop…", "Edit and submit as new", "Logs", "Results", "Submit"] {
            assert!(offers(browser, word).await, "a submitter is not offered '{word}'");
        }
        browser.click("Access").await;
        browser.wait_for_text("No secrets").await;
        assert!(!offers(browser, "Tokens and namespaces").await);
        browser.assert_no_fault("roles").await;
    })
    .await;
}

#[tokio::test]
async fn tokens_and_namespaces_are_managed_on_their_page() {
    let guarded = Guarded::start().await;
    in_browser(&guarded.cluster, async |browser| {
        browser.visit("/access").await;
        sign_in(browser, &guarded.admin).await;
        browser.click("Create a namespace…").await;
        browser.click("Create").await;
        browser.wait_for_text("is required").await;
        fill(browser, "Name", "ci").await;
        fill(browser, "Description", "builds and tests").await;
        browser.click("Create").await;
        browser.wait_for_text("builds and tests").await;

        browser.click("Create a token…").await;
        fill(browser, "Name", "build server").await;
        browser.client.find(Locator::Css("dialog input[value=ci]")).await.expect("ci").click().await.expect("tick");
        browser.click("Create").await;
        browser.wait_for_text("It is shown this once.").await;
        let secret = browser.value("document.querySelector('dialog .command pre').textContent").await;
        let secret = secret.as_str().expect("text").to_owned();
        let (status, identity) = guarded.ask(Method::GET, IDENTITY, &secret, None).await;
        assert_eq!(status, 200, "{identity}");
        assert_eq!(identity["Name"], "build server");
        assert_eq!(identity["Role"], "submitter");
        assert_eq!(identity["Namespaces"], json!(["ci", "default"]));
        browser.click("Done").await;
        browser.wait_for("the dialog is gone", "document.querySelector('dialog') === null").await;
        let left = browser.value(LEFT_BEHIND).await;
        assert!(!left.as_str().expect("text").contains(&secret), "{left}");

        let row = "[...document.querySelectorAll('tbody tr')].find((row) => row.innerText.includes('build server'))";
        browser.wait_for("the token is listed", &format!("{row} !== undefined")).await;
        let revoke = format!("{row}.querySelector('button.danger').click() ?? true");
        assert_eq!(browser.value(&revoke).await, json!(true));
        browser.wait_for_text("Revoke build server?").await;
        browser.click("Revoke the token").await;
        browser.wait_for("the token is gone", &format!("{row} === undefined")).await;
        eventually("the token is refused", async || {
            match guarded.ask(Method::GET, IDENTITY, &secret, None).await {
                (401, _) => Ok(()),
                (status, answer) => Err(format!("{status}: {answer}")),
            }
        })
        .await;

        // A namespace with a job stays, and the page says why.
        guarded.submit("stays", "ci").await;
        let delete = "document.querySelector('[aria-label=\"Delete ci…\"]').click() ?? true";
        assert_eq!(browser.value(delete).await, json!(true));
        browser.wait_for_text("Delete ci?").await;
        browser.click("Delete the namespace").await;
        browser.wait_for_text("it has jobs").await;
        browser.assert_no_fault("access").await;
    })
    .await;
}

#[tokio::test]
#[ignore = "long"]
async fn signing_in_and_managing_access_is_accessible() {
    let guarded = Guarded::start().await;
    guarded.namespace("ci").await;
    let restricted = json!({
        "Description": "The nightly builds of every branch, and the tests that take long.",
        "Permissions": { "Engines": ["docker"], "Networks": ["None"], "Publishers": ["", "s3"] },
    });
    guarded.as_admin(Method::PUT, &format!("{NAMESPACES}/nightly-builds"), Some(restricted)).await;
    let (owner, _) = guarded.token("the build server of the documentation", "owner", &["ci"]).await;
    let (viewer, _) = guarded.token("guest", "viewer", &["ci"]).await;
    guarded.token("auditor", "viewer", &["ci", "nightly-builds", "default"]).await;
    guarded.token("night shift", "operator", &[]).await;
    let job = guarded.submit("waits", "ci").await;
    let axe = axe();
    let axe = axe.as_deref();
    in_browser(&guarded.cluster, async |browser| {
        for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)] {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            let of = |name: &str| format!("{name}-{scheme}-{width}");
            browser.visit("/access").await;
            asks_for_a_token(browser).await;
            assert_accessible(browser, axe, &of("sign-in")).await;
            enter(browser, "jt1_wrong").await;
            browser.wait_for_text("The token was refused").await;
            assert_accessible(browser, axe, &of("sign-in-refused")).await;
            sign_in(browser, &owner).await;
            assert_accessible(browser, axe, &of("access-owner")).await;
            browser.visit("/jobs").await;
            browser.wait_for_text("waits").await;
            assert_accessible(browser, axe, &of("jobs-owner")).await;
            sign_out(browser).await;
            assert_accessible(browser, axe, &of("signed-out")).await;
            sign_in(browser, &viewer).await;
            browser.visit(&format!("/jobs/{job}/specification")).await;
            browser.wait_for_text("needs the role submitter").await;
            assert_accessible(browser, axe, &of("specification-viewer")).await;
            sign_out(browser).await;
            sign_in(browser, &guarded.admin).await;
            browser.visit("/access").await;
            assert_accessible(browser, axe, &of("access")).await;
            browser.click("Create a token…").await;
            assert_accessible(browser, axe, &of("access-create-token")).await;
            fill(browser, "Name", "short-lived").await;
            browser.click("Create").await;
            browser.wait_for_text("It is shown this once.").await;
            assert_accessible(browser, axe, &of("access-secret")).await;
            browser.click("Done").await;
            let revoke = "document.querySelector('[aria-label=\"Revoke admin…\"]').click() ?? true";
            assert_eq!(browser.value(revoke).await, json!(true));
            browser.wait_for_text("You are signed in with it").await;
            assert_accessible(browser, axe, &of("access-revoke")).await;
            browser.click("Cancel").await;
            let edit =
                "document.querySelector('[aria-label=\"Edit nightly-builds…\"]').click() ?? true";
            assert_eq!(browser.value(edit).await, json!(true));
            browser.wait_for_text("Namespace nightly-builds").await;
            assert_accessible(browser, axe, &of("access-edit-namespace")).await;
            browser.click("Cancel").await;
            sign_out(browser).await;
        }
    })
    .await;
}
