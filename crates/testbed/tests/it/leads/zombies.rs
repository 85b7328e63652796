//! An orchestrator that has lost the lead without noticing: it says nothing that may be untrue, and
//! ends as soon as it can know.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api_client::{EventsQuery, JobLogsQuery};
use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use failpoint::{BOOT_CLOCK, STUCK};
use futures_util::StreamExt;
use reqwest::Method;
use serde_json::json;
use testbed::harness::{
    AgentSpec, Cluster, ClusterSpec, Relay, SharedStore, Upstream, batch, eventually,
    eventually_within, noop,
};
use tokio::task::JoinSet;

use super::measure::{exist_once, http, row, served_again, submit_some};
use super::processes::cluster;

/// How soon a process is gone that has lost the lead.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// How soon it follows once it was started again.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(5);

/// Interval between renewals of the lease: an idle leader learns of its end with the next one.
const RENEWAL: Duration = Duration::from_secs(1);

const EXIT_UNAVAILABLE: i32 = 69;

/// A response of the zombie, or none.
#[derive(Debug)]
struct Response {
    request: String,
    status: u16,
}

/// Clients of one orchestrator.
struct Clients {
    http: reqwest::Client,
    base_url: String,
    under_way: JoinSet<Option<Response>>,
}

// === impl Clients ===

impl Clients {
    fn of(cluster: &Cluster, orchestrator: usize) -> Self {
        let base_url = cluster.orchestrator_at(orchestrator).base_url().to_owned();
        Self { http: http(), base_url, under_way: JoinSet::new() }
    }

    /// Sends a request for everything that the service judges.
    fn ask(&mut self, job: JobId, node: &str) {
        let submission = json!({ "Job": noop() });
        let nothing = json!({});
        for (method, path, body) in [
            (Method::GET, "jobs".to_owned(), None),
            (Method::GET, format!("jobs/{job}"), None),
            (Method::GET, format!("jobs/{job}/history"), None),
            (Method::GET, "nodes".to_owned(), None),
            (Method::GET, "cluster".to_owned(), None),
            (Method::GET, "events".to_owned(), None),
            (Method::PUT, "jobs".to_owned(), Some(submission)),
            (Method::DELETE, format!("jobs/{job}"), None),
            (Method::PUT, format!("nodes/{node}/session"), Some(nothing.clone())),
            (Method::PUT, format!("nodes/{node}/heartbeat"), Some(nothing)),
        ] {
            let url = format!("{}/api/v1/orchestrator/{path}", self.base_url);
            let mut request = self.http.request(method.clone(), url);
            if let Some(body) = body {
                request = request.json(&body);
            }
            self.under_way.spawn(async move {
                let response = request.send().await.ok()?;
                Some(Response {
                    request: format!("{method} {path}"),
                    status: response.status().as_u16(),
                })
            });
        }
    }

    async fn responses(self) -> Vec<Response> {
        self.under_way.join_all().await.into_iter().flatten().collect()
    }
}

/// Counts what two streams of an orchestrator deliver.
async fn read_streams(cluster: &Cluster, job: JobId) -> Arc<AtomicUsize> {
    let delivered = Arc::<AtomicUsize>::default();
    let client = cluster.orchestrator_at(0).client().clone();
    let query = JobLogsQuery { follow: true, ..JobLogsQuery::default() };
    let mut logs = client.job_logs(job, &query).await.expect("the logs are open");
    let mut events = client.events(&EventsQuery::default()).await.expect("the events are open");
    let count = Arc::clone(&delivered);
    tokio::spawn(async move {
        while let Some(Ok(_)) = logs.next().await {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let count = Arc::clone(&delivered);
    tokio::spawn(async move {
        while let Some(Ok(_)) = events.next().await {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    eventually("lines and a position arrive", async || match delivered.load(Ordering::Relaxed) {
        0..5 => Err("nothing yet".to_owned()),
        _ => Ok(()),
    })
    .await;
    delivered
}

/// When the process is gone, and with which code.
async fn gone(cluster: &mut Cluster, orchestrator: usize, since: Instant) -> Duration {
    let ended =
        eventually_within(Duration::from_secs(10), "the zombie ends", async || {
            match cluster.orchestrator_at_mut(orchestrator).has_ended() {
                true => Ok(since.elapsed()),
                false => Err("it runs".to_owned()),
            }
        })
        .await;
    let status = cluster.orchestrator_at_mut(orchestrator).ends_within(Duration::ZERO).await;
    assert_eq!(status.code(), Some(EXIT_UNAVAILABLE), "{status}");
    ended
}

/// Starts it again, as a service manager does, and waits until it follows.
async fn follows_again(cluster: &mut Cluster, orchestrator: usize) {
    let since = Instant::now();
    cluster.orchestrator_at_mut(orchestrator).restart().await;
    assert!(since.elapsed() < FOLLOWS_WITHIN, "{:?}", since.elapsed());
    assert_ne!(cluster.leader().await, orchestrator);
}

#[tokio::test]
async fn a_zombie_answers_only_503_writes_no_line_and_is_gone() {
    row("SIGCONT of the zombie", GONE_WITHIN, async || {
        let store = SharedStore::start()?;
        let spec = ClusterSpec::new().sharing(store, 2).agent(AgentSpec::new());
        let mut cluster = spec.start().await?;
        let node = cluster.agents[0].node_id().to_string();
        let printing = batch(&cluster.image, &["lines", "200", "stdout", "100"]);
        let printing = cluster.submit(&printing).await;
        let running = cluster.wait_for_execution(printing, ComputeState::BidAccepted).await;
        let delivered = read_streams(&cluster, printing).await;

        cluster.orchestrator_at(0).pause();
        let since = Instant::now();
        served_again(&cluster, since).await;
        assert_eq!(cluster.leader().await, 1);
        let after = submit_some(&cluster, 3).await;
        // The sockets are empty: what arrives later was sent later.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let before = delivered.load(Ordering::Relaxed);
        let mut clients = Clients::of(&cluster, 0);
        for _ in 0..3 {
            clients.ask(printing, &node);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;

        let resumed = Instant::now();
        cluster.orchestrator_at(0).resume();
        let asking = async {
            loop {
                clients.ask(printing, &node);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let took = tokio::select! {
            took = gone(&mut cluster, 0, resumed) => took,
            () = asking => unreachable!("it asks until the process is gone"),
        };
        let responses = clients.responses().await;
        let claims: Vec<_> = responses.iter().filter(|one| one.status != 503).collect();
        assert!(claims.is_empty(), "{claims:?}");
        assert_eq!(delivered.load(Ordering::Relaxed), before, "no line and no event");
        follows_again(&mut cluster, 0).await;
        exist_once(&cluster, &after).await;
        cluster.wait_for_job(printing, JobStateType::Completed).await;
        assert_eq!(cluster.execution(printing).await.id, running.id, "it ran once");
        Some(took)
    })
    .await;
}

#[tokio::test]
async fn an_orchestrator_that_is_cut_off_answers_only_503_once_its_trust_is_over() {
    let Some(mut cluster) = cluster(2).await else { return };
    let before = submit_some(&cluster, 3).await;
    cluster.relay(0).cut();
    served_again(&cluster, Instant::now()).await;
    let mut clients = Clients::of(&cluster, 0);
    clients.ask(before[0].id, "n-1");
    let mut responses = tokio::time::timeout(Duration::from_secs(20), clients.responses()).await;
    let responses = responses.as_mut().expect("it responds although it is cut off");
    assert!(!responses.is_empty());
    assert!(responses.iter().all(|one| one.status == 503), "{responses:?}");
    let healed = Instant::now();
    cluster.relay(0).heal();
    let took = gone(&mut cluster, 0, healed).await;
    assert!(took < RENEWAL + GONE_WITHIN, "{took:?}");
    follows_again(&mut cluster, 0).await;
}

#[tokio::test]
async fn a_process_that_lost_the_lead_is_gone_even_while_a_read_hangs_in_the_database() {
    row("lead lost while a read hangs", RENEWAL + GONE_WITHIN, async || {
        let mut cluster = cluster(2).await?;
        let before = submit_some(&cluster, 3).await;
        let mut locking = cluster.store().direct().session().await.expect("the database answers");
        let lock = locking.transaction().await.expect("a transaction");
        lock.batch_execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
        let client = cluster.orchestrator_at(0).client().clone();
        let job = before[0].id;
        let reading =
            tokio::spawn(async move { client.job_history(job, &Default::default()).await });
        let session = cluster.store().direct().session().await.expect("the database answers");
        eventually("the read hangs", async || {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            let waiting =
                session.query_one(waiting, &[]).await.map_err(|error| error.to_string())?;
            if waiting.get::<_, i64>(0) > 0 { Ok(()) } else { Err("it does not".to_owned()) }
        })
        .await;
        let since = Instant::now();
        let depose = "UPDATE progress SET term = decode(md5(random()::text), 'hex')";
        session.execute(depose, &[]).await.expect("it is the owner");
        let took = gone(&mut cluster, 0, since).await;
        assert!(reading.await.expect("it ends").is_err());
        lock.rollback().await.expect("it is released");
        // Started at once, it could win the lead again, which no one has.
        assert_eq!(cluster.next_leader(0).await, 1);
        follows_again(&mut cluster, 0).await;
        Some(took)
    })
    .await;
}

/// Its clock says that it has the lead, so it may show what it knew; but a node that has joined since
/// keeps its task.
#[tokio::test]
async fn a_zombie_whose_clock_stood_still_stops_no_task() {
    row("zombie whose clock stood still", GONE_WITHIN, async || {
        let store = SharedStore::start()?;
        let mut cluster = ClusterSpec::new().sharing(store, 2).start().await?;
        let before = submit_some(&cluster, 1).await;
        let clock = cluster.orchestrator_at(0).failpoints();
        clock.arm_always(BOOT_CLOCK, STUCK).await;
        cluster.orchestrator_at(0).pause();
        // Submissions to the paused process would fill its queue of connections.
        assert_eq!(cluster.next_leader(0).await, 1);
        let zombie = Upstream::Any(vec![cluster.orchestrator_at(0).address()]);
        let leader = Upstream::Any(vec![cluster.orchestrator_at(1).address()]);
        let link = Relay::open(leader.clone());
        let agent = AgentSpec::new()
            .setting("COMPUTE_AGENT_ORCHESTRATOR", &format!("http://{}", link.address()));
        cluster.add_agent(&agent).await;
        let node = cluster.agents[0].node_id().to_string();
        let job = cluster.submit(&batch(&cluster.image, &["await"])).await;
        let running = cluster.wait_for_execution(job, ComputeState::BidAccepted).await;
        let container = cluster.containers().await;

        let asked = link.connections();
        link.lead_to(zombie);
        link.reset();
        eventually("the agent asks the zombie", async || match link.connections() > asked {
            true => Ok(()),
            false => Err("it has not connected".to_owned()),
        })
        .await;
        let mut clients = Clients::of(&cluster, 0);
        clients.ask(before[0].id, &node);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let resumed = Instant::now();
        cluster.orchestrator_at(0).resume();
        cluster.orchestrator_at(0).failpoints().disarm(BOOT_CLOCK).await;
        let took = gone(&mut cluster, 0, resumed).await;
        let responses = clients.responses().await;
        let harm = |one: &&Response| {
            one.status == 403 || (one.status == 200 && !one.request.starts_with("GET"))
        };
        assert!(!responses.iter().any(|one| harm(&one)), "{responses:?}");
        assert_eq!(cluster.containers().await, container, "it runs on");

        link.lead_to(leader);
        link.reset();
        cluster.signal(job).await;
        cluster.wait_for_job(job, JobStateType::Completed).await;
        assert_eq!(cluster.execution(job).await.id, running.id, "it ran once");
        Some(took)
    })
    .await;
}
