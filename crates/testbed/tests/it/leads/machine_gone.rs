//! What the agents notice of a leader that is gone.

use std::time::{Duration, Instant};

use api_types::job::JobStateType;
use api_types::node::Connection;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SharedStore, eventually};

use super::measure::{acknowledged_since, row};

/// The session of the only node.
async fn session(cluster: &Cluster) -> i64 {
    let session = cluster.store().direct().session().await.expect("the database answers");
    session.query_one("SELECT session FROM node", &[]).await.expect("there is one").get(0)
}

#[tokio::test]
async fn an_agent_whose_leaders_machine_is_gone_keeps_its_session_and_has_its_stream_again() {
    row("leader's machine gone, as agents see it", Duration::from_secs(15), async || {
        let store = SharedStore::start()?;
        let mut cluster = ClusterSpec::new().sharing(store, 2).start_without_agents().await;
        let urls = [0, 1].map(|number| cluster.orchestrator_at(number).base_url().to_owned());
        let agent = AgentSpec::new().engines("noop");
        cluster.add_agent(&agent.setting("COMPUTE_AGENT_ORCHESTRATOR", &urls.join(","))).await;
        let node = cluster.agents[0].node_id();
        let before = session(&cluster).await;

        let since = Instant::now();
        cluster.relay(0).cut();
        cluster.orchestrator_at(0).pause();
        let (_, submitted) = acknowledged_since(&cluster, since).await;
        // The connections of the entrance's client lead to the machine that is gone.
        let client = cluster.orchestrator_at(cluster.leader().await).client();
        eventually("the job is completed", async || {
            let job = client.describe_job(submitted.id).await.map_err(|error| error.to_string())?;
            match job.state.state_type {
                JobStateType::Completed => Ok(()),
                state => Err(state.to_string()),
            }
        })
        .await;
        let took = since.elapsed();

        let after = client.describe_node(node).await.expect("the node is known");
        assert_eq!(after.connection, Connection::Connected);
        assert_eq!(session(&cluster).await, before);
        Some(took)
    })
    .await;
}
