//! The pages without a pointer.

use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec};

use super::browser::in_browser;
use super::named;

/// WebDriver's names of keys.
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const TAB: &str = "\u{e004}";
/// Held until the end of the keys.
const CONTROL: &str = "\u{e009}";

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
            .wait_for("it is offered", "document.querySelectorAll('#found li').length > 0")
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

/// The search opens over a half-written job, and a verb acts after the usual question.
#[tokio::test]
async fn the_search_acts_from_anywhere() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut waiting = named("nightly-report");
    waiting["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": ["none"] }]);
    let job = cluster.submit(&waiting).await;
    let found = |text: &str| {
        format!(
            "document.querySelector('#found [aria-selected=true]')?.textContent.includes('{text}')"
        )
    };
    in_browser(&cluster, async |browser| {
        browser.visit("/submit").await;
        browser.settled().await;
        browser.value("document.querySelector('.form input').focus()").await;
        browser.press(&format!("{CONTROL}k")).await;
        let searching = "document.activeElement.getAttribute('role') === 'combobox'";
        browser.wait_for("the search has the focus", searching).await;
        browser.press("stop REPORT").await;
        browser.wait_for("stopping it is offered", &found("Stop nightly-report")).await;
        browser.press(ENTER).await;
        browser.wait_for_text("Stop nightly-report?").await;
        browser.press(ENTER).await;
        browser.wait_for_text("nightly-report is stopped").await;
        browser.press(&format!("{CONTROL}k")).await;
        browser.press("logs report").await;
        browser.wait_for("its logs are offered", &found("Logs of nightly-report")).await;
        browser.press(ENTER).await;
        let logs = format!("location.pathname === '/jobs/{job}/logs'");
        browser.wait_for("its logs are open", &logs).await;
        browser.assert_no_fault("the search").await;
    })
    .await;
}

/// Filters are kept under a name, and lead back to the same list.
#[tokio::test]
async fn a_view_of_the_list_of_jobs_is_kept() {
    let cluster = ClusterSpec::new().start_without_agents().await;
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs?state=Failed&labels=team%3Ddocs").await;
        browser.settled().await;
        let open = "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Views…').click()";
        browser.value(open).await;
        browser.wait_for("it asks", "document.querySelector('dialog[open]') !== null").await;
        browser.value("document.querySelector('dialog input').focus()").await;
        browser.press("broken docs").await;
        browser.press(ENTER).await;
        browser.wait_for_text("broken docs").await;
        browser.press(ESCAPE).await;
        browser.visit("/jobs").await;
        browser.settled().await;
        browser.value(open).await;
        browser.wait_for_text("broken docs").await;
        browser.value("document.querySelector('dialog li a').click()").await;
        let there = "location.search === '?state=Failed&labels=team%3Ddocs'";
        browser.wait_for("the view is open", there).await;
        browser.assert_no_fault("views").await;
    })
    .await;
}
