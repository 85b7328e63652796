//! Pages while the service works as fast as it can: one message a second, and a page that responds.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, noop};
use tokio::time::timeout;

use super::browser::{Browser, in_browser};

const AGENTS: usize = 4;

/// Full lifecycles a second that there must be while the page is open, if not any number;
/// `just ui-scale` has 5,000.
const RATE_VARIABLE: &str = "UI_SCALE_RATE";

/// Executions of each job of the load.
const COUNT: u32 = 1000;

/// Jobs of the load in flight: the nodes never wait for one.
const AT_ONCE: u64 = 8;

/// Interval between checks whether jobs have ended: a fraction of what those under way take.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What counts them.
const COMPLETED: &str = "orchestrator_execution_ends_total{state=\"completed\"}";

/// How long the load is watched.
const WATCHED: Duration = Duration::from_secs(10);

/// How long a page may take to answer a click on a machine whose cores are all busy.
const ANSWERS_WITHIN: Duration = Duration::from_secs(6);

/// Requests of the list of jobs that a refresh makes at most: the rows, those above, and ten that
/// left the list; the namespaces and the identity once.
const REQUESTS_PER_REFRESH: u64 = 12;

const REQUESTS: &str = "performance.getEntriesByType('resource')
    .filter((entry) => entry.name.includes('/api/')).length";

/// Whether no request was sent for a while.
const QUIET: &str = "new Promise((resolve) => {
    const sent = () => performance.getEntriesByType('resource').length;
    const before = sent();
    setTimeout(() => resolve(sent() === before), 1500);
})";

/// Collects the longest time for which the page could not answer, and how long the tasks took that
/// the browser calls long.
const WATCH_TURNS: &str = "(() => {
    performance.setResourceTimingBufferSize(100000);
    window.longest = 0;
    window.tasks = [];
    new PerformanceObserver((list) =>
        tasks.push(...list.getEntries().map((entry) => Math.round(entry.duration))))
        .observe({ type: 'longtask' });
    let last = performance.now();
    setInterval(() => {
        const now = performance.now();
        longest = Math.max(longest, now - last - 50);
        last = now;
    }, 50);
    return true;
})()";

/// Submits jobs as fast as they end, until the future is dropped.
async fn load(cluster: &Cluster) {
    let mut job = noop();
    job["Count"] = json!(COUNT);
    loop {
        let jobs = cluster.client().describe_cluster().await.expect("the figures").jobs;
        for _ in jobs.pending + jobs.queued + jobs.running..AT_ONCE {
            cluster.submit(&job).await;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Executions that were completed.
async fn completed(cluster: &Cluster) -> u64 {
    let url = format!("{}/metrics", cluster.orchestrator.base_url());
    let response = reqwest::Client::builder().no_proxy().build().expect("a client").get(url);
    let text = response.send().await.expect("read the metrics").text().await.expect("text");
    let mut values = text.lines().filter_map(|line| line.strip_prefix(COMPLETED));
    values.next().map_or(0, |value| value.trim().parse().expect("a number"))
}

/// Full lifecycles a second within the time.
async fn rate(cluster: &Cluster) -> u64 {
    let (before, begun) = (completed(cluster).await, Instant::now());
    tokio::time::sleep(WATCHED).await;
    let lifecycles = completed(cluster).await - before;
    lifecycles * 1000 / u64::try_from(begun.elapsed().as_millis()).expect("seconds")
}

/// Messages of the stream of changes within the time.
async fn messages(cluster: &Cluster) -> u64 {
    let url = format!("{}/api/v1/orchestrator/changes", cluster.orchestrator.base_url());
    let response = reqwest::Client::builder().no_proxy().build().expect("a client").get(url);
    let mut body = response.send().await.expect("open the stream").bytes_stream();
    let mut read = Vec::new();
    let _ = timeout(WATCHED, async {
        while let Some(Ok(bytes)) = body.next().await {
            read.extend_from_slice(&bytes);
        }
    })
    .await;
    String::from_utf8_lossy(&read).matches("event: changes").count() as u64
}

async fn requests(browser: &Browser) -> u64 {
    browser.value(REQUESTS).await.as_u64().expect("a number")
}

/// A page that people see.
async fn watch(cluster: &Cluster, browser: &Browser) {
    assert_eq!(browser.value(WATCH_TURNS).await, json!(true));
    let (begun, asked) = (Instant::now(), requests(browser).await);
    let (count, rate) = tokio::join!(messages(cluster), rate(cluster));
    let took = begun.elapsed();
    let made = requests(browser).await - asked;
    let longest = browser.value("longest").await.as_f64().expect("a number");
    let tasks = browser.value("tasks").await;
    eprintln!(
        "{rate} lifecycles/s: {count} messages, {made} requests of the page in {took:.0?}; \
         it was busy for {longest:.0} ms at most, in tasks of {tasks} ms"
    );
    let least = std::env::var(RATE_VARIABLE);
    let least: u64 = least.map_or(1, |text| text.parse().expect("a number of lifecycles"));
    assert!(rate >= least, "{rate} lifecycles/s, and {least} are wanted");
    assert!((3..=WATCHED.as_secs() + 2).contains(&count), "{count} messages");
    let most = (took.as_secs() + 2) * REQUESTS_PER_REFRESH;
    assert!((1..=most).contains(&made), "{made} requests");
    let clicked = Instant::now();
    browser.click("Nodes").await;
    let heading = "document.querySelector('h1')?.textContent === 'Nodes'";
    browser.wait_for("the nodes", heading).await;
    eprintln!("a click was answered after {:.0?}", clicked.elapsed());
    assert!(clicked.elapsed() < ANSWERS_WITHIN, "after {:?}", clicked.elapsed());
}

/// A hidden page asks for nothing.
async fn hide(cluster: &Cluster, browser: &Browser) {
    browser.client.minimize_window().await.expect("minimise");
    browser.wait_for("it is hidden", "document.hidden").await;
    browser.wait_for("what was under way has ended", QUIET).await;
    let before = requests(browser).await;
    messages(cluster).await;
    assert_eq!(requests(browser).await, before, "a hidden page has asked");
}

#[tokio::test]
#[ignore = "long"]
async fn at_full_load_a_page_gets_a_message_a_second_and_goes_on_responding() {
    let mut spec = ClusterSpec::new();
    for _ in 0..AGENTS {
        spec = spec.agent(AgentSpec::new().engines("noop").cpu("1000").memory("4000GB"));
    }
    let cluster = spec.start_without_docker().await;
    let alone = tokio::select! {
        () = load(&cluster) => 0,
        rate = rate(&cluster) => rate,
    };
    eprintln!("{alone} lifecycles/s without a browser");
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs").await;
        let watched = async {
            browser
                .wait_for("rows", "document.querySelector('table.jobs tbody tr') !== null")
                .await;
            watch(&cluster, browser).await;
            hide(&cluster, browser).await;
        };
        tokio::select! {
            () = load(&cluster) => {}
            () = watched => {}
        }
        browser.assert_no_fault("load").await;
    })
    .await;
}
