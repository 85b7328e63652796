//! Several orchestrators know each other: the leader answers to the addresses of all, and none starts
//! without the cluster key.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use api_types::key::{Key, KeyPurpose};
use programs::binary;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SharedStore, eventually, noop};

/// Seconds for which certificates are valid, so that a replaced CA is soon removed.
const LIFETIME: &str = "6";

/// How long an orchestrator that cannot start may take to say so.
const ENDS_WITHIN: &str = "30";

/// `EX_USAGE`.
const EXIT_SETTINGS: i32 = 64;

/// Waits until one key of this purpose is left, which is another one.
async fn replaced(cluster: &Cluster, purpose: KeyPurpose, former: &str) {
    eventually("one key is left", async || {
        let keys = cluster.client().list_keys().await.map_err(|error| error.to_string())?;
        match &of(&keys, purpose)[..] {
            [key] if key.id != former => Ok(()),
            keys => Err(format!("{keys:?}")),
        }
    })
    .await;
}

fn of(keys: &[Key], purpose: KeyPurpose) -> Vec<&Key> {
    keys.iter().filter(|key| key.purpose == purpose).collect()
}

async fn key(cluster: &Cluster, purpose: KeyPurpose) -> String {
    of(&cluster.client().list_keys().await.expect("keys"), purpose)[0].id.clone()
}

#[tokio::test]
async fn an_agent_and_a_client_that_know_one_orchestrator_work_while_another_one_leads() {
    let Some(store) = SharedStore::start() else { return };
    // The second one joins once the first one leads.
    let spec = ClusterSpec::new().protected().setting("ORCHESTRATOR_TLS__NODE_LIFETIME", LIFETIME);
    let mut cluster = spec.sharing(store, 2).start_without_agents().await;
    let (address, url) = {
        let second = cluster.orchestrator_at(1);
        (second.address(), second.base_url().to_owned())
    };
    assert_ne!(address.ip(), cluster.orchestrator.address().ip());
    let client = cluster.orchestrator.client_at(address);
    let works = async || {
        eventually("the client reaches the leader by the address of the follower", async || {
            let found = client.list_members().await.map_err(|error| error.to_string())?;
            let leader = found.members.iter().find(|member| member.leads);
            match leader {
                Some(leader) if leader.address != address.to_string() => Ok(()),
                leader => Err(format!("{leader:?}")),
            }
        })
        .await;
    };
    works().await;
    let agent = AgentSpec::new().engines("noop").setting("COMPUTE_AGENT_ORCHESTRATOR", &url);
    cluster.add_agent(&agent).await;
    cluster.run_one(&noop()).await;
    let data = cluster.orchestrator.data_dir().to_owned();
    let jobctl = || {
        let mut command = Command::new(binary("jobctl"));
        command.env("JOBCTL_URL", &url).env("JOBCTL_TOKEN_FILE", data.join("admin.token"));
        command.env("JOBCTL_CA", data.join("ca.crt")).args(["cluster", "members"]);
        let output = command.output().expect("jobctl runs");
        assert!(output.status.success(), "{output:?}");
        let list = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(list.contains(" leads ") && list.contains(&address.to_string()), "{list}");
    };
    jobctl();

    let former = key(&cluster, KeyPurpose::Ca).await;
    client.rotate_key(KeyPurpose::Ca).await.expect("it is replaced");
    works().await;
    jobctl();
    cluster.run_one(&noop()).await;
    replaced(&cluster, KeyPurpose::Ca, &former).await;
    let agent = &mut cluster.agents[0];
    agent.kill();
    agent.restart().await;
    cluster.run_one(&noop()).await;
    jobctl();
}

/// Starts an orchestrator on the store of the cluster, whose data directory has these files.
fn started_with(cluster: &Cluster, files: &[(&str, PathBuf)]) -> Output {
    let data = tempfile::tempdir().expect("a directory");
    for (name, from) in files {
        fs::copy(from, data.path().join(name)).expect("copy a file");
    }
    let mut command = Command::new("timeout");
    command.arg(ENDS_WITHIN).arg(binary("orchestrator"));
    command.envs(cluster.store().settings(1)).env("ORCHESTRATOR_LISTEN", "127.0.0.3:0");
    command.env("ORCHESTRATOR_AUTH", "required").env("ORCHESTRATOR_DATA_DIR", data.path());
    command.output().expect("it runs")
}

#[tokio::test]
async fn an_orchestrator_without_the_cluster_key_or_with_the_identity_of_another_ends_with_64() {
    let Some(store) = SharedStore::start() else { return };
    let cluster = ClusterSpec::new().protected().sharing(store, 1).start_without_agents().await;
    let of_leader = |name: &str| cluster.orchestrator.data_dir().join(name);
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let without = started_with(&cluster, &[]);
    assert_eq!(without.status.code(), Some(EXIT_SETTINGS), "{}", said(&without));
    assert!(said(&without).contains("cluster.key is missing"), "{}", said(&without));
    let key = ("cluster.key", of_leader("cluster.key"));
    let copied = started_with(&cluster, &[key, ("identity.json", of_leader("identity.json"))]);
    assert_eq!(copied.status.code(), Some(EXIT_SETTINGS), "{}", said(&copied));
    assert!(said(&copied).contains("identity.json; move the file away"), "{}", said(&copied));
    cluster.client().list_members().await.expect("the leader works on");
}
