//! Another orchestrator takes over while a page is open.

use std::fs;
use std::time::Duration;

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{
    AgentSpec, Cluster, ClusterSpec, SharedStore, eventually, eventually_within,
};

use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::browser::{Browser, in_window};
use super::guarded::{HEADING, is_live, sign_in};
use super::named;

/// How soon after its answer an open page shows what the next leader was asked to do.
const CURRENT_WITHIN: Duration = Duration::from_secs(5);

/// How soon the list of orchestrators names the next leader: it is read every ten seconds.
const LISTED_WITHIN: Duration = Duration::from_secs(15);

/// The addresses in the list of orchestrators, each with whether it leads.
const MEMBERS: &str = "[...document.querySelectorAll('[aria-label=Orchestrators] tbody tr')].map(
    (row) => `${row.querySelector('.main').innerText} ${
        row.querySelector('.state').innerText === 'Leads'}`)";

/// The first orchestrator leads, and the second one follows it.
async fn two() -> Option<Cluster> {
    let spec = ClusterSpec::new().protected().sharing(SharedStore::alone()?, 2);
    let agent = AgentSpec::new().engines("noop");
    Some(spec.agent(agent).start_without_docker().await)
}

/// Opens a page, which the test recognizes as long as it is not loaded again.
async fn open(browser: &Browser, cluster: &Cluster, path: &str) {
    browser.visit(path).await;
    let directory = cluster.orchestrator.trust_dir().expect("the cluster asks for tokens");
    let token = fs::read_to_string(directory.join("admin.token")).expect("the first token");
    sign_in(browser, token.trim()).await;
    is_live(browser).await;
    assert_eq!(browser.value("window.opened = 1").await, json!(1));
}

async fn is_still_open(browser: &Browser, page: &str) {
    assert_eq!(browser.value("window.opened").await, json!(1), "{page} was loaded again");
    let heading = browser.value(HEADING).await;
    assert_ne!(heading, json!("Sign in"), "{page}");
    is_live(browser).await;
    browser.assert_no_fault(page).await;
}

/// Kills the leader, and returns once the other one has the lead.
async fn take_over(cluster: &mut Cluster) {
    cluster.orchestrator.kill();
    assert_eq!(cluster.next_leader(0).await, 1);
}

/// The first element of this kind has this text.
async fn becomes_current(browser: &Browser, selector: &str, text: &str) {
    let shown = format!("document.querySelector('{selector}')?.innerText");
    eventually_within(CURRENT_WITHIN, &format!("the page shows '{text}'"), async || {
        let shown = browser.value(&shown).await;
        if shown == json!(text) { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_list_at_the_next_leader_is_current_within_seconds_of_the_takeover() {
    let Some(mut cluster) = two().await else { return };
    cluster.run(&named("before")).await;
    let base_url = cluster.orchestrator_at(1).base_url().to_owned();
    let cluster = &mut cluster;
    in_window(&base_url, 1280, 900, async |browser| {
        open(browser, cluster, "/jobs").await;
        browser.wait_for_text("before").await;
        take_over(cluster).await;
        cluster.submit_with_retries(&named("after"), "after").await;
        becomes_current(browser, ".pending-rows", "1 new").await;
        browser.click("1 new").await;
        browser.wait_for_text("after").await;
        is_still_open(browser, "the list of jobs").await;
    })
    .await;
}

#[tokio::test]
async fn a_job_at_the_entrance_is_current_within_seconds_of_the_takeover() {
    let Some(mut cluster) = two().await else { return };
    let mut job = named("waits");
    job["Constraints"] = json!([{ "Key": "none", "Operator": "=", "Values": ["such"] }]);
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Queued).await;
    let base_url = format!("https://{}", cluster.entrance().address());
    let cluster = &mut cluster;
    in_window(&base_url, 1280, 900, async |browser| {
        open(browser, cluster, &format!("/jobs/{id}")).await;
        browser.wait_for_text("Queued").await;
        take_over(cluster).await;
        eventually("the job is stopped", async || {
            cluster.client().stop_job(id, "").await.map_err(|error| error.to_string())
        })
        .await;
        becomes_current(browser, ".title .state", "Stopped").await;
        is_still_open(browser, "the job").await;
    })
    .await;
}

#[tokio::test]
async fn the_nodes_page_lists_the_orchestrators_and_which_of_them_leads() {
    let Some(mut cluster) = two().await else { return };
    let address = |number: usize| cluster.orchestrator_at(number).address().to_string();
    let addresses = [address(0), address(1)];
    let base_url = cluster.orchestrator_at(1).base_url().to_owned();
    let cluster = &mut cluster;
    in_window(&base_url, 1280, 900, async |browser| {
        open(browser, cluster, "/nodes").await;
        lists(browser, [(&addresses[0], true), (&addresses[1], false)]).await;
        for (scheme, width) in [("light", 1280), ("dark", 360)] {
            browser.resize(width, 900).await;
            prefer_scheme(browser, scheme).await;
            let page = format!("orchestrators-{scheme}-{width}");
            assert_accessible(browser, axe().as_deref(), &page).await;
        }
        take_over(cluster).await;
        lists(browser, [(&addresses[0], false), (&addresses[1], true)]).await;
        is_still_open(browser, "the nodes").await;
    })
    .await;
}

/// The page lists these addresses, each with whether it leads, in any order.
async fn lists(browser: &Browser, members: [(&str, bool); 2]) {
    let mut expected = members.map(|(address, leads)| json!(format!("{address} {leads}")));
    expected.sort_by_key(ToString::to_string);
    eventually_within(LISTED_WITHIN, "the orchestrators are listed", async || {
        let mut listed = browser.value(MEMBERS).await.as_array().cloned().unwrap_or_default();
        listed.sort_by_key(ToString::to_string);
        if listed == expected { Ok(()) } else { Err(format!("{listed:?}")) }
    })
    .await;
}
