//! The API reference: the service's own OpenAPI document, one operation at a time.

use serde_json::json;
use testbed::harness::ClusterSpec;

use super::browser::in_browser;

#[tokio::test]
async fn every_operation_is_found_and_says_what_it_takes() {
    let cluster = ClusterSpec::new().start_without_agents().await;
    in_browser(&cluster, async |browser| {
        browser.visit("/reference").await;
        browser.wait_for_text("List Jobs").await;
        let linked = "document.querySelectorAll('a[href^=\"/reference/\"]').length";
        let documented = browser
            .value(
                "fetch('/api/v1/openapi.json').then((answer) => answer.json())\
                 .then(({ paths }) => Object.values(paths)\
                 .flatMap((item) => Object.values(item).filter((one) => one.operationId)).length)",
            )
            .await;
        assert_eq!(browser.value(linked).await, documented);

        browser.visit("/reference/listJobs").await;
        for text in ["GET /api/v1/orchestrator/jobs", "next_token", "default \"create_time\""] {
            browser.wait_for_text(text).await;
        }
        let rows =
            "document.querySelectorAll('table[aria-label=\"Parameters\"] tbody tr').length > 5";
        assert_eq!(browser.value(rows).await, json!(true));

        browser.visit("/reference/createJob").await;
        browser.wait_for_text("Request body").await;
        browser.visit("/reference/noSuchOperation").await;
        browser.wait_for_text("There is no such operation").await;
        browser.assert_no_fault("reference").await;
    })
    .await;
}
