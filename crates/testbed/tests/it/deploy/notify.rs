//! What a service manager hears of the daemons; the test plays systemd's socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use api_types::JobId;
use api_types::job::JobStateType;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SmallDisk, binary, eventually, noop};

/// The watchdog looks at a third of it; a daemon beats once a second.
const WATCHDOG_USEC: &str = "4500000";

/// Room for an empty database and its log, and little more.
const MEGABYTES: u32 = 16;

/// The socket of a service manager, and what came.
struct Manager {
    /// As `NOTIFY_SOCKET` names it.
    name: String,
    heard: Arc<Mutex<Vec<String>>>,
}

// === impl Manager ===

impl Manager {
    /// At an abstract address, as of user managers and containers.
    fn at_an_abstract_address() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("testbed-notify-{}-{count}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a valid name");
        let socket = UnixDatagram::bind_addr(&address).expect("the address is free");
        Self::hearing(socket, format!("@{name}"))
    }

    fn at_a_path(directory: &tempfile::TempDir) -> Self {
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("the path is free");
        Self::hearing(socket, path.display().to_string())
    }

    fn hearing(socket: UnixDatagram, name: String) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::downgrade(&heard);
        socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("not zero");
        std::thread::spawn(move || {
            let mut datagram = [0; 4096];
            while let Some(heard) = hears.upgrade() {
                let Ok(length) = socket.recv(&mut datagram) else { continue };
                let text = String::from_utf8_lossy(&datagram[..length]);
                let mut heard = heard.lock().expect("nobody panics with it");
                for line in text.lines() {
                    heard.push(line.to_owned());
                    // Asked at the moment at which it says so.
                    if let Some(address) = line.strip_prefix("STATUS=serving on ") {
                        let address = address.parse().expect("an address");
                        let health = daemon::health::ask(address, "/readyz");
                        heard.push(format!("health: {health:?}"));
                    }
                }
            }
        });
        Self { name, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("nobody panics with it").clone()
    }

    fn count(&self, line: &str) -> usize {
        self.heard().iter().filter(|heard| *heard == line).count()
    }

    async fn hears(&self, line: &str) {
        self.hears_again(line, 1).await;
    }

    async fn hears_again(&self, line: &str, times: usize) {
        eventually(&format!("{line} is heard {times} times"), async || {
            let heard = self.heard();
            if self.count(line) >= times { Ok(()) } else { Err(format!("{heard:#?}")) }
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
async fn an_orchestrator_tells_when_it_is_ready_that_it_lives_and_when_it_stops() {
    let directory = tempfile::tempdir().unwrap();
    let manager = Manager::at_a_path(&directory);
    let mut cluster = manager.spec().start_without_agents().await;
    manager.hears("READY=1").await;
    manager.hears("health: Ok(())").await;
    manager.hears_again("WATCHDOG=1", 2).await;
    assert!(cluster.orchestrator.terminate().await.success());
    manager.hears("STOPPING=1").await;
    let heard = manager.heard();
    let order: Vec<_> =
        heard.iter().filter(|line| line.ends_with("ING=1") || line.contains("READY")).collect();
    assert_eq!(order, ["READY=1", "STOPPING=1"], "{heard:#?}");
}

#[tokio::test]
async fn the_watchdog_starves_while_the_driver_hangs() {
    let manager = Manager::at_an_abstract_address();
    let cluster = manager.spec().start_without_agents().await;
    manager.hears("WATCHDOG=1").await;
    cluster.orchestrator.failpoints().arm("commit.before", "hang").await;
    let submitted = tokio::spawn(submit(&cluster));
    says(&cluster, "no progress").await;
    submitted.await.unwrap();
    // It goes on, and so does the watchdog.
    let fed = manager.count("WATCHDOG=1");
    manager.hears_again("WATCHDOG=1", fed + 1).await;
}

#[tokio::test]
async fn a_full_disk_is_no_reason_to_be_killed() {
    let Some(disk) = SmallDisk::mount(MEGABYTES) else { return };
    let manager = Manager::at_an_abstract_address();
    let data = disk.path().join("data").display().to_string();
    let spec = manager.spec().setting("ORCHESTRATOR_DATA_DIR", &data);
    let cluster = spec.start_without_agents().await;
    manager.hears("READY=1").await;
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
    let fed = manager.count("WATCHDOG=1");
    manager.hears_again("WATCHDOG=1", fed + 3).await;
    let log = cluster.orchestrator.log_tail();
    assert!(!log.contains("no progress") && !log.contains("has room again"), "{log}");
}

async fn says(cluster: &Cluster, words: &str) {
    eventually(&format!("it says '{words}'"), async || {
        let log = cluster.orchestrator.log_tail();
        if log.contains(words) { Ok(()) } else { Err(log) }
    })
    .await;
}

/// Submits a job, whatever comes of it.
fn submit(cluster: &Cluster) -> impl Future<Output = ()> + use<> {
    let client = cluster.client().clone();
    let body = serde_json::json!({ "Job": noop() }).to_string();
    async move { drop(client.create_job_raw(body.into(), None).await) }
}

/// An agent that ends when the test does.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn an_agent_is_ready_when_it_has_joined_and_asks_for_the_time_of_its_drain() {
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
    manager.hears(&format!("STATUS=joining the orchestrator at {url}")).await;
    manager.hears("WATCHDOG=1").await;
    assert_eq!(manager.count("READY=1"), 0, "{:#?}", manager.heard());
    cluster.orchestrator.start_again().await;
    manager.hears("READY=1").await;
    manager.hears(&format!("STATUS=joined the orchestrator at {url}")).await;
    let id = cluster.submit(&noop()).await;
    completed(&cluster, id).await;

    let pid = agent.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    manager.hears("STOPPING=1").await;
    manager.hears("EXTEND_TIMEOUT_USEC=130000000").await;
    eventually("the agent ends", async || match agent.0.try_wait() {
        Ok(Some(status)) if status.success() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

async fn completed(cluster: &Cluster, id: JobId) {
    cluster.job_in(id, JobStateType::Completed).await;
}

#[tokio::test]
async fn the_health_of_a_daemon_can_be_asked_for_with_its_own_settings() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().engines("noop"));
    let mut cluster = spec.start_without_docker().await;
    let health = |program: &str, variable: &str, address: String| {
        let mut command = Command::new(binary(program));
        command.env_clear().env(variable, address).arg("--health");
        let output = command.output().expect("it starts");
        (output.status.code(), super::said(&output))
    };
    let orchestrator = cluster.orchestrator.address().to_string();
    let agent = cluster.agents[0].address().to_string();
    for (program, variable, address) in [
        ("orchestrator", "ORCHESTRATOR_LISTEN", &orchestrator),
        ("compute-agent", "COMPUTE_AGENT_LISTEN", &agent),
    ] {
        let (code, said) = health(program, variable, address.clone());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{program}");
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cluster.orchestrator.kill();
    let (code, said) = health("orchestrator", "ORCHESTRATOR_LISTEN", orchestrator);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.starts_with("orchestrator: nothing answers at 127.0.0.1:"), "{said}");
    // An agent that never joined.
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
        let (code, said) = health("compute-agent", "COMPUTE_AGENT_LISTEN", free.to_string());
        match code {
            Some(69) if said.contains("has not joined its orchestrator") => Ok(()),
            _ => Err(format!("{code:?}: {said}")),
        }
    })
    .await;
}
