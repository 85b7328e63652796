//! Names as long as they may be, without a space or in other scripts: every column stays in sight.

use api_types::JobId;
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec};

use super::browser::{Browser, in_browser};
use super::named;

/// Cells that are shown and reach beyond the window, by what they say.
const CUT: &str = "[...document.querySelectorAll('main th, main td')].filter((cell) => {
    const { left, right, width } = cell.getBoundingClientRect();
    return width > 0 && (left < 0 || right > innerWidth);
}).map((cell) => `${cell.innerText.slice(0, 30)} at ${cell.getBoundingClientRect().right}`)";

/// Columns that are shown and too narrow for a word.
const CRUSHED: &str = "[...document.querySelectorAll('main thead th')].filter((cell) => {
    const { width } = cell.getBoundingClientRect();
    return width > 0 && cell.innerText.trim() && width < 24;
}).map((cell) => cell.innerText)";

/// What makes the page scroll sideways.
const WIDE: &str = "document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.querySelectorAll('body *')].filter((element) =>
        element.getBoundingClientRect().right > innerWidth + 1).slice(0, 12).map((element) =>
        `${element.tagName}.${element.className} ${element.textContent.slice(0, 20)}`)";

/// What does not fit on the page.
async fn misfits(browser: &Browser, page: &str) -> Vec<String> {
    browser.assert_no_fault(page).await;
    let mut found = Vec::new();
    for what in [WIDE, CUT, CRUSHED] {
        let misfits = browser.value(what).await;
        if misfits != json!([]) {
            found.push(format!("{page}: {misfits}"));
        }
    }
    found
}

/// A job with this name, which has ended.
async fn ended(cluster: &Cluster, name: &str, namespace: &str) -> JobId {
    let mut job = named(name);
    job["Namespace"] = json!(namespace);
    job["Labels"] = json!({ "label".repeat(12): "value".repeat(40) });
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    id
}

#[tokio::test]
async fn long_names_neither_break_a_page_nor_hide_a_column() {
    let agent = AgentSpec::new().engines("noop").label(&"key".repeat(20), &"value".repeat(40));
    let agent = agent.setting("COMPUTE_AGENT_NAME", &"n".repeat(63));
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut jobs = Vec::new();
    for name in ["x".repeat(255), "漢字".repeat(42), "👩‍🚀".repeat(20), "a-b_c.d".repeat(9)]
    {
        jobs.push(ended(&cluster, &name, "default").await);
    }
    let elsewhere = "namespace".repeat(14);
    jobs.push(ended(&cluster, "short", &elsewhere).await);
    let mut waits = named(&"waits".repeat(20));
    let mars = "mars".repeat(60);
    waits["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": [mars] }]);
    let waits = cluster.submit(&waits).await;
    cluster.wait_for_job(waits, JobStateType::Queued).await;
    let node = cluster.agents[0].node_id();
    in_browser(&cluster, async |browser| {
        let mut pages =
            ["/", "/jobs", "/jobs?namespace=*", "/nodes", "/events", "/events?kind=node"]
                .map(str::to_owned)
                .to_vec();
        pages.extend([format!("/nodes/{node}"), format!("/jobs/{waits}")]);
        for job in &jobs {
            pages.push(format!("/jobs/{job}"));
        }
        for tab in ["timeline", "history", "specification"] {
            pages.push(format!("/jobs/{}/{tab}", jobs[0]));
        }
        let mut found = Vec::new();
        for width in [360, 768, 1280] {
            browser.resize(width, 800).await;
            for page in &pages {
                browser.visit(page).await;
                if page.starts_with("/events") {
                    browser.wait_for("events", "document.querySelector('tbody tr') !== null").await;
                }
                found.extend(misfits(browser, &format!("{page} at {width}")).await);
            }
        }
        assert!(found.is_empty(), "{found:#?}");
        // A name that is cut to some lines is complete in the title of its link or its page.
        browser.visit(&format!("/jobs/{}", jobs[0])).await;
        let title = "document.querySelector('main h1').textContent";
        assert_eq!(browser.value(title).await, json!("x".repeat(255)));
    })
    .await;
}
