//! Lists that are read at a glance: the order of executions, rows that stand for equal ones, and the
//! way back to where one was.

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, batch};

use super::browser::in_browser;
use super::named;

/// The indexes of the rows, from top to bottom.
const INDEXES: &str = "[...document.querySelectorAll('[aria-label=Executions] tbody a.main')]
    .map((link) => link.textContent.trim())";

const ROWS: &str = "document.querySelectorAll('[aria-label=Jobs] tbody tr').length";

#[tokio::test]
async fn executions_are_in_the_order_of_their_indexes() {
    let agent = AgentSpec::new().engines("noop").setting("COMPUTE_AGENT_NAME", "worker-1");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut array = named("sweep");
    array["Count"] = json!(12);
    let job = cluster.run(&array).await[0].job_id;
    in_browser(&cluster, async |browser| {
        browser.visit(&format!("/jobs/{job}")).await;
        let ascending: Vec<_> = (0..12).map(|index| format!("[{index}]")).collect();
        browser.wait_for_text("12 completed").await;
        assert_eq!(browser.value(INDEXES).await, json!(ascending));
        let picture = "document.querySelector('.outcomes').getAttribute('aria-label')";
        assert_eq!(browser.value(picture).await, json!("Outcomes by index: 12 completed"));
        browser.click("Execution").await;
        let descending: Vec<_> = ascending.into_iter().rev().collect();
        assert_eq!(browser.value(INDEXES).await, json!(descending));
        // A click anywhere on a row opens it, and nodes have names.
        let node = "document.querySelector('[aria-label=Executions] tbody td:nth-child(3)')";
        assert_eq!(browser.value(&format!("{node}.innerText")).await, json!("worker-1"));
        browser.value(&format!("{node}.click()")).await;
        browser.wait_for_text("Reserved").await;
        browser.assert_no_fault("executions").await;
    })
    .await;
}

#[tokio::test]
async fn equal_failures_and_events_share_a_row() {
    let agent = AgentSpec::new().engines("docker,noop");
    let Some(cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let mut job = batch(&cluster.image, &["exit", "3", "no", "such", "index"]);
    job["Name"] = json!("index-rebuild");
    for _ in 0..3 {
        let id = cluster.submit(&job).await;
        cluster.wait_for_job(id, JobStateType::Failed).await;
    }
    in_browser(&cluster, async |browser| {
        browser.visit("/").await;
        browser.wait_for_text("2 other jobs failed in the same way").await;
        browser.visit("/jobs").await;
        browser.wait_for_text("2 more jobs failed in the same way").await;
        assert_eq!(browser.value(ROWS).await, json!(1));
        browser.click("2 more jobs failed in the same way").await;
        assert_eq!(browser.value(ROWS).await, json!(3));
        let mut array = named("sweep");
        array["Count"] = json!(9);
        cluster.run(&array).await;
        browser.visit("/events?job=sweep&state=Completed").await;
        browser.wait_for_text("9 completed").await;
        browser.assert_no_fault("equal rows").await;
    })
    .await;
}

#[tokio::test]
async fn the_way_back_leads_to_where_one_was() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    for number in 0..70 {
        cluster.submit(&named(&format!("job-{number}"))).await;
    }
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs").await;
        browser.click("Show 50 more").await;
        browser.wait_for("all rows are there", &format!("{ROWS} === 70")).await;
        let scrolled = "(scrollTo(0, 2000), scrollY > 1000)";
        assert_eq!(browser.value(scrolled).await, json!(true));
        let at = browser.value("scrollY").await;
        let cell =
            "document.querySelectorAll('[aria-label=Jobs] tbody tr')[60].children[5].click()";
        browser.value(cell).await;
        browser.wait_for("the job is open", "location.pathname.startsWith('/jobs/j-')").await;
        browser.settled().await;
        browser.value("history.back()").await;
        browser.wait_for("the rows are back", &format!("{ROWS} === 70 && scrollY === {at}")).await;
        browser.assert_no_fault("the way back").await;
    })
    .await;
}
