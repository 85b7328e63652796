//! A log that is too large for a document: its end comes soon, and only what is in sight is drawn.

use std::time::{Duration, Instant};

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{Cluster, batch};

use super::browser::in_browser;

const LINES: u32 = 300_000;

/// How soon the end of the log is in sight, from the start of the navigation.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Lines that the document may hold at once.
const MOST_ROWS: u64 = 300;

/// Jumps through the log, and returns the most rows that were drawn at any place.
const JUMPS: &str = "(() => {
    const log = document.querySelector('.log');
    let most = 0;
    for (let at = 0; at < 50; at += 1) {
        log.scrollTop = log.scrollHeight * at / 50;
        log.dispatchEvent(new Event('scroll'));
        most = Math.max(most, document.querySelectorAll('.log-line').length);
    }
    return most;
})()";

#[tokio::test]
async fn the_end_of_a_large_log_comes_soon_and_few_of_its_lines_are_drawn() {
    let Some(cluster) = Cluster::of(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["lines", &LINES.to_string()])).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    in_browser(&cluster, async |browser| {
        let started = Instant::now();
        browser.visit(&format!("/jobs/{id}/logs")).await;
        browser.wait_for_text(&format!("line {}", LINES - 1)).await;
        assert!(started.elapsed() < END_WITHIN, "it took {:?}", started.elapsed());
        let most = browser.value(JUMPS).await.as_u64().expect("a number");
        assert!((10..=MOST_ROWS).contains(&most), "{most} rows");
        // The search finds what is far from the lines in sight.
        let wanted = LINES - 12_345;
        let search = format!(
            "(() => {{ const input = document.querySelector('.log-search input'); \
             input.value = 'line {wanted}'; input.dispatchEvent(new Event('input')); \
             return true; }})()"
        );
        assert_eq!(browser.value(&search).await, json!(true));
        browser.wait_for_text("1 of 1").await;
        let found = "document.querySelector('.log-line.current')?.innerText.trim()";
        browser.wait_for("it is in sight", &format!("{found} === 'line {wanted}'")).await;
        browser.assert_no_fault("large log").await;
    })
    .await;
}
