//! A cluster in containers, with an image of the tests' programs.

use std::fs;
use std::process::{Command, Output};

use api_client::{Client, Credentials, ExecutionsQuery, Options, Trust};
use api_types::JobId;
use api_types::execution::Execution;
use api_types::job::JobStateType;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::harness::{binary, eventually};

use super::{has, root, text_of};

/// Lease of a node in seconds.
const NODE_TTL: &str = "3";

/// The cluster of this test. Dropping it stops the cluster and removes its image.
pub(super) struct Containers {
    name: String,
    image: String,
    port: u16,
    /// Where the cluster leaves what one needs to sign in.
    pub(super) files: TempDir,
    pub(super) ended: bool,
    /// The database of two orchestrators, if there are two, and the port of the second.
    database: Option<String>,
    second_port: u16,
}

// === impl Containers ===

impl Containers {
    /// Starts the cluster with an image of the tests' programs and their libraries.
    pub(super) fn start() -> Self {
        Self::start_with(None)
    }

    /// Two orchestrators on this database.
    pub(super) fn pair(database: &str) -> Self {
        Self::start_with(Some(database.to_owned()))
    }

    fn start_with(database: Option<String>) -> Self {
        let (port, second_port) = (free_port(), free_port());
        let name = format!("testbed-{}-{port}", std::process::id());
        let image = format!("{name}:latest");
        let programs = programs();
        let made = Command::new(root().join("deploy/image.sh"))
            .args(["--tag", &image, "--binaries"])
            .arg(programs.path())
            .output()
            .expect("it starts");
        assert!(made.status.success(), "{}", text_of(&made));
        let files = tempfile::tempdir().expect("a temporary directory");
        let cluster = Self { name, image, port, files, ended: false, database, second_port };
        let up = cluster.run(&["up"]);
        assert!(up.status.success(), "{}", text_of(&up));
        let ca = cluster.file("ca.crt");
        let ca = api_client::authority_key(&ca).expect("the CA of the cluster");
        for line in [
            format!("up: {}", cluster.url()),
            format!("CA: sha256:{ca}"),
            format!("sign in: jobctl login --url {} --token-file ", cluster.url()),
        ] {
            assert!(text_of(&up).contains(&line), "{}", text_of(&up));
        }
        cluster
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(root().join("deploy/cluster.sh"));
        if let Some(database) = &self.database {
            command.env("CLUSTER_DATABASE", database);
        }
        command
            .args(arguments)
            .env("CLUSTER_PORT_B", self.second_port.to_string())
            .env("CLUSTER_NAME", &self.name)
            .env("CLUSTER_IMAGE", &self.image)
            .env("CLUSTER_PORT", self.port.to_string())
            .env("CLUSTER_NODE_TTL", NODE_TTL)
            .env("CLUSTER_FILES", self.files.path().join("files"))
            .output()
            .expect("it starts")
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The address of the second orchestrator.
    pub(super) fn second_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.second_port)
    }

    pub(super) fn file(&self, name: &str) -> String {
        let path = self.files.path().join("files").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(super) fn client_with(&self, credentials: Credentials) -> Client {
        self.client_of(self.url(), credentials)
    }

    fn client_of(&self, base_url: String, credentials: Credentials) -> Client {
        let trust = Trust::Authority(self.file("ca.crt"));
        Client::with(Options { base_url, trust, credentials, ..Options::default() })
            .expect("good options")
    }

    /// An admin's client of the second orchestrator.
    pub(super) fn second_client(&self) -> Client {
        let token = Credentials::Bearer(self.file("admin.token").trim().to_owned());
        self.client_of(self.second_url(), token)
    }

    pub(super) fn client(&self) -> Client {
        self.client_with(Credentials::Bearer(self.file("admin.token").trim().to_owned()))
    }

    /// What the sign-in that `up` prints does, and a command after it.
    pub(super) fn jobctl(&self, arguments: &[&str]) -> Output {
        Command::new(binary("jobctl"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.files.path())
            .output()
            .expect("it starts")
    }

    /// Containers, volumes and networks of this cluster that docker lists.
    pub(super) fn leftovers(&self) -> String {
        let filter = format!("name={}", self.name);
        [&["ps", "--all"][..], &["volume", "ls"], &["network", "ls"]]
            .iter()
            .map(|kind| {
                let listed = Command::new("docker")
                    .args(*kind)
                    .args(["--quiet", "--filter", &filter])
                    .output()
                    .expect("docker starts");
                text_of(&listed)
            })
            .collect()
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        if !self.ended {
            if std::thread::panicking() {
                eprintln!("{}", text_of(&self.run(&["logs", "--tail=100"])));
            }
            drop(self.run(&["down"]));
        }
        drop(Command::new("docker").args(["rmi", "--force", &self.image]).output());
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Whether either form of compose is there.
pub(super) fn has_compose() -> bool {
    let v2 = Command::new("docker").args(["compose", "version"]).output();
    v2.is_ok_and(|output| output.status.success()) || has("docker-compose", "docker-compose")
}

/// A directory with links to the tests' programs.
fn programs() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in ["orchestrator", "compute-agent", "wasm-runner", "jobctl"] {
        std::os::unix::fs::symlink(binary(name), directory.path().join(name)).expect("a new link");
    }
    directory
}

pub(super) async fn executions(client: &Client, id: JobId) -> Vec<Execution> {
    client.job_executions(id, &ExecutionsQuery::default()).await.expect("a page").executions
}

pub(super) async fn submit(client: &Client, job: &Value) -> JobId {
    let body = json!({ "Job": job }).to_string();
    client.create_job_raw(body.into(), None).await.expect("it is accepted").job_id
}

pub(super) async fn wait_for_state(client: &Client, id: JobId, expected: JobStateType) {
    eventually(&format!("the job is {expected}"), async || {
        let state = client.describe_job(id).await.map_err(|error| error.to_string())?.state;
        if state.state_type == expected { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
}
