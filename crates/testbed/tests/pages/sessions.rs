//! The end of a session after 12 hours, by a clock that is set ahead.

use failpoint::WALL_CLOCK_OFFSET_VARIABLE;
use serde_json::json;

use super::access::write_job;
use super::browser::in_window;
use super::guarded::{Guarded, asks_for_a_token, is_live, sign_in};

const HOUR: u64 = 3600;

const DRAFT: &str = "{\"Job\": {\"Name\": \"half a thought\"";

#[tokio::test]
async fn a_session_ends_after_12_hours_and_the_page_keeps_its_url_and_draft() {
    let mut guarded = Guarded::start().await;
    let base_url = guarded.cluster.orchestrator.base_url().to_owned();
    let guarded = &mut guarded;
    in_window(&base_url, 1280, 900, async |browser| {
        browser.visit("/submit").await;
        sign_in(browser, &guarded.admin).await;
        is_live(browser).await;
        browser.click("JSON or YAML").await;
        write_job(browser, DRAFT).await;
        let text = "document.querySelector('textarea.editor-text')?.value";
        for (hours, ended) in [(11, false), (12, true)] {
            let seconds = hours * HOUR + if ended { 60 } else { 0 };
            let orchestrator = &mut guarded.cluster.orchestrator;
            orchestrator.kill();
            browser.wait_for_text("The orchestrator does not answer.").await;
            orchestrator.set_variable(WALL_CLOCK_OFFSET_VARIABLE, &seconds.to_string());
            orchestrator.restart().await;
            if ended {
                asks_for_a_token(browser).await;
            } else {
                is_live(browser).await;
                assert_eq!(browser.value(text).await, json!(DRAFT), "after {hours} hours");
            }
        }
        browser.wait_for_text("Your session has ended: it lasts 12 hours").await;
        assert_eq!(browser.value("location.pathname").await, json!("/submit"));
        assert_eq!(browser.value(text).await, json!(null), "the draft is shown to no one");
        // The token itself is as good as before.
        sign_in(browser, &guarded.admin).await;
        browser.wait_for("the draft is back", &format!("{text} === {}", json!(DRAFT))).await;
        browser.assert_no_fault("session").await;
    })
    .await;
}
