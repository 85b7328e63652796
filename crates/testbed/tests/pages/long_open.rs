//! A tab that stays open for long: it neither grows nor asks more than it shows, and comes back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec};

use super::browser::{Browser, in_window};
use super::named;

/// Counts the requests of the page from now on.
const COUNT: &str = "(() => {
    window.asked = 0;
    const send = window.fetch;
    window.fetch = (...all) => { window.asked += 1; return send(...all); };
    return true;
})()";

/// Requests that a view makes each second at most: a list is read with the number of newer rows.
const A_SECOND: u64 = 2;

/// Elements and listeners that may come with rows that are drawn anew.
const MORE: i64 = 300;

/// Rows of the feed of events.
const MOST_EVENTS: u64 = 300;

async fn asked(browser: &Browser) -> u64 {
    browser.value("window.asked").await.as_u64().expect("a number")
}

/// What the browser holds for the page after it has collected what is no longer needed.
async fn held(browser: &Browser) -> (i64, i64) {
    browser.devtools("HeapProfiler.collectGarbage", json!({})).await;
    browser.devtools("Performance.enable", json!({})).await;
    let answer = browser.devtools("Performance.getMetrics", json!({})).await;
    let metric = |name: &str| {
        let metrics = answer["metrics"].as_array().expect("a list");
        let found = metrics.iter().find(|metric| metric["name"] == name);
        found.and_then(|metric| metric["value"].as_f64()).expect("a number").round() as i64
    };
    (metric("Nodes"), metric("JSEventListeners"))
}

/// Runs jobs one after the other for a while; returns their number.
async fn busy(cluster: &Cluster, time: Duration) -> usize {
    let begin = Instant::now();
    let mut jobs = 0;
    while begin.elapsed() < time {
        cluster.run(&named(&format!("job-{jobs}"))).await;
        jobs += 1;
    }
    jobs
}

#[tokio::test]
async fn a_list_that_stays_open_neither_grows_nor_asks_more_than_it_shows() {
    let agent = AgentSpec::new().engines("noop");
    let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    for number in 0..60 {
        cluster.run(&named(&format!("early-{number}"))).await;
    }
    let base_url = cluster.orchestrator.base_url().to_owned();
    let cluster = &mut cluster;
    in_window(&base_url, 1280, 900, async |browser| {
        browser.visit("/jobs").await;
        assert_eq!(browser.value(COUNT).await, json!(true));
        busy(cluster, Duration::from_secs(3)).await;
        browser.wait_for_text(" new").await;
        let before = held(browser).await;
        let (first, begin) = (asked(browser).await, Instant::now());
        let jobs = busy(cluster, Duration::from_secs(10)).await;
        assert!(jobs > 20, "{jobs} jobs are not many");
        browser.wait_for_text("More than 20 new").await;
        let (requests, seconds) = (asked(browser).await - first, begin.elapsed().as_secs() + 2);
        assert!(requests <= A_SECOND * seconds, "{requests} requests in {seconds} s");
        let after = held(browser).await;
        let grown = (after.0 - before.0, after.1 - before.1);
        assert!(grown.0 < MORE && grown.1 < MORE, "{before:?} became {after:?}");
        // Nothing happens, so nothing is asked.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let first = asked(browser).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(asked(browser).await, first, "an idle page asks nothing");
        // While the server is away it is probed, less often each time.
        cluster.orchestrator.kill();
        browser.wait_for_text("The orchestrator does not answer.").await;
        let first = asked(browser).await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        let probes = asked(browser).await - first;
        assert!(probes <= 5, "{probes} requests in 8 s");
        cluster.orchestrator.restart().await;
        browser.wait_for("it is back", "document.querySelector('#banner').hidden").await;
        browser.click("More than 20 new").await;
        cluster.run(&named("after-the-restart")).await;
        browser.wait_for_text("1 new").await;
        browser.click("1 new").await;
        browser.wait_for_text("after-the-restart").await;
        browser.assert_no_fault("a list that stays open").await;
    })
    .await;
}

#[tokio::test]
async fn the_feed_of_events_keeps_a_bounded_number_of_rows() {
    let agent = AgentSpec::new().engines("noop").cpu("1000").memory("1000GB");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let base_url = cluster.orchestrator.base_url().to_owned();
    in_window(&base_url, 1280, 900, async |browser| {
        browser.visit("/events").await;
        let mut array = named("sweep");
        array["Count"] = json!(400);
        cluster.run(&array).await;
        for number in 0..120 {
            cluster.submit(&named(&format!("job-{number}"))).await;
        }
        cluster.run(&named("the-last-one")).await;
        browser.wait_for_text("the-last-one").await;
        let rows = browser.value("document.querySelectorAll('tbody tr').length").await;
        let rows = rows.as_u64().expect("a number");
        assert!((1..=MOST_EVENTS).contains(&rows), "{rows} rows");
        let links: Value = browser.value("document.querySelectorAll('tbody a').length").await;
        assert!(links.as_u64().expect("a number") < 10 * MOST_EVENTS, "{links} links");
        browser.assert_no_fault("the feed of events").await;
    })
    .await;
}
