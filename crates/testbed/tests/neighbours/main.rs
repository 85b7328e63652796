//! Two hostile namespaces and a good one share two nodes: whatever the hostile ones do, the good one
//! does not notice.
//!
//! It measures times, so it is a program of its own: cargo runs one after another. The attacks last
//! `NEIGHBOURS_SECONDS`, or [`LONG_ENOUGH`], in rounds; in between, the same jobs run without them,
//! so that whatever else the machine does meets both.

mod attacks;
mod tenant;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api_client::{JobsQuery, NodeHistoryQuery};
use api_types::history::NodeStateType;
use reqwest::Method;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, binary, eventually_within};
use tokio::task::JoinSet;

use attacks::{Attacker, Counts};
use tenant::{ORCHESTRATOR, SERVED_WITHIN, Tenant, Took, publishing};

/// How long the attacks last without the variable.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// Intervals in which the attacks run, each after one in which they do not.
const ROUNDS: u32 = 4;

/// Jobs of the good namespace in an interval without attacks.
const ALONE: usize = 4;

/// Interval between two jobs of the good namespace.
const PACE: Duration = Duration::from_secs(2);

/// A job that starts sooner counts as this long: what is below is noise of the machine.
const NOISE: Duration = Duration::from_millis(1000);

/// How much longer a job may take to its end than one alone: its last steps share the machine's
/// processors with the attacks and their clients, as its first ones do.
const SLOWER: u32 = 4;

/// Time in which what the attacks have left to do is over.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

/// Tokens of each hostile namespace.
const TOKENS: usize = 10;

/// What the good namespace has measured.
#[derive(Debug, Default)]
struct Times {
    alone: Vec<Took>,
    attacked: Vec<Took>,
}

/// What the good namespace has published.
struct Publication {
    path: String,
    archive: Vec<u8>,
}

// === impl Times ===

impl Times {
    fn count(&self) -> usize {
        self.alone.len() + self.attacked.len()
    }

    /// Medians of those alone and of those attacked.
    fn medians(&self) -> (Took, Took) {
        let of = |times: &[Took], part: fn(&Took) -> Duration| {
            let mut times: Vec<Duration> = times.iter().map(part).collect();
            times.sort();
            times[times.len() / 2]
        };
        let both = |times| Took { start: of(times, |t| t.start), end: of(times, |t| t.end) };
        (both(&self.alone), both(&self.attacked))
    }
}

fn duration() -> Duration {
    let seconds = std::env::var("NEIGHBOURS_SECONDS").ok();
    seconds.map_or(LONG_ENOUGH, |text| Duration::from_secs(text.parse().expect("a number")))
}

/// A job that prints a line.
fn small(image: &str, line: &str) -> Value {
    let mut job = batch(image, &["echo", line]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "50m", "Memory": "20MB" });
    job
}

/// One round of what the good namespace does; returns the time of its job.
async fn as_ever(good: &Tenant, image: &str, kept: &Publication, number: usize) -> Took {
    let line = format!("good {number}");
    let (id, execution, took) = good.run(small(image, &line)).await;
    assert_eq!(execution["RunOutput"]["stdout"], format!("{line}\n"), "{execution}");
    let logs = good.get(&format!("{ORCHESTRATOR}/jobs/{id}/logs")).await;
    assert_eq!(logs.text().await.expect("its logs"), format!("{line}\n"));
    let archive = good.get(&kept.path).await.bytes().await.expect("the archive");
    assert!(archive == kept.archive, "the archive is another");
    for path in [
        format!("{ORCHESTRATOR}/jobs?namespace=good&limit=5"),
        format!("{ORCHESTRATOR}/events?since=0"),
        format!("{ORCHESTRATOR}/changes"),
        "/".to_owned(),
    ] {
        drop(good.get(&path).await);
    }
    // Large enough that it takes memory from the pool, and a turn.
    let mut large = small(image, "not run");
    large["Meta"] = json!({ "padding": "x".repeat(100_000) });
    large["Namespace"] = json!(good.namespace);
    let dry = good.request(Method::PUT, &format!("{ORCHESTRATOR}/jobs?dry_run"));
    let dry = dry.timeout(SERVED_WITHIN).json(&json!({ "Job": large })).send().await;
    let status = dry.expect("an answer").status();
    assert!(status.is_success(), "a large submission: {status}");
    took
}

/// Waits until nothing of a hostile namespace is left except the task whose log it follows.
async fn settle(cluster: &Cluster, attackers: &[Arc<Attacker>]) {
    for attacker in attackers {
        let query = JobsQuery {
            namespace: Some(attacker.namespace().to_owned()),
            state: Some("Pending,Queued,Running".to_owned()),
            ..JobsQuery::default()
        };
        eventually_within(SETTLED_WITHIN, "the attacks are over", async || {
            let left = cluster.client().list_jobs(&query).await.expect("a page").jobs.len();
            if left <= 1 { Ok(()) } else { Err(format!("{left} jobs are left")) }
        })
        .await;
    }
}

async fn assert_nodes_stayed_well(cluster: &Cluster) {
    let query = NodeHistoryQuery::default();
    for agent in &cluster.agents {
        let history = cluster.client().node_history(agent.node_id(), &query).await;
        for event in history.expect("its history").history {
            let became = event.node_state.expect("a change of the node").new;
            assert_ne!(became, NodeStateType::BackingOff, "a node backed off");
            assert_ne!(became, NodeStateType::Disconnected, "a node fell silent");
        }
    }
}

/// `jobctl audit verify` follows both chains, and that of changes to its first record.
fn assert_changes_reach_back(cluster: &Cluster) {
    let data = cluster.orchestrator.data_dir();
    let verified = Command::new(binary("jobctl"))
        .env_clear()
        .env("HOME", data)
        .env("JOBCTL_URL", cluster.orchestrator.base_url())
        .env("JOBCTL_CA", data.join("ca.crt"))
        .env("JOBCTL_TOKEN_FILE", data.join("admin.token"))
        .args(["audit", "verify"])
        .output()
        .expect("it starts");
    let [printed, complaint] =
        [&verified.stdout, &verified.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(verified.status.success() && complaint.is_empty(), "{printed}{complaint}");
    assert!(printed.starts_with("changes: records 1 to "), "{printed}");
    assert!(printed.contains("\nrest: records 1 to "), "{printed}");
}

/// The attackers met the bounds of what they share with the good namespace, which never did.
async fn assert_shares_held(cluster: &Cluster, good: &Tenant, attackers: &[Arc<Attacker>]) {
    let token = std::fs::read_to_string(cluster.orchestrator.data_dir().join("admin.token"));
    let admin = Tenant { token: token.expect("a token").trim().to_owned(), ..good.clone() };
    let metrics = admin.get("/metrics").await.text().await.expect("its metrics");
    let refused = |pool: &str, namespace: &str| {
        let begin =
            format!(r#"orchestrator_pool_refusals_total{{pool="{pool}",refused="{namespace}""#);
        metrics.contains(&begin)
    };
    for pool in ["node_stream", "log_reader", "event_stream"] {
        for attacker in attackers {
            assert!(refused(pool, attacker.namespace()), "{pool}: {metrics}");
        }
        assert!(!refused(pool, good.namespace), "{pool}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hostile_namespaces_take_nothing_from_a_good_one() {
    let agent = || AgentSpec::new().engines("docker,wasm").cpu("16").memory("16GB");
    let spec = ClusterSpec::new().protected().agent(agent()).agent(agent());
    let Some(cluster) = spec.start().await else { return };
    let image = cluster.image.clone();
    let good = Tenant::create(&cluster, "good", 1).await.remove(0);
    let counts = Arc::new(Counts::default());
    let clients = attacks::clients();
    let mut attackers = Vec::new();
    for namespace in ["bad", "worse"] {
        let tenants = Tenant::create(&cluster, namespace, TOKENS).await;
        attackers.push(Arc::new(Attacker::prepare(&cluster, tenants, &counts).await));
    }

    // What the good namespace has before the attacks, it has after them.
    let (kept_job, kept, _) = good.run(publishing(&image, 1)).await;
    let path = format!("{ORCHESTRATOR}/executions/{}/results", kept["ID"].as_str().expect("an ID"));
    let archive = good.get(&path).await.bytes().await.expect("the archive").to_vec();
    let kept = Publication { path, archive };

    let mut times = Times::default();
    for _ in 0..ROUNDS {
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for _ in 0..ALONE {
            pace.tick().await;
            let took = as_ever(&good, &image, &kept, times.count()).await;
            times.alone.push(took);
        }
        let mut running = JoinSet::new();
        for attacker in attackers.iter().map(Arc::clone) {
            running.spawn_on(async move { attacker.attack().await }, clients.handle());
        }
        let begin = Instant::now();
        while begin.elapsed() < duration() / ROUNDS {
            pace.tick().await;
            let took = as_ever(&good, &image, &kept, times.count()).await;
            times.attacked.push(took);
            assert!(running.try_join_next().is_none(), "an attack failed");
        }
        running.shutdown().await;
        settle(&cluster, &attackers).await;
    }
    let (accepted, refused) = counts.accepted_and_refused();
    let (alone, attacked) = times.medians();
    eprintln!("alone {alone:?}, attacked {attacked:?}; {accepted} accepted, {refused} refused");
    assert!(refused > 20, "the attacks were no attacks: {refused} refused of {accepted}");
    assert!(attacked.start <= alone.start.max(NOISE) * 2, "{attacked:?}, {alone:?} alone");
    assert!(attacked.end <= alone.end.max(NOISE) * SLOWER, "{attacked:?}, {alone:?} alone");
    clients.shutdown_background();

    as_ever(&good, &image, &kept, usize::MAX).await;
    let logs = good.get(&format!("{ORCHESTRATOR}/jobs/{kept_job}/logs")).await;
    assert_eq!(logs.text().await.expect("its logs"), "wrote 1 MB\n");
    assert_nodes_stayed_well(&cluster).await;
    assert_changes_reach_back(&cluster);
    assert_shares_held(&cluster, &good, &attackers).await;
}
