//! From the list of jobs, one click answers what people ask of a job, in text that they see; a viewer
//! gets the same answers without output.

use api_types::JobId;
use api_types::access::CreateToken;
use api_types::job::JobStateType;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch};

use super::browser::{Browser, in_browser};
use super::guarded::sign_in;

/// The row of index 17, as it is seen.
const ROW_17: &str = "[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)
    .find((text) => text.includes('[17]')) ?? ''";

/// The ends of the axes of the charts of what a job uses.
const AXES: &str = "[...document.querySelectorAll('.usage-charts .axis-y')]
    .map((axis) => axis.innerText.split('\\n')[0])";

/// Submits a job for each question, and waits until each is what the question is about.
async fn submit_all(cluster: &Cluster) {
    let image = &cluster.image;
    let mut large = batch(image, &["pwd"]);
    large["Tasks"][0]["Resources"] = json!({ "CPU": "64" });
    let mut far = batch(image, &["pwd"]);
    let regions = json!(["eu-west-1", "eu-central-1"]);
    far["Constraints"] = json!([{ "Key": "region", "Operator": "in", "Values": regions }]);
    let mut burns = batch(image, &["burn", "600"]);
    burns["Tasks"][0]["Resources"] = json!({ "CPU": "0.5", "Memory": "64MB" });
    let mut array = batch(image, &["pwd"]);
    array["Count"] = json!(18);
    array["Tasks"][0]["Resources"] = json!({ "CPU": "0.1", "Memory": "16MB" });
    let fails = batch(image, &["exit", "3", "KeyError:", "no", "such", "index"]);
    let jobs = [
        ("index-rebuild", fails, JobStateType::Failed),
        ("training", large, JobStateType::Queued),
        ("far-away", far, JobStateType::Queued),
        ("burner", burns, JobStateType::Running),
        ("sweep", array, JobStateType::Completed),
    ];
    for (name, mut job, state) in jobs {
        job["Name"] = json!(name);
        let id: JobId = cluster.submit(&job).await;
        cluster.wait_for_job(id, state).await;
    }
}

/// Clicks a job in the list, and waits until its page shows these texts.
async fn one_click(browser: &Browser, name: &str, texts: &[&str]) {
    browser.visit("/jobs").await;
    browser.click(name).await;
    for text in texts {
        browser.wait_for_text(text).await;
    }
}

async fn assert_answers(browser: &Browser, is_viewer: bool) {
    one_click(browser, "index-rebuild", &["Execution [0] exited with 3 on worker-1"]).await;
    if is_viewer {
        assert!(!browser.text().await.contains("KeyError"), "a viewer sees output");
    } else {
        browser.wait_for_text("KeyError: no such index").await;
        browser.wait_for_text("Edit and submit").await;
    }
    one_click(browser, "training", &["Asks 64 cores; the largest node has 4"]).await;
    let far = if is_viewer {
        "No node matches a constraint on the label region"
    } else {
        "No node matches: needs region in (eu-west-1, eu-central-1); it has no label region"
    };
    one_click(browser, "far-away", &[far]).await;
    one_click(browser, "burner", &["CPU", "Memory", "of 0.5 cores", "of 64 MB"]).await;
    browser.wait_for("the charts have axes", &format!("{AXES}.length === 2")).await;
    let axes = browser.value(AXES).await;
    let axes: Vec<&str> =
        axes.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(axes[0].ends_with("cores") || axes[0].ends_with("core"), "{axes:?}");
    assert!(axes[1].ends_with("MB"), "{axes:?}");
    one_click(browser, "sweep", &["[17]"]).await;
    browser.wait_for("the row names its node", &format!("({ROW_17}).includes('worker-1')")).await;
    browser.assert_no_fault("answers").await;
}

#[tokio::test]
async fn one_click_answers_why_what_how_much_and_where() {
    let agent = AgentSpec::new().cpu("4").memory("4GB").setting("COMPUTE_AGENT_NAME", "worker-1");
    let spec = ClusterSpec::new().protected().agent(agent);
    let Some(cluster) = spec.start().await else { return };
    submit_all(&cluster).await;
    let admin = std::fs::read_to_string(cluster.orchestrator.data_dir().join("admin.token"));
    let admin = admin.expect("the first token").trim().to_owned();
    let asked = CreateToken {
        name: "reader".to_owned(),
        role: "viewer".to_owned(),
        namespaces: vec!["*".to_owned()],
        ttl_seconds: 0,
    };
    let viewer = cluster.client().create_token(&asked).await.expect("a token").secret;
    for (token, is_viewer) in [(admin, false), (viewer, true)] {
        in_browser(&cluster, async |browser| {
            browser.visit("/jobs").await;
            sign_in(browser, &token).await;
            assert_answers(browser, is_viewer).await;
        })
        .await;
    }
}
