//! The pages without a pointer.

use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec};

use super::browser::in_browser;
use super::named;

/// WebDriver's names of keys.
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const TAB: &str = "\u{e004}";

#[tokio::test]
async fn keys_lead_to_pages_rows_and_records() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let first = cluster.run(&named("alpha")).await[0].job_id;
    cluster.run(&named("beta")).await;
    in_browser(&cluster, async |browser| {
        let path = |wanted: &str| format!("location.pathname === '{wanted}'");
        browser.visit("/").await;
        browser.press("gj").await;
        browser.wait_for("the list is open", &path("/jobs")).await;
        browser.settled().await;
        let focus = "document.activeElement.tagName";
        assert_eq!(browser.value(focus).await, json!("H1"), "focus moves with the route");
        browser.press("j").await;
        browser.press("j").await;
        let row = "document.activeElement.textContent";
        assert_eq!(browser.value(row).await, json!("alpha"));
        browser.press(ENTER).await;
        browser.wait_for("the job is open", &path(&format!("/jobs/{first}"))).await;
        browser.settled().await;
        browser.press("/").await;
        browser.press("bet").await;
        browser.wait_for_text("beta").await;
        browser
            .wait_for("it is offered", "document.querySelectorAll('#found li').length === 1")
            .await;
        browser.press(ENTER).await;
        browser
            .wait_for("it is open", "document.querySelector('h1')?.textContent === 'beta'")
            .await;
        browser.press("?").await;
        browser
            .wait_for("the keys are shown", "document.querySelector('dialog[open]') !== null")
            .await;
        browser.press(ESCAPE).await;
        browser.wait_for("they are gone", "document.querySelector('dialog') === null").await;
        browser.assert_no_fault("keyboard").await;
    })
    .await;
}

#[tokio::test]
async fn the_first_tab_skips_to_the_content() {
    let cluster = ClusterSpec::new().start_without_agents().await;
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs").await;
        browser.press(TAB).await;
        let focused = "document.activeElement.textContent";
        assert_eq!(browser.value(focused).await, json!("Skip to the content"));
        browser.press(ENTER).await;
        browser.wait_for("the content has the focus", "document.activeElement.id === 'main'").await;
    })
    .await;
}
