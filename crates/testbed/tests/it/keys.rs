//! Keys are replaced while real daemons work, and while they crash.

use api_client::{Client, Credentials, Options, Trust};
use api_types::job::JobStateType;
use api_types::joining::CreateNodeToken;
use api_types::key::{Key, KeyPurpose, KeyState};
use api_types::secret::PutSecret;
use failpoint::CRASH;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually, noop};

/// Seconds; an agent renews its certificate at two thirds.
const LIFETIME: &str = "6";

const VALUE: &str = "hunter2";

fn with_purpose(keys: &[Key], purpose: KeyPurpose) -> Vec<&Key> {
    keys.iter().filter(|key| key.purpose == purpose).collect()
}

/// As a client that has the certificates of the CAs as they are now.
fn informed(cluster: &Cluster) -> Client {
    let data = cluster.orchestrator.data_dir();
    let read = |name: &str| std::fs::read_to_string(data.join(name)).expect("a file");
    Client::with(Options {
        base_url: cluster.orchestrator.base_url().to_owned(),
        trust: Trust::Authority(read("ca.crt")),
        credentials: Credentials::Bearer(read("admin.token").trim().to_owned()),
        ..Options::default()
    })
    .expect("a client")
}

#[tokio::test]
async fn nodes_and_clients_work_on_while_the_ca_is_replaced_under_load() {
    let mut cluster = ClusterSpec::new()
        .protected()
        .setting("ORCHESTRATOR_TLS__NODE_LIFETIME", LIFETIME)
        .agent(AgentSpec::new().engines("noop"))
        .start_without_docker()
        .await;
    let early = CreateNodeToken { uses: 2, ..CreateNodeToken::default() };
    let early = cluster.client().create_node_token(&early).await.expect("a token").secret;
    let former = with_purpose(&cluster.client().list_keys().await.expect("keys"), KeyPurpose::Ca)
        [0]
    .id
    .clone();
    cluster.client().rotate_key(KeyPurpose::Ca).await.expect("it is replaced");

    // A node that joins now knows the former CA from its token, and a client from its file.
    cluster.add_agent(&AgentSpec::new().engines("noop").joining(&early)).await;
    let informed = informed(&cluster);
    let (mut jobs, mut left) = (Vec::new(), 2);
    while left > 1 {
        let body = json!({ "Job": noop() }).to_string();
        let created = informed.create_job_raw(body.into(), None).await.expect("it is accepted");
        jobs.push(created.job_id);
        let keys = informed.list_keys().await.expect("keys");
        left = with_purpose(&keys, KeyPurpose::Ca).len();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(jobs.len() > 10, "there was some load: {}", jobs.len());
    let keys = informed.list_keys().await.expect("keys");
    let [key] = with_purpose(&keys, KeyPurpose::Ca)[..] else { panic!("{keys:?}") };
    assert!(key.id != former && key.state == KeyState::Active, "{key:?}");
    for id in jobs {
        eventually("each job ends", async || {
            let job = informed.describe_job(id).await.map_err(|error| error.to_string())?;
            match job.state.state_type {
                JobStateType::Completed => Ok(()),
                state => Err(format!("{state}")),
            }
        })
        .await;
    }
    for agent in &mut cluster.agents {
        let log = agent.log();
        assert!(!log.contains("the session ended"), "{log}");
        // A start from the file: only the new CA is in it.
        agent.kill();
        agent.restart().await;
    }
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let id = cluster.submit(&noop()).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
}

#[tokio::test]
async fn secrets_reach_their_tasks_wherever_a_rotation_is_cut_off() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let body = PutSecret::of_bytes(VALUE.as_bytes());
    cluster.client().put_secret(None, "db", &body).await.expect("the secret is set");
    let mut job = batch(&cluster.image, &["cat", "/run/secrets/db"]);
    job["Tasks"][0]["Secrets"] = json!([{ "Name": "db" }]);
    for purpose in [KeyPurpose::Secrets, KeyPurpose::Cluster] {
        for place in ["commit.before", "commit.within", "commit.after"] {
            cluster.orchestrator.failpoints().arm(place, CRASH).await;
            let cut_off = cluster.client().rotate_key(purpose).await;
            assert!(cut_off.is_err(), "{purpose} {place}: {cut_off:?}");
            eventually("it crashes", async || match cluster.restart_crashed().await {
                0 => Err("it runs".to_owned()),
                _ => Ok(()),
            })
            .await;
            let printed = cluster.run_one(&job).await.run_output.stdout;
            assert_eq!(printed, VALUE, "{purpose} {place}");
        }
        let before = cluster.client().list_keys().await.expect("keys");
        cluster.client().rotate_key(purpose).await.expect("it is replaced");
        eventually("one key is left, and it is another", async || {
            let keys = cluster.client().list_keys().await.map_err(|error| error.to_string())?;
            match (&with_purpose(&keys, purpose)[..], &with_purpose(&before, purpose)[..]) {
                ([now], [then, ..]) if now.id != then.id => Ok(()),
                (now, _) => Err(format!("{now:?}")),
            }
        })
        .await;
        assert_eq!(cluster.run_one(&job).await.run_output.stdout, VALUE, "{purpose}");
    }
}
