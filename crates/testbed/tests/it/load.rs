//! Many nodes under full load: no lease ends while its agent is well.
//!
//! The agents are simulated and speak the real protocol. `just load` has the full size, with the
//! release programs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api_client::{Client, NodeHistoryQuery};
use api_types::Code;
use futures_util::future::join_all;
use serde_json::{Value, json};
use telemetry::metrics::Exposed;
use testbed::fleet::{Fleet, FleetSpec, Statistics, held};
use testbed::harness::{Cluster, ClusterSpec, eventually, eventually_within, noop};

/// Number of agents, of live executions, and how long they are under load.
const AGENTS_VARIABLE: &str = "LOAD_AGENTS";
const EXECUTIONS_VARIABLE: &str = "LOAD_EXECUTIONS";
const SECONDS_VARIABLE: &str = "LOAD_SECONDS";

/// What a long test takes if the variables are not set.
const AGENTS: u64 = 200;
const EXECUTIONS: u64 = 20_000;
const SECONDS: u64 = 60;

/// Tasks for which an agent has capacity in addition to those that it holds.
const SPARE_TASKS: u32 = 4;

/// Connections that submit jobs.
const SUBMITTERS: usize = 32;

/// Short jobs in flight: more than the agents run, so that there is always one to place.
const UNDER_WAY: u64 = 5000;

/// Pause of a submitter while enough jobs are under way; a job takes longer.
const PAUSE: Duration = Duration::from_millis(2);

/// Interval of the requests that are full of regular expressions.
const HOSTILE_INTERVAL: Duration = Duration::from_secs(1);

/// Takes a second and more to compile where nothing bounds it.
const HOSTILE: &str = r"(\pL{99}){99}";

/// The default.
const LEASE: Duration = Duration::from_secs(10);

/// Finished jobs to keep, so that ten minutes of load do not fill the disk.
const KEPT_JOBS: &str = "10000";

/// Time limit until all held executions run, for the slowest machine.
const STARTED_WITHIN: Duration = Duration::from_secs(300);

/// Executions of a held job.
const HELD_AT_ONCE: u64 = 1000;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A body whose inputs are filtered by as many hostile expressions as a job may have inputs.
fn hostile() -> String {
    let mut job = noop();
    let inputs = (0..64).map(|number| {
        let params = json!({ "Bucket": "b", "Key": "k/", "Region": "r", "Filter": HOSTILE });
        json!({
            "Source": { "Type": "s3", "Params": params },
            "Target": format!("/in/{number}"), "Alias": format!("in{number}"),
        })
    });
    job["Tasks"][0]["InputSources"] = inputs.collect::<Value>();
    json!({ "Job": job }).to_string()
}

/// Submits short jobs as fast as they are accepted and completed.
async fn submit(client: &Client, submitted: &AtomicU64, fleet: &Statistics) {
    let body = json!({ "Job": noop() }).to_string();
    loop {
        let completed = fleet.completed.load(Ordering::Relaxed);
        if submitted.load(Ordering::Relaxed).saturating_sub(completed) >= UNDER_WAY {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        match client.create_job_raw(body.clone().into(), None).await {
            Ok(_) => drop(submitted.fetch_add(1, Ordering::Relaxed)),
            Err(error) if error.is_transient() => tokio::time::sleep(PAUSE).await,
            Err(error) => panic!("a job was refused: {error}"),
        }
    }
}

/// Sends the hostile job every second; counts how often it was refused.
async fn attack(client: &Client, refused: &AtomicU64) {
    let body = hostile();
    let mut due = tokio::time::interval(HOSTILE_INTERVAL);
    loop {
        due.tick().await;
        let error = client.create_job_raw(body.clone().into(), None).await.expect_err("refused");
        assert!(error.code() == Some(Code::InvalidJob) || error.is_transient(), "{error}");
        refused.fetch_add(1, Ordering::Relaxed);
    }
}

async fn all_run(fleet: &Fleet, expected: u64) {
    eventually_within(STARTED_WITHIN, "all held executions run", async || {
        match fleet.statistics.running.load(Ordering::Relaxed) {
            running if running == expected => Ok(()),
            running => Err(format!("{running} run")),
        }
    })
    .await;
}

async fn metrics(cluster: &Cluster) -> Exposed {
    let http = reqwest::Client::builder().no_proxy().build().expect("make a client");
    let url = format!("{}/metrics", cluster.client().base_url());
    let response = http.get(url).send().await.expect("a response");
    Exposed::read(&response.text().await.expect("a whole body"))
}

/// No node was ever anything but connected, and no execution failed. An offer that the fleet, which
/// is as short of CPU as all others, has not answered for 15 s is taken back and made again; that
/// loses nothing.
async fn assert_nothing_was_lost(cluster: &Cluster, spec: FleetSpec, statistics: &Statistics) {
    let metrics = metrics(cluster).await;
    let ended = |state| metrics.sum("orchestrator_execution_ends_total", &[("state", state)]);
    let silence = Fleet::nodes(spec).map(|node| statistics.longest_silence(node)).max();
    let silence = silence.expect("there are nodes");
    eprintln!("{} offers taken back, no agent silent beyond {silence:.1?}", ended("cancelled"));
    assert!(silence < LEASE, "the machine is too busy for the fleet: silent for {silence:?}");
    assert_eq!(metrics.sum("orchestrator_lease_ends_total", &[]), 0.0, "leases ended");
    for state in ["failed", "declined", "withdrawn"] {
        assert_eq!(ended(state), 0.0, "executions {state}");
    }
    for node in Fleet::nodes(spec) {
        let query = NodeHistoryQuery::default();
        let history = cluster.client().node_history(node, &query).await.expect("it is known");
        let lost = history.history.iter().find(|event| event.comment.starts_with("its lease"));
        assert!(lost.is_none(), "{node}: {lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long"]
async fn no_lease_ends_by_mistake_under_full_load() {
    let agents = number(AGENTS_VARIABLE, AGENTS);
    let executions = number(EXECUTIONS_VARIABLE, EXECUTIONS);
    let window = Duration::from_secs(number(SECONDS_VARIABLE, SECONDS));
    let per_agent = u32::try_from(executions.div_ceil(agents)).expect("a few") + SPARE_TASKS;
    let agents = u32::try_from(agents).expect("thousands");
    let spec = FleetSpec { agents, tasks_per_agent: per_agent, ..FleetSpec::default() };
    let cluster = ClusterSpec::new()
        .setting("ORCHESTRATOR_JOB_RETENTION_COUNT", KEPT_JOBS)
        .start_without_agents()
        .await;
    let mut fleet = Fleet::start(cluster.client(), spec).expect("start the fleet");
    for _ in 0..executions / HELD_AT_ONCE {
        cluster.submit(&held(HELD_AT_ONCE)).await;
    }
    let expected = executions / HELD_AT_ONCE * HELD_AT_ONCE;
    all_run(&fleet, expected).await;

    let (submitted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let (client, statistics) = (cluster.client(), &fleet.statistics);
    let before = statistics.heartbeats.load(Ordering::Relaxed);
    let began = Instant::now();
    tokio::select! {
        _ = join_all((0..SUBMITTERS).map(|_| submit(client, &submitted, statistics))) => {}
        () = attack(client, &refused) => {}
        () = tokio::time::sleep(window) => {}
    }
    let took = began.elapsed().as_secs_f64();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = |count: u64| count as f64 / took;
    eprintln!(
        "{agents} agents, {expected} held executions, {took:.0} s: {:.0} jobs/s submitted, {:.0}/s \
         completed, {} hostile jobs refused, {:.1} heartbeats/s, {} of them late, {} failed, the \
         slowest after {:.0} ms",
        rate(of(&submitted)),
        rate(of(&statistics.completed)),
        of(&refused),
        rate(of(&statistics.heartbeats) - before),
        of(&statistics.late),
        of(&statistics.failed),
        Duration::from_micros(of(&statistics.slowest_us)).as_secs_f64() * 1000.0,
    );
    fleet.check().expect("every agent has its session");
    assert!(of(&fleet.statistics.completed) > 0 && of(&refused) > 0, "there was no load");
    assert_nothing_was_lost(&cluster, spec, &fleet.statistics).await;
}

/// A fleet of ten agents holds a job of thousands of executions, which is stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_job_is_stopped_while_other_requests_are_answered() {
    const EXECUTIONS: u64 = 5000;
    /// Hundreds of turns: a machine that runs other tests keeps a request waiting for a second.
    const MOST: Duration = Duration::from_secs(5);
    let spec = FleetSpec { agents: 10, tasks_per_agent: 500, ..FleetSpec::default() };
    let cluster = ClusterSpec::new().start_without_agents().await;
    let fleet = Fleet::start(cluster.client(), spec).expect("start the fleet");
    let id = cluster.submit(&held(EXECUTIONS)).await;
    all_run(&fleet, EXECUTIONS).await;

    cluster.client().stop_job(id, "").await.expect("it is stopped");
    let mut slowest = Duration::ZERO;
    eventually("every execution has ended", async || {
        let began = Instant::now();
        let counts = cluster.client().describe_cluster().await.expect("an answer").executions;
        cluster.submit(&noop()).await;
        slowest = slowest.max(began.elapsed());
        if counts.running == 0 { Ok(()) } else { Err(counts.running.to_string()) }
    })
    .await;
    eprintln!("the slowest read and submission took {slowest:?}");
    assert!(slowest < MOST, "{slowest:?}");
}
