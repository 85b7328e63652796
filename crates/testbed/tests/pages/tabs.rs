//! Many tabs share one stream: a browser opens only six connections to one server.

use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, eventually_within};

use super::browser::in_browser;
use super::{SHOWN_WITHIN, named};

const TABS: usize = 9;

#[tokio::test]
async fn nine_tabs_stay_live() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    cluster.run(&named("before")).await;
    in_browser(&cluster, async |browser| {
        browser.visit("/jobs").await;
        for _ in 1..TABS {
            let tab = browser.client.new_window(true).await.expect("open a tab");
            browser.client.switch_to_window(tab.handle).await.expect("switch to it");
            browser.visit("/jobs").await;
        }
        let tabs = browser.client.windows().await.expect("list the tabs");
        assert_eq!(tabs.len(), TABS);
        cluster.run(&named("after")).await;
        for (number, tab) in tabs.into_iter().enumerate() {
            browser.client.switch_to_window(tab).await.expect("switch to a tab");
            eventually_within(SHOWN_WITHIN, &format!("tab {number} shows the job"), async || {
                let state = browser.value("document.querySelector('.live-state').title").await;
                let new = browser.value("document.querySelector('.pending-rows').innerText").await;
                if (state == json!("Live")) && (new == json!("1 new")) {
                    return Ok(());
                }
                Err(format!("it is {state} and shows {new}"))
            })
            .await;
        }
    })
    .await;
}
