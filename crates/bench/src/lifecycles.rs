//! Full lifecycles of executions that do nothing, which measure only the service.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::bail;
use api_types::Timestamp;
use orchestrator::clock;
use serde_json::{Value, json};

use super::load::{self, Connection, Until, put};
use super::measure::{Measure, Target, median, millis, rate};
use super::scale::Scale;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, noop};

const AGENTS: usize = 4;

/// Time limit, for the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Interval between checks whether all jobs have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Time without requests while a job starts on an idle cluster: polling would use a core that the
/// daemons need.
const QUIET_TIME: Duration = Duration::from_millis(20);

/// Connections that submit jobs with one execution.
const CONNECTIONS: u32 = 64;

/// Events in the history of one execution.
const EVENTS_PER_EXECUTION: usize = 6;

/// Rates of the peer on two such cores: HyperQueue with one array of empty tasks, and with single
/// jobs from its command line.
const PEER_ARRAY: f64 = 2330.0;
const PEER_SINGLE: f64 = 70.0;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let mut spec = ClusterSpec::new();
    for _ in 0..AGENTS {
        spec = spec.agent(AgentSpec::new().engines("noop").cpu("1000").memory("4000GB"));
    }
    let cluster = spec.start_without_docker().await;
    let address = cluster.orchestrator.address();
    let mut watcher = Connection::open(address).await?;

    let begin = Instant::now();
    let mut job = noop();
    job["Count"] = json!(1000);
    load::run(address, 4, Until::Requests(scale.thousands), body_of(&job)).await?;
    wait_until_all_ended(&mut watcher).await?;
    let thousands = rate(scale.thousands * 1000, begin.elapsed());

    let begin = Instant::now();
    load::run(address, CONNECTIONS, Until::Requests(scale.ones), body_of(&noop())).await?;
    wait_until_all_ended(&mut watcher).await?;
    let ones = rate(scale.ones, begin.elapsed());

    check_history(&cluster).await?;
    let mut measures = vec![
        Measure::new(
            format!("full lifecycles of noop executions, {} jobs of 1,000", scale.thousands),
            (thousands, "/s"),
            Target::AtLeast(5000.0),
            format!("{:.1} times the peer's {PEER_ARRAY}/s", thousands / PEER_ARRAY),
        ),
        Measure::new(
            format!("full lifecycles of noop executions, {} jobs of 1", scale.ones),
            (ones, "/s"),
            Target::AtLeast(2000.0),
            format!("{:.0} times the peer's {PEER_SINGLE}/s", ones / PEER_SINGLE),
        ),
    ];
    measures.push(starts(&cluster, address, scale).await?);
    Ok(measures)
}

fn body_of(job: &Value) -> Vec<u8> {
    put(api_types::routes::JOBS, &json!({ "Job": job }).to_string())
}

/// Waits until no job is live.
pub(super) async fn wait_until_all_ended(watcher: &mut Connection) -> anyhow::Result<()> {
    let path =
        format!("{}?namespace=*&limit=1&state=Pending,Queued,Running", api_types::routes::JOBS);
    let begin = Instant::now();
    loop {
        let (status, body) = watcher.get(&path).await?;
        let page: Value = serde_json::from_slice(body)?;
        if status != 200 {
            bail!("{page}");
        }
        if page["Jobs"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        if begin.elapsed() > TIMEOUT {
            bail!("jobs are still live after {TIMEOUT:?}: {page}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Checks that the service did all of the work: an execution has its complete history.
async fn check_history(cluster: &Cluster) -> anyhow::Result<()> {
    let id = cluster.submit(&noop()).await;
    cluster.wait_for_job(id, api_types::job::JobStateType::Completed).await;
    let query = api_client::HistoryQuery {
        event_type: Some("execution".to_owned()),
        ..api_client::HistoryQuery::default()
    };
    let events = cluster.history(id, &query).await;
    if events.len() != EVENTS_PER_EXECUTION {
        bail!("an execution has {} events: {events:?}", events.len());
    }
    Ok(())
}

/// Measures the time from sending a submission to the start of the process in its history.
async fn starts(cluster: &Cluster, address: SocketAddr, scale: Scale) -> anyhow::Result<Measure> {
    let mut connection = Connection::open(address).await?;
    let (mut trips, mut starts) = (Vec::new(), Vec::new());
    let request = body_of(&noop());
    for _ in 0..scale.fast_samples {
        let sent = Instant::now();
        connection.get("/livez").await?;
        trips.push(sent.elapsed());
        let sent = clock::now();
        let (_, body) = connection.send(&request).await?;
        let answer: Value = serde_json::from_slice(body)?;
        let id = answer["JobID"].as_str().unwrap_or_default().parse()?;
        tokio::time::sleep(QUIET_TIME).await;
        cluster.wait_for_job(id, api_types::job::JobStateType::Completed).await;
        let executions = cluster.executions(id).await;
        let events = cluster.history(id, &api_client::HistoryQuery::default()).await;
        let started = events
            .iter()
            .find(|event| {
                let state = event.execution_state.as_ref();
                state.is_some_and(|state| u8::from(state.new) == 5)
            })
            .and_then(|event| Timestamp::parse(&event.time));
        match started {
            Some(started) => starts.push(started.since(sent)),
            None => bail!("no start in the history of {executions:?}"),
        }
    }
    let context = format!("one loopback round trip {:.2} ms", millis(median(&mut trips)));
    Ok(Measure::new(
        "submit → process start, noop, idle, median",
        (millis(median(&mut starts)), "ms"),
        Target::AtMost(5.0),
        context,
    ))
}
