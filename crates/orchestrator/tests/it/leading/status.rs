//! The status port: this process alone, whether it leads or follows.

use std::net::SocketAddr;

use orchestrator::Settings;

use super::Cluster;
use super::passing::Following;
use crate::server::{Answer, PATIENCE, Server, answer};

fn with_status(settings: Settings) -> Settings {
    Settings { status_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))), ..settings }
}

async fn ask(server: &Server, status: SocketAddr, path: &str) -> Answer {
    answer(server.client().get(format!("http://{status}{path}")).timeout(PATIENCE)).await
}

/// Until it answers with this status.
async fn until(server: &Server, status: SocketAddr, path: &str, expected: u16) -> Answer {
    let begun = std::time::Instant::now();
    loop {
        let answer = ask(server, status, path).await;
        if answer.status.as_u16() == expected {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{path}: {}", answer.text);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_process_reports_its_own_health_and_metrics_in_both_roles() {
    let cluster = Cluster::new();
    let leader = cluster.lead_with("a", with_status).await;
    let follower = Following::of(cluster.follow_with("b", with_status).await);
    let (of_leader, of_follower) =
        (leader.status_address().expect("a port"), follower.status.expect("a port"));
    for (status, leading) in [(of_leader, "1"), (of_follower, "0")] {
        until(&leader, status, "/readyz", 200).await;
        ask(&leader, status, "/livez").await.ok();
        let version = ask(&leader, status, "/api/v1/agent/version").await;
        assert_eq!(version.ok(), leader.get("/api/v1/agent/version").await.ok());
        let metrics = ask(&leader, status, "/metrics").await.text;
        for line in [
            format!("orchestrator_leading {leading}"),
            "orchestrator_ready 1".to_owned(),
            "orchestrator_open_passed_connections 0".to_owned(),
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
        }
        for other in ["/", "/api/v1/orchestrator/jobs"] {
            ask(&leader, status, other).await.refused(404, "PathNotFound");
        }
    }
    let metrics = ask(&leader, of_follower, "/metrics").await.text;
    let age = metrics.lines().find_map(|line| line.strip_prefix("orchestrator_poll_age_seconds "));
    let age: f64 = age.expect("a line").parse().expect("a number");
    assert!(age > 0.0 && age < PATIENCE.as_secs_f64(), "{age}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_not_certain_of_the_lead_is_not_ready() {
    let cluster = Cluster::new();
    let leader = cluster.lead_with("a", with_status).await;
    let status = leader.status_address().expect("a port");
    until(&leader, status, "/readyz", 200).await;
    cluster.database.stop("a");
    // The first refusal may come from the driver, which waits for a commit.
    until(&leader, status, "/readyz", 503).await;
    let refused = ask(&leader, status, "/readyz").await;
    refused.refused(503, "StoreUnavailable").says("not certain that it still leads");
    ask(&leader, status, "/livez").await.ok();
    assert!(ask(&leader, status, "/metrics").await.text.contains("\norchestrator_ready 0\n"));
    cluster.database.go_on();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_its_own_store_has_a_status_port_too() {
    let server = Server::start_with(with_status).await;
    let status = server.status_address().expect("a port");
    ask(&server, status, "/readyz").await.ok();
    let metrics = ask(&server, status, "/metrics").await.text;
    assert!(metrics.contains("\norchestrator_leading 1\n"), "{metrics}");
}
