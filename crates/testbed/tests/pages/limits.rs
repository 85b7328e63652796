//! Concurrency groups and schedules: what waits for a group, what is due next, and what became of
//! the last run.

use api_types::group::PutGroup;
use api_types::job::JobStateType;
use api_types::schedule::PutSchedule;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, noop};

use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::browser::{Browser, in_browser};

/// The page as most see it, and as it is on a phone at night.
async fn assert_accessible_everywhere(browser: &Browser, name: &str) {
    let axe = axe();
    for (scheme, width) in [("light", 1440), ("dark", 360)] {
        browser.resize(width, 800).await;
        prefer_scheme(browser, scheme).await;
        assert_accessible(browser, axe.as_deref(), &format!("{name}-{scheme}-{width}")).await;
    }
    browser.resize(1440, 800).await;
}

#[tokio::test]
async fn a_paused_group_shows_who_waits_and_its_jobs_say_so() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let paused = PutGroup { limit: Some(0) };
    cluster.client().put_group(None, "database", &paused).await.expect("a group");
    let mut job = noop();
    job["Name"] = json!("reindex");
    job["ConcurrencyGroups"] = json!(["database"]);
    let waiter = cluster.submit(&job).await;
    cluster.wait_for_job(waiter, JobStateType::Queued).await;
    in_browser(&cluster, async |browser| {
        browser.visit("/access/groups").await;
        browser.wait_for_text("database").await;
        assert_accessible_everywhere(browser, "groups").await;
        browser.visit(&format!("/jobs/{waiter}")).await;
        browser.wait_for_text("the concurrency group 'database' is paused").await;
        assert_accessible_everywhere(browser, "grouped-job").await;
    })
    .await;
}

#[tokio::test]
async fn a_schedule_shows_its_next_times_and_its_runs() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let schedule = PutSchedule {
        cron: "30 2 * * *".to_owned(),
        time_zone: Some("Europe/Berlin".to_owned()),
        job: Some(noop()),
        ..PutSchedule::default()
    };
    cluster.client().put_schedule(None, "nightly", &schedule).await.expect("a schedule");
    cluster.client().trigger_schedule(None, "nightly", None).await.expect("a run");
    in_browser(&cluster, async |browser| {
        browser.visit("/schedules").await;
        browser.wait_for_text("nightly").await;
        browser.wait_for_text("Europe/Berlin").await;
        assert_accessible_everywhere(browser, "schedules").await;
        browser.visit("/schedules/default/nightly").await;
        browser.wait_for_text("Started").await;
        assert_accessible_everywhere(browser, "schedule").await;
    })
    .await;
}
