//! Notifications to the service manager; the test provides systemd's socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use api_types::JobId;
use api_types::job::JobStateType;
use daemon::health::Scheme;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SmallDisk, binary, eventually, noop};

/// The watchdog reports after a third of this time; a daemon beats once per second.
const WATCHDOG_USEC: &str = "4500000";

/// Slightly more than an empty database and its log need.
const MEGABYTES: u32 = 16;

/// The socket of a service manager, and the received notifications.
struct Manager {
    /// The value of `NOTIFY_SOCKET`.
    name: String,
    received: Arc<Mutex<Vec<String>>>,
}

// === impl Manager ===

impl Manager {
    /// Listens at an abstract address, like user managers and containers.
    fn at_an_abstract_address() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("testbed-notify-{}-{count}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a valid name");
        let socket = UnixDatagram::bind_addr(&address).expect("the address is free");
        Self::receive(socket, format!("@{name}"))
    }

    fn at_a_path(directory: &tempfile::TempDir) -> Self {
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("the path is free");
        Self::receive(socket, path.display().to_string())
    }

    fn receive(socket: UnixDatagram, name: String) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let weak = Arc::downgrade(&received);
        socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("not zero");
        std::thread::spawn(move || {
            let mut datagram = [0; 4096];
            while let Some(received) = weak.upgrade() {
                let Ok(length) = socket.recv(&mut datagram) else { continue };
                let text = String::from_utf8_lossy(&datagram[..length]);
                let mut received = received.lock().expect("no holder of the lock panics");
                for line in text.lines() {
                    received.push(line.to_owned());
                    // Checks that the daemon is ready when it reports so.
                    if let Some(address) = line.strip_prefix("STATUS=serving on ") {
                        let address = address.parse().expect("an address");
                        let health = daemon::health::ask(Scheme::Http, address, "/readyz");
                        received.push(format!("health: {health:?}"));
                    }
                }
            }
        });
        Self { name, received }
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().expect("no holder of the lock panics").clone()
    }

    fn count(&self, line: &str) -> usize {
        self.received().iter().filter(|received| *received == line).count()
    }

    async fn wait_for(&self, line: &str) {
        self.wait_for_count(line, 1).await;
    }

    async fn wait_for_count(&self, line: &str, times: usize) {
        eventually(&format!("{line} is received {times} times"), async || {
            let received = self.received();
            if self.count(line) >= times { Ok(()) } else { Err(format!("{received:#?}")) }
        })
        .await;
    }

    fn spec(&self) -> ClusterSpec {
        ClusterSpec::new()
            .setting("NOTIFY_SOCKET", &self.name)
            .setting("WATCHDOG_USEC", WATCHDOG_USEC)
    }
}

#[tokio::test]
async fn an_orchestrator_notifies_readiness_liveness_and_stop() {
    let directory = tempfile::tempdir().unwrap();
    let manager = Manager::at_a_path(&directory);
    let mut cluster = manager.spec().start_without_agents().await;
    manager.wait_for("READY=1").await;
    manager.wait_for("health: Ok(())").await;
    manager.wait_for_count("WATCHDOG=1", 2).await;
    assert!(cluster.orchestrator.terminate().await.success());
    manager.wait_for("STOPPING=1").await;
    let received = manager.received();
    let order: Vec<_> =
        received.iter().filter(|line| line.ends_with("ING=1") || line.contains("READY")).collect();
    assert_eq!(order, ["READY=1", "STOPPING=1"], "{received:#?}");
}

#[tokio::test]
async fn the_watchdog_is_not_notified_while_the_driver_hangs() {
    let manager = Manager::at_an_abstract_address();
    let cluster = manager.spec().start_without_agents().await;
    manager.wait_for("WATCHDOG=1").await;
    cluster.orchestrator.failpoints().arm("commit.before", "hang").await;
    let submitted = tokio::spawn(submit(&cluster));
    wait_for_log(&cluster, "no progress").await;
    submitted.await.unwrap();
    // When the driver continues, so do the notifications.
    let before = manager.count("WATCHDOG=1");
    manager.wait_for_count("WATCHDOG=1", before + 1).await;
}

#[tokio::test]
async fn the_watchdog_is_notified_while_the_disk_is_full() {
    let Some(disk) = SmallDisk::mount(MEGABYTES) else { return };
    let manager = Manager::at_an_abstract_address();
    let data = disk.path().join("data").display().to_string();
    let spec = manager.spec().setting("ORCHESTRATOR_DATA_DIR", &data);
    let cluster = spec.start_without_agents().await;
    manager.wait_for("READY=1").await;
    disk.fill();
    eventually("the disk is full", async || {
        submit(&cluster).await;
        disk.fill();
        match cluster.orchestrator.log_tail().contains("the disk is full") {
            true => Ok(()),
            false => Err(cluster.orchestrator.log_tail()),
        }
    })
    .await;
    let before = manager.count("WATCHDOG=1");
    manager.wait_for_count("WATCHDOG=1", before + 3).await;
    let log = cluster.orchestrator.log_tail();
    assert!(!log.contains("no progress") && !log.contains("has room again"), "{log}");
}

async fn wait_for_log(cluster: &Cluster, words: &str) {
    eventually(&format!("the log contains '{words}'"), async || {
        let log = cluster.orchestrator.log_tail();
        if log.contains(words) { Ok(()) } else { Err(log) }
    })
    .await;
}

/// Submits a job and ignores the outcome.
fn submit(cluster: &Cluster) -> impl Future<Output = ()> + use<> {
    let client = cluster.client().clone();
    let body = serde_json::json!({ "Job": noop() }).to_string();
    async move { drop(client.create_job_raw(body.into(), None).await) }
}

/// An agent process; dropping it kills it.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn an_agent_is_ready_after_it_joined_and_extends_its_stop_timeout_for_the_drain() {
    let mut cluster = ClusterSpec::new().start_without_agents().await;
    let url = cluster.orchestrator.base_url().to_owned();
    cluster.orchestrator.kill();
    let manager = Manager::at_an_abstract_address();
    let directory = tempfile::tempdir().unwrap();
    let child = Command::new(binary("compute-agent"))
        .env_clear()
        .env("NOTIFY_SOCKET", &manager.name)
        .env("WATCHDOG_USEC", WATCHDOG_USEC)
        .env("COMPUTE_AGENT_LISTEN", "127.0.0.1:0")
        .env("COMPUTE_AGENT_DATA_DIR", directory.path())
        .env("COMPUTE_AGENT_ENGINES", "noop")
        .env("COMPUTE_AGENT_ORCHESTRATOR", &url)
        .env("COMPUTE_AGENT_DRAIN_ON_STOP", "true")
        .env("COMPUTE_AGENT_DRAIN_DEADLINE_SECONDS", "100")
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut agent = Agent(child);
    manager.wait_for(&format!("STATUS=joining the orchestrator at {url}")).await;
    manager.wait_for("WATCHDOG=1").await;
    assert_eq!(manager.count("READY=1"), 0, "{:#?}", manager.received());
    cluster.orchestrator.restart().await;
    manager.wait_for("READY=1").await;
    manager.wait_for(&format!("STATUS=joined the orchestrator at {url}")).await;
    let id = cluster.submit(&noop()).await;
    completed(&cluster, id).await;

    let pid = agent.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    manager.wait_for("STOPPING=1").await;
    manager.wait_for("EXTEND_TIMEOUT_USEC=130000000").await;
    eventually("the agent ends", async || match agent.0.try_wait() {
        Ok(Some(status)) if status.success() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

async fn completed(cluster: &Cluster, id: JobId) {
    cluster.wait_for_job(id, JobStateType::Completed).await;
}

#[tokio::test]
async fn the_health_check_uses_the_settings_of_the_daemon() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().engines("noop"));
    let mut cluster = spec.start_without_docker().await;
    let health = |program: &str, variable: &str, address: String| {
        let mut command = Command::new(binary(program));
        command.env_clear().env(variable, address).arg("--health");
        let output = command.output().expect("it starts");
        (output.status.code(), super::text_of(&output))
    };
    let orchestrator = cluster.orchestrator.address().to_string();
    let agent = cluster.agents[0].address().to_string();
    for (program, variable, address) in [
        ("orchestrator", "ORCHESTRATOR_LISTEN", &orchestrator),
        ("compute-agent", "COMPUTE_AGENT_LISTEN", &agent),
    ] {
        let (code, text) = health(program, variable, address.clone());
        assert_eq!((code, text.as_str()), (Some(0), ""), "{program}");
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cluster.orchestrator.kill();
    let (code, text) = health("orchestrator", "ORCHESTRATOR_LISTEN", orchestrator);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.starts_with("orchestrator: nothing answers at 127.0.0.1:"), "{text}");
    // An agent that has never joined.
    let directory = tempfile::tempdir().unwrap();
    let _alone = Agent(
        Command::new(binary("compute-agent"))
            .env_clear()
            .env("COMPUTE_AGENT_LISTEN", free.to_string())
            .env("COMPUTE_AGENT_DATA_DIR", directory.path())
            .env("COMPUTE_AGENT_ENGINES", "noop")
            .env("COMPUTE_AGENT_ORCHESTRATOR", cluster.orchestrator.base_url())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts"),
    );
    eventually("the agent is not ready", async || {
        let (code, text) = health("compute-agent", "COMPUTE_AGENT_LISTEN", free.to_string());
        match code {
            Some(69) if text.contains("has not joined its orchestrator") => Ok(()),
            _ => Err(format!("{code:?}: {text}")),
        }
    })
    .await;
}
