//! The orchestrator restarts while a page follows: the page says so, and goes on without a gap.

use api_types::execution::ComputeState;
use serde_json::{Value, json};
use testbed::harness::{Cluster, batch};

use super::browser::in_window;

/// The numbers of the lines in sight, from text like `line 17`.
const NUMBERS: &str = "[...document.querySelectorAll('.log-text')]
    .map((line) => Number(line.textContent.replace('line ', '')))";

/// How many lines the page has read.
const READ: &str =
    "Number(document.querySelector('.log-status').textContent.replace(/[^0-9]/g, ''))";

async fn numbers(browser: &super::browser::Browser) -> Vec<u64> {
    let shown: Value = browser.value(NUMBERS).await;
    shown.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn logs_go_on_after_a_restart_without_a_gap_or_a_repeat() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["lines", "100000", "stdout", "50"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let base_url = cluster.orchestrator.base_url().to_owned();
    let cluster = &mut cluster;
    in_window(&base_url, 1280, 900, async |browser| {
        browser.visit(&format!("/jobs/{id}/logs")).await;
        browser.wait_for("lines arrive", &format!("{READ} > 20")).await;
        cluster.orchestrator.kill();
        browser.wait_for_text("The orchestrator does not answer.").await;
        let before = browser.value(READ).await.as_u64().expect("a number");
        cluster.orchestrator.restart().await;
        let hidden = "document.querySelector('#banner').hidden";
        browser.wait_for("the page has noticed", hidden).await;
        browser.wait_for("lines go on", &format!("{READ} > {}", before + 40)).await;
        let shown = numbers(browser).await;
        assert!(shown.len() > 10, "{shown:?}");
        assert!(shown.windows(2).all(|pair| pair[1] == pair[0] + 1), "{shown:?}");
        // The count and the last number agree, so no line is missing or repeated above either.
        let agree = format!("{READ} === Math.max(...{NUMBERS}) + 1");
        browser.wait_for("as many lines as were printed", &agree).await;
        assert_eq!(browser.value("window.faults").await, json!([]));
    })
    .await;
}
