//! A log that is too large for a document: its end comes soon, and only what is in sight is drawn.

use std::time::{Duration, Instant};

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{Cluster, batch, eventually_within};

use super::browser::in_browser;

/// The number of lines, if not the usual one; `just ui-scale` has a million, and a machine for itself.
const LINES_VARIABLE: &str = "UI_SCALE_LINES";
const USUAL_LINES: u32 = 300_000;

/// How long the lines may take through the log driver of a busy Engine.
const PRINTED_WITHIN: Duration = Duration::from_mins(8);

/// How soon the end of the log is in sight, from the start of the navigation, on a machine that does
/// nothing else.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Tasks of the page while one scrolls: none should be longer, and five of a hundred may be because
/// of other work on the machine.
const LONG_TASK_MS: u64 = 50;
const STRAY_TASKS: usize = 5;

/// Lines that the page reads.
const TAIL: &str = "20000";

/// Lines that the document may hold.
const MOST_ROWS: u64 = 300;

/// Scrolls through the log, one place a frame; returns the most rows that were drawn at any place,
/// and how long the tasks took that the browser calls long.
const SCROLL: &str = "
    const done = arguments[0];
    const log = document.querySelector('.log');
    const tasks = [];
    const observer = new PerformanceObserver((list) =>
        tasks.push(...list.getEntries().map((entry) => Math.round(entry.duration))));
    observer.observe({ type: 'longtask' });
    let most = 0;
    let at = 0;
    const step = () => {
        log.scrollTop = log.scrollHeight * at / 100;
        most = Math.max(most, document.querySelectorAll('.log-line').length);
        at += 1;
        if (at < 100) return requestAnimationFrame(step);
        // The observer is told after the task.
        setTimeout(() => done({ most, tasks }), 500);
    };
    step();
";

/// Scrolls at moments between the arrival of lines and their drawing, for some seconds; returns how
/// many rows were not as high as a line.
const SCROLL_MEANWHILE: &str = "
    const done = arguments[0];
    const log = document.querySelector('.log');
    const timer = setInterval(() => log.dispatchEvent(new Event('scroll')));
    setTimeout(() => {
        clearInterval(timer);
        const rows = [...document.querySelectorAll('.log-line')];
        const flat = rows.filter((row) => row.getBoundingClientRect().height < 18);
        done({ rows: rows.length, flat: flat.length });
    }, 4000);
";

#[tokio::test]
async fn rows_of_a_log_do_not_overlap_when_one_scrolls_while_lines_arrive() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let lines = ["lines", "100000", "both", "4"];
    let id = cluster.submit(&batch(&cluster.image, &lines)).await;
    cluster.wait_for_job(id, JobStateType::Running).await;
    in_browser(&cluster, async |browser| {
        browser.visit(&format!("/jobs/{id}/logs")).await;
        let lines = "document.querySelectorAll('.log-line').length > 20";
        browser.wait_for("lines are drawn", lines).await;
        let scrolled = browser.client.execute_async(SCROLL_MEANWHILE, Vec::new()).await;
        let scrolled = scrolled.expect("scroll");
        assert!(scrolled["rows"].as_u64() > Some(10), "{scrolled}");
        assert_eq!(scrolled["flat"], json!(0), "{scrolled}");
        browser.assert_no_fault("scrolled log").await;
    })
    .await;
}

#[tokio::test]
#[ignore = "long"]
async fn the_end_of_a_large_log_comes_soon_and_few_of_its_lines_are_drawn() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let lines = std::env::var(LINES_VARIABLE);
    let is_measured = lines.is_ok();
    let lines = lines.map_or(USUAL_LINES, |text| text.parse().expect("a number of lines"));
    let id = cluster.submit(&batch(&cluster.image, &["lines", &lines.to_string()])).await;
    eventually_within(PRINTED_WITHIN, "all lines are printed", async || {
        let state = cluster.client().describe_job(id).await.expect("the job").state;
        if state.state_type == JobStateType::Completed { Ok(()) } else { Err(state.message) }
    })
    .await;
    let url = format!("{}/api/v1/orchestrator/jobs/{id}/logs", cluster.orchestrator.base_url());
    in_browser(&cluster, async |browser| {
        let asked = Instant::now();
        let read = reqwest::Client::builder().no_proxy().build().expect("a client").get(url);
        let read = read.query(&[("tail", TAIL)]).header("Accept", "application/x-ndjson").send();
        read.await.expect("read the log").bytes().await.expect("its lines");
        let alone = asked.elapsed();
        let started = Instant::now();
        browser.visit(&format!("/jobs/{id}/logs")).await;
        browser.wait_for_text(&format!("line {}", lines - 1)).await;
        let took = started.elapsed();
        let text = format!("it took {took:?}, and {alone:?} without a page");
        assert!(took < END_WITHIN || !is_measured, "{text}");
        let scrolled = browser.client.execute_async(SCROLL, Vec::new()).await.expect("scroll");
        eprintln!(
            "{lines} lines: the end after {took:.0?}, {alone:.0?} without a page; {scrolled}"
        );
        let most = scrolled["most"].as_u64().expect("a number");
        assert!((10..=MOST_ROWS).contains(&most), "{most} rows");
        let tasks = scrolled["tasks"].as_array().expect("a list").iter();
        let long = tasks.filter(|task| task.as_u64() > Some(LONG_TASK_MS)).count();
        assert!(long <= STRAY_TASKS, "{scrolled}");
        // The search finds what is far from the lines in sight.
        let wanted = lines - 12_345;
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
