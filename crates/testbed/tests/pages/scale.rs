//! A list of very many jobs: its first rows come soon, and no row moves while others arrive.
//!
//! The usual run has few jobs; `just ui-scale` has as many as the pages are made for.

use std::time::Duration;

use api_client::Client;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use testbed::harness::ClusterSpec;

use super::browser::{Browser, in_browser};
use super::named;

/// The number of jobs, if not the usual one.
const JOBS_VARIABLE: &str = "UI_SCALE_JOBS";
const USUAL_JOBS: usize = 3000;

/// Concurrent submissions.
const AT_ONCE: usize = 32;

/// What the pages are made for, on a machine that does nothing else.
const ROWS_WITHIN: Duration = Duration::from_millis(200);
const CONTENT_WITHIN: Duration = Duration::from_millis(300);

/// Tries of each measurement, of which the best counts.
const TRIES: usize = 5;

const ARRIVING: usize = 100;

/// Marks when the first row of a list, and the first figure of the overview, are in the document.
const MARKS: &str = "
    const marks = { rows: 'table.jobs tbody tr', figures: '.figure strong' };
    new MutationObserver(() => {
        for (const [name, selector] of Object.entries(marks)) {
            if (performance.getEntriesByName(name).length || !document.querySelector(selector)) continue;
            performance.mark(name);
        }
    }).observe(document, { childList: true, subtree: true });
";

/// Which row is at a place, each time it is asked; the rows that were there so far.
const WATCH_PLACE: &str = "(() => {
    const box = document.querySelector('table.jobs tbody tr:nth-child(5)').getBoundingClientRect();
    const at = () => document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)
        ?.closest('tr')?.dataset.key ?? 'none';
    window.places = new Set([at()]);
    setInterval(() => places.add(at()), 20);
    return true;
})()";

/// Jobs that wait, since there is no node.
async fn submit(client: &Client, names: impl Iterator<Item = String>) {
    let submissions = stream::iter(names).map(async |name| {
        let body = json!({ "Job": named(&name) }).to_string();
        client.create_job_raw(body.into(), None).await.expect("the job is accepted");
    });
    submissions.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// Milliseconds from one moment of the page to another, both as expressions.
async fn elapsed(browser: &Browser, from: &str, to: &str) -> Duration {
    let took = browser.value(&format!("({to}) - ({from})")).await;
    Duration::from_secs_f64(took.as_f64().expect("a number") / 1000.0)
}

fn mark(name: &str) -> String {
    format!("performance.getEntriesByName('{name}')[0]?.startTime ?? NaN")
}

async fn marked(browser: &Browser, name: &str) {
    browser.wait_for(name, &format!("!Number.isNaN({})", mark(name))).await;
}

fn best(what: &str, times: &[Duration], bound: Duration) {
    let best = times.iter().min().expect("it was measured");
    eprintln!("{what}: {times:.0?}");
    let is_measured = std::env::var_os(JOBS_VARIABLE).is_some();
    assert!(*best <= bound || !is_measured, "{what} took {times:?}, and {bound:?} is the aim");
}

#[tokio::test]
#[ignore = "long"]
async fn the_first_rows_of_a_long_list_come_soon_and_stay_where_they_are() {
    let jobs = std::env::var(JOBS_VARIABLE);
    let jobs = jobs.map_or(USUAL_JOBS, |text| text.parse().expect("a number of jobs"));
    let cluster = ClusterSpec::new()
        .setting("ORCHESTRATOR_JOB_RETENTION_COUNT", "0")
        .start_without_agents()
        .await;
    submit(cluster.client(), (0..jobs).map(|number| format!("job-{number}"))).await;
    eprintln!("{jobs} jobs");
    in_browser(&cluster, async |browser| {
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": MARKS })).await;
        let (mut opened, mut listed, mut overview) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TRIES {
            browser.visit("/jobs").await;
            marked(browser, "rows").await;
            opened.push(elapsed(browser, "0", &mark("rows")).await);
            browser.visit("/").await;
            marked(browser, "figures").await;
            overview.push(elapsed(browser, "0", &mark("figures")).await);
            let go = "(performance.mark('go'), document.querySelector('.menu a[href=\"/jobs\"]').click(), true)";
            assert_eq!(browser.value(go).await, json!(true));
            marked(browser, "rows").await;
            listed.push(elapsed(browser, &mark("go"), &mark("rows")).await);
        }
        best("first rows after navigation", &listed, ROWS_WITHIN);
        best("first rows of the list after opening it", &opened, CONTENT_WITHIN);
        best("figures of the overview after opening it", &overview, CONTENT_WITHIN);

        // One reads and points at a row while others submit.
        assert_eq!(browser.value(WATCH_PLACE).await, json!(true));
        submit(cluster.client(), (0..ARRIVING).map(|number| format!("arriving-{number}"))).await;
        browser.wait_for_text("More than 20 new").await;
        let places = browser.value("[...places]").await;
        assert_eq!(places.as_array().map(Vec::len), Some(1), "rows have moved: {places}");
        browser.click("Show 50 more").await;
        let rows = "document.querySelectorAll('table.jobs tbody tr').length === 100";
        browser.wait_for("the list goes on below", rows).await;
        let names: Value = browser.value("document.querySelector('table.jobs').innerText").await;
        assert!(!names.as_str().expect("text").contains("arriving"), "{names}");
        browser.assert_no_fault("scale").await;
    })
    .await;
}
