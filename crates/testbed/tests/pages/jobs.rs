//! Submitting and listing jobs, as a person does it.

use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec};

use super::browser::in_browser;
use super::named;

#[tokio::test]
async fn a_first_job_takes_three_clicks() {
    let agent = AgentSpec::new().engines("wasm");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    in_browser(&cluster, async |browser| {
        browser.visit("/").await;
        browser.click("Submit a job").await;
        browser.settled().await;
        browser.wait_for_text("Would start now on 1 node").await;
        let submit = "document.querySelector('.title button.primary').click() ?? true";
        browser.wait_for("the form is submitted", submit).await;
        let completed = "document.querySelector('.title .state')?.innerText === 'Completed'";
        browser.wait_for("the job is completed on its page", completed).await;
        browser.click("Logs").await;
        browser.wait_for_text("Hello from WebAssembly!").await;
        browser.assert_no_fault("first job").await;
    })
    .await;
}

#[tokio::test]
async fn rows_stay_where_they_are_while_jobs_arrive() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    cluster.run(&named("first")).await;
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs").await;
        let top = "document.querySelector('tbody a.main').textContent";
        browser.wait_for("the list is there", &format!("{top} === 'first'")).await;
        for name in ["second", "third"] {
            cluster.run(&named(name)).await;
        }
        browser.wait_for_text("2 new").await;
        assert_eq!(browser.value(top).await, json!("first"));
        browser.click("2 new").await;
        browser.wait_for("the new rows are there", &format!("{top} === 'third'")).await;
        assert_eq!(browser.value("document.querySelectorAll('tbody tr').length").await, json!(3));
        browser.assert_no_fault("jobs").await;
    })
    .await;
}

#[tokio::test]
async fn a_problem_stands_beside_its_field_and_its_line() {
    let cluster = ClusterSpec::new().start_without_agents().await;
    in_browser(&cluster, async |browser| {
        browser.visit("/submit").await;
        browser.click("JSON or YAML").await;
        let broken = r#"{"Job": {"Name": "x",
            "Type": "weekly",
            "Tasks": [{"Name": "main", "Engine": {"Type": "docker", "Params": {}}}]}}"#;
        let write = format!(
            "(() => {{ const area = document.querySelector('textarea.editor-text'); \
             area.value = {}; area.dispatchEvent(new Event('input')); return true; }})()",
            json!(broken)
        );
        assert_eq!(browser.value(&write).await, json!(true));
        browser.wait_for_text("2 problems").await;
        let marked = "[...document.querySelectorAll('.gutter .problem')].map((l) => l.textContent)";
        assert_eq!(browser.value(marked).await, json!(["2", "3"]));
        browser.click("Form").await;
        let image = "document.getElementById('problem-Tasks[0].Engine.Params.Image')?.textContent";
        browser.wait_for("the image is marked", &format!("{image} === 'is required'")).await;
        browser.assert_no_fault("problems").await;
    })
    .await;
}
