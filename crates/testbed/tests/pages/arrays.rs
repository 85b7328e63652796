//! The outcomes of an array at a glance, however many executions it has.

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, noop};

use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::browser::in_browser;

// Keys as WebDriver has them.
const ENTER: &str = "\u{E007}";
const END: &str = "\u{E010}";
const ARROW_RIGHT: &str = "\u{E014}";

/// The number of columns; each stands for five executions.
const COUNT: u32 = 500;

const COLUMNS: &str = "document.querySelectorAll('.outcomes.ranges a').length";

/// Opens the third column.
const ZOOM: &str = "document.querySelectorAll('.outcomes.ranges a')[2].click() === undefined";

const FOCUS_THE_FIRST: &str = "document.querySelector('.outcomes a').focus() === undefined";

const ROWS: &str = "document.querySelectorAll('[aria-label=Executions] tbody tr').length";

#[tokio::test]
async fn a_large_array_shows_its_outcomes_by_range_and_each_of_them_after_a_click() {
    let agent = AgentSpec::new().engines("noop").setting("COMPUTE_AGENT_NAME", "worker-1");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut job = noop();
    job["Name"] = json!("array");
    job["Count"] = json!(COUNT);
    job["MaxFailed"] = json!(-1);
    job["Tasks"][0]["Engine"]["Params"] = json!({ "FailEvery": 7 });
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.01", "Memory": "1MB" });
    let job = cluster.submit(&job).await;
    cluster.wait_for_job(job, JobStateType::Failed).await;
    let axe = axe();
    in_browser(&cluster, async |browser| {
        browser.visit(&format!("/jobs/{job}")).await;
        browser.wait_for_text("71 failed indexes: 6,13,20,").await;
        browser.wait_for("a column for each range", &format!("{COLUMNS} === 100")).await;
        browser.wait_for_text("429 completed").await;
        browser.wait_for_text("71 failed").await;
        for (scheme, width) in [("light", 1440), ("dark", 1440), ("light", 360), ("dark", 360)] {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            let page = format!("array-{scheme}-{width}");
            assert_accessible(browser, axe.as_deref(), &page).await;
        }
        assert_eq!(browser.value(ZOOM).await, json!(true));
        browser.wait_for("a column for each index", &format!("{COLUMNS} === 5")).await;
        browser.wait_for("the executions of the range", &format!("{ROWS} === 5")).await;
        browser.click("Indexes 10 to 14: show all").await;
        browser.wait_for("all ranges", &format!("{COLUMNS} === 100")).await;
        browser.wait_for("all executions that fit", &format!("{ROWS} === 100")).await;
        // The same without a mouse, down to one execution.
        assert_eq!(browser.value(FOCUS_THE_FIRST).await, json!(true));
        browser.press(ARROW_RIGHT).await;
        browser.press(ENTER).await;
        browser.wait_for("the executions of the range", &format!("{ROWS} === 5")).await;
        browser.wait_for_text("Indexes 5 to 9: show all").await;
        let is_first = "document.activeElement === document.querySelector('.outcomes a')";
        browser.wait_for("the focus on the first column", is_first).await;
        browser.press(END).await;
        browser.press(ENTER).await;
        browser.wait_for_text("Index 9: show all").await;
        browser.wait_for("its execution", &format!("{ROWS} === 1")).await;
        browser.assert_no_fault("array").await;
    })
    .await;
}

/// Chooses another set of indexes in the dialog.
const CHOOSE_ALL: &str = "(() => { const choice = document.querySelector('dialog select'); \
    choice.value = 'All'; choice.dispatchEvent(new Event('change')); return true; })()";

#[tokio::test]
async fn a_job_that_ended_runs_again_after_a_question_that_names_the_indexes() {
    let agent = AgentSpec::new().engines("noop").setting("COMPUTE_AGENT_NAME", "worker-1");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut job = noop();
    job["Name"] = json!("array");
    job["Count"] = json!(6);
    job["MaxFailed"] = json!(-1);
    job["Tasks"][0]["Engine"]["Params"] = json!({ "FailEvery": 3 });
    let job = cluster.submit(&job).await;
    cluster.wait_for_job(job, JobStateType::Failed).await;
    let axe = axe();
    in_browser(&cluster, async |browser| {
        browser.visit(&format!("/jobs/{job}")).await;
        browser.click("Run again…").await;
        browser.wait_for_text("2 executions: 2,5").await;
        assert_accessible(browser, axe.as_deref(), "rerun").await;
        assert_eq!(browser.value(CHOOSE_ALL).await, json!(true));
        browser.wait_for_text("6 executions: 0-5").await;
        browser.click("Run again").await;
        browser.wait_for_text("rerun of").await;
        browser.assert_no_fault("rerun").await;
    })
    .await;
}
