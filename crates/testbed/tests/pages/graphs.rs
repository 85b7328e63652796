//! A graph with the states of its jobs, as a picture and as a table.

use api_types::job::JobStateType;
use bytes::Bytes;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, noop};

use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::browser::in_browser;

#[tokio::test]
async fn a_graph_is_drawn_with_states_and_listed_for_those_who_do_not_see_it() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let after = |name: &str, condition: &str| {
        let mut job = noop();
        job["DependsOn"] = json!([{ "Job": name, "Condition": condition }]);
        job
    };
    let graph = json!({ "Name": "nightly", "Jobs": {
        "build": noop(), "test": after("build", "Completed"), "alarm": after("test", "Failed"),
    } });
    let body = Bytes::from(graph.to_string());
    let created = cluster.client().create_graph_raw(body, None).await.expect("it is sound");
    cluster.wait_for_job(created.jobs["alarm"], JobStateType::Stopped).await;
    let axe = axe();
    in_browser(&cluster, async |browser| {
        browser.visit("/graphs").await;
        browser.wait_for_text("nightly").await;
        browser.visit(&format!("/graphs/{}", created.graph_id)).await;
        browser.wait_for_text("3 jobs: ").await;
        browser.wait_for_text("skipped: job 'test' completed").await;
        let boxes = "document.querySelectorAll('.graph a').length === 3";
        browser.wait_for("a box for each job", boxes).await;
        for (scheme, width) in [("light", 1440), ("dark", 360)] {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            let page = format!("graph-{scheme}-{width}");
            assert_accessible(browser, axe.as_deref(), &page).await;
        }
        browser.visit(&format!("/jobs/{}", created.jobs["alarm"])).await;
        browser.wait_for_text("starts after test fails").await;
    })
    .await;
}
