//! The leader is killed right after a key was replaced, or in the middle: the next one reads every
//! secret, and nodes and clients work on.

use std::fs;
use std::path::PathBuf;

use api_client::{Client, Credentials, ExecutionsQuery, Options, Trust};
use api_types::job::JobStateType;
use api_types::key::{Key, KeyPurpose};
use api_types::node::Connection;
use api_types::secret::PutSecret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use failpoint::CRASH;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SharedStore, batch, eventually};

/// Seconds for which certificates are valid; an agent renews its own at two thirds, and a replaced CA
/// is removed when the last one has expired.
const LIFETIME: &str = "12";

const VALUE: &str = "hunter2";

/// A commit is stored, and its request gets no response.
const STORED: &str = "commit.after";

/// Two protected orchestrators, a node, and a job that prints a secret.
struct Rotations {
    cluster: Cluster,
    purpose: KeyPurpose,
    job: Value,
}

// === impl Rotations ===

impl Rotations {
    async fn start(purpose: KeyPurpose) -> Option<Self> {
        let spec = ClusterSpec::new()
            .protected()
            .setting("ORCHESTRATOR_TLS__NODE_LIFETIME", LIFETIME)
            .sharing(SharedStore::start()?, 2)
            .agent(AgentSpec::new());
        let cluster = spec.start().await?;
        let secret = PutSecret::of_bytes(VALUE.as_bytes());
        cluster.client().put_secret(None, "db", &secret).await.expect("the secret is set");
        let mut job = batch(&cluster.image, &["cat", "/run/secrets/db"]);
        job["Tasks"][0]["Secrets"] = json!([{ "Name": "db" }]);
        Some(Self { cluster, purpose, job })
    }

    fn file(&self, orchestrator: usize, name: &str) -> PathBuf {
        self.cluster.orchestrator_at(orchestrator).data_dir().join(name)
    }

    /// The CAs that an operator finds on the machine that leads.
    async fn authorities(&self) -> String {
        let leader = self.cluster.leader().await;
        eventually("the leader has written its CAs", async || {
            fs::read_to_string(self.file(leader, "ca.crt")).map_err(|error| error.to_string())
        })
        .await
    }

    /// A new client that trusts these CAs.
    fn trusting(&self, authorities: String) -> Client {
        let token = fs::read_to_string(self.file(0, "admin.token")).expect("a token");
        Client::with(Options {
            base_url: self.cluster.client().base_url().to_owned(),
            trust: Trust::Authority(authorities),
            credentials: Credentials::Bearer(token.trim().to_owned()),
            ..Options::default()
        })
        .expect("a client")
    }

    async fn client(&self) -> Client {
        self.trusting(self.authorities().await)
    }

    /// Puts the next cluster key onto every machine, as an operator does.
    async fn prepare(&self, byte: u8) {
        if self.purpose != KeyPurpose::Cluster {
            return;
        }
        for orchestrator in [0, 1] {
            let file = self.file(orchestrator, "cluster.key.next");
            eventually("the former next key has its final name", async || match file.exists() {
                false => Ok(()),
                true => Err(format!("{} exists", file.display())),
            })
            .await;
            fs::write(&file, STANDARD.encode([byte; 32])).expect("write the next key");
        }
    }

    /// Kills the leader, and waits until the other one leads; returns the former.
    async fn takeover(&mut self) -> usize {
        let former = self.cluster.leader().await;
        self.cluster.orchestrator_at_mut(former).kill();
        self.cluster.next_leader(former).await;
        former
    }

    /// A client that trusts these CAs gets a response.
    async fn serves(&self, authorities: &str) {
        let client = self.trusting(authorities.to_owned());
        eventually("a client is served that trusts the CA", async || {
            client.list_keys().await.map_err(|error| error.to_string())
        })
        .await;
    }

    /// A task gets its secret on a node that is connected, for a client with the CAs as they are now.
    async fn works(&self) {
        eventually("the leader serves", async || self.keys().await.map(drop)).await;
        let client = self.client().await;
        let body = json!({ "Job": self.job }).to_string();
        let id = client.create_job_raw(body.into(), None).await.expect("it is accepted").job_id;
        eventually("the job ends", async || {
            let job = client.describe_job(id).await.map_err(|error| error.to_string())?;
            match job.state.state_type {
                JobStateType::Completed => Ok(()),
                state => Err(format!("{state}: {}", job.state.message)),
            }
        })
        .await;
        let executions = client.job_executions(id, &ExecutionsQuery::default()).await;
        let executions = executions.expect("the job exists").executions;
        assert_eq!(executions[0].run_output.stdout, VALUE);
        let node = client.describe_node(self.cluster.agents[0].node_id()).await;
        assert_eq!(node.expect("the node is known").connection, Connection::Connected);
    }

    async fn keys(&self) -> Result<Vec<Key>, String> {
        let mut keys = self.client().await.list_keys().await.map_err(|error| error.to_string())?;
        keys.retain(|key| key.purpose == self.purpose);
        Ok(keys)
    }

    /// Waits until one key is left, which is another one.
    async fn replaced(&self, former: &str) {
        eventually("one key is left, and it is another", async || match &self.keys().await?[..] {
            [key] if key.id != former => Ok(()),
            keys => Err(format!("{keys:?}")),
        })
        .await;
    }
}

async fn a_takeover_changes_nothing(purpose: KeyPurpose) {
    let Some(mut rotations) = Rotations::start(purpose).await else { return };
    rotations.works().await;
    let former = rotations.keys().await.expect("it leads")[0].id.clone();
    let authorities = rotations.authorities().await;
    rotations.prepare(1).await;
    rotations.client().await.rotate_key(purpose).await.expect("it is replaced");
    let killed = rotations.takeover().await;
    rotations.serves(&authorities).await;
    rotations.works().await;
    rotations.cluster.orchestrator_at_mut(killed).restart().await;
    rotations.replaced(&former).await;
    let killed = rotations.takeover().await;
    rotations.works().await;
    rotations.cluster.orchestrator_at_mut(killed).restart().await;

    rotations.prepare(2).await;
    let leader = rotations.cluster.leader().await;
    let client = rotations.client().await;
    rotations.cluster.orchestrator_at(leader).failpoints().arm(STORED, CRASH).await;
    // It may be the renewal of the lease that it does not survive.
    let _ = client.rotate_key(purpose).await;
    rotations.cluster.next_leader(leader).await;
    rotations.works().await;
    assert_eq!(rotations.cluster.restart_crashed().await, 1);
    rotations.takeover().await;
    rotations.works().await;
}

#[tokio::test]
async fn with_the_next_cluster_key_everywhere_each_next_leader_reads_the_secrets() {
    a_takeover_changes_nothing(KeyPurpose::Cluster).await;
}

#[tokio::test]
async fn a_takeover_while_the_ca_is_replaced_leaves_nodes_and_clients_connected() {
    a_takeover_changes_nothing(KeyPurpose::Ca).await;
}

#[tokio::test]
async fn a_takeover_while_secrets_are_encrypted_again_loses_none() {
    a_takeover_changes_nothing(KeyPurpose::Secrets).await;
}
