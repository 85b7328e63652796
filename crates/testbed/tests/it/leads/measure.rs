//! How long a fault keeps clients from being served, as they see it.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api_types::JobId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::harness::{Cluster, eventually, noop};

/// How often each row is measured; `just chaos` sets five.
const RUNS_VARIABLE: &str = "FAULT_RUNS";

/// Interval between the submissions of a client that waits for the first acknowledgement.
const ATTEMPT_EVERY: Duration = Duration::from_millis(50);

/// How long a client waits for one of them: a process that stands still never responds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long any client waits for a response: longer than a follower holds a connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a client keeps trying.
const SERVED_WITHIN: Duration = Duration::from_secs(120);

/// A submission that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) key: String,
    pub(crate) id: JobId,
}

/// Why a submission was not acknowledged.
#[derive(Debug)]
#[expect(dead_code, reason = "a failing test prints it")]
pub(crate) enum Refusal {
    /// Nothing came back, or only a part.
    NoAnswer(String),
    Status {
        status: StatusCode,
        body: String,
    },
}

/// Runs a row of the table of faults, prints the median and the worst of what it takes, and checks
/// the worst. Without what it needs, a run returns none.
pub(crate) async fn row(name: &str, bound: Duration, run: impl AsyncFn() -> Option<Duration>) {
    let runs = std::env::var(RUNS_VARIABLE).map_or(1, |runs| runs.parse().expect("a number"));
    let mut took = Vec::new();
    for _ in 0..runs {
        let Some(run) = run().await else { return };
        took.push(run);
    }
    took.sort();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    // Bypasses the test harness, which captures the output of passing tests.
    let _ = writeln!(
        std::io::stderr(),
        "{name:<58} {runs:>3} runs   median {:>6.2} s   worst {:>6.2} s   at most {:>3} s",
        median.as_secs_f64(),
        worst.as_secs_f64(),
        bound.as_secs(),
    );
    assert!(worst <= bound, "{name}: {took:?}, at most {bound:?}");
}

/// A client without connections to reuse, which a fault may have broken.
pub(crate) fn http() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    client.timeout(RESPONSE_TIMEOUT).build().expect("make a client")
}

/// One submission to this URL.
pub(crate) async fn submit(
    http: &reqwest::Client,
    base_url: &str,
    job: &Value,
    key: &str,
) -> Result<Acknowledged, Refusal> {
    let no_answer = |error: reqwest::Error| Refusal::NoAnswer(error.to_string());
    let request = http
        .put(format!("{base_url}/api/v1/orchestrator/jobs"))
        .header("Idempotency-Key", key)
        .json(&json!({ "Job": job }));
    let response = request.send().await.map_err(no_answer)?;
    let status = response.status();
    let body = response.text().await.map_err(no_answer)?;
    if status != StatusCode::OK {
        return Err(Refusal::Status { status, body });
    }
    let body: Value = serde_json::from_str(&body).expect("a response is JSON");
    let id = body["JobID"].as_str().and_then(|id| id.parse().ok()).expect("it has the job");
    Ok(Acknowledged { key: key.to_owned(), id })
}

/// From `since` until a submission is acknowledged that began later, by any orchestrator.
pub(crate) async fn served_again(cluster: &Cluster, since: Instant) -> Duration {
    acknowledged_since(cluster, since).await.0
}

/// The same with what was acknowledged.
pub(crate) async fn acknowledged_since(
    cluster: &Cluster,
    since: Instant,
) -> (Duration, Acknowledged) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = format!("served-again-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let (http, job) = (http(), noop());
    let urls: Vec<_> = (0..cluster.orchestrators())
        .map(|number| cluster.orchestrator_at(number).base_url().to_owned())
        .collect();
    let attempt = |url: String| {
        let (http, job, key) = (&http, &job, &key);
        tokio::time::timeout(ATTEMPT_TIMEOUT, async move { submit(http, &url, job, key).await })
    };
    let mut under_way = FuturesUnordered::new();
    let mut attempts = tokio::time::interval(ATTEMPT_EVERY);
    let mut seen = String::new();
    while since.elapsed() < SERVED_WITHIN {
        tokio::select! {
            _ = attempts.tick() => under_way.extend(urls.iter().cloned().map(attempt)),
            Some(ended) = under_way.next() => match ended {
                Ok(Ok(acknowledged)) => {
                    let took = since.elapsed();
                    entrance_leads_there(cluster).await;
                    return (took, acknowledged);
                }
                Ok(Err(refusal)) => seen = format!("{refusal:?}"),
                Err(_) => {}
            }
        }
    }
    panic!("no submission is acknowledged within {SERVED_WITHIN:?}; last seen: {seen}");
}

/// The entrance of the cluster learns of a takeover a moment later than a client of each orchestrator.
async fn entrance_leads_there(cluster: &Cluster) {
    let (http, url) = (http(), format!("{}/api/v1/orchestrator/jobs", cluster.client().base_url()));
    eventually("the entrance leads to the orchestrator that serves", async || {
        let response = http.get(&url).query(&[("limit", 1)]).timeout(ATTEMPT_TIMEOUT).send().await;
        match response {
            Ok(response) if response.status() != StatusCode::SERVICE_UNAVAILABLE => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Some jobs, each acknowledged.
pub(crate) async fn submit_some(cluster: &Cluster, count: usize) -> Vec<Acknowledged> {
    let http = http();
    let mut acknowledged = Vec::new();
    for number in 0..count {
        let key = format!("before-{number}");
        let submitted = submit(&http, cluster.client().base_url(), &noop(), &key).await;
        acknowledged.push(submitted.expect("an orchestrator leads"));
    }
    acknowledged
}

/// Each acknowledged job exists once: its key leads to it, and no other has it.
pub(crate) async fn exist_once(cluster: &Cluster, acknowledged: &[Acknowledged]) {
    let http = http();
    for one in acknowledged {
        let again = submit(&http, cluster.client().base_url(), &noop(), &one.key).await;
        assert_eq!(&again.expect("an orchestrator leads"), one);
    }
    let session = cluster.store().direct().session().await.expect("the database answers");
    for one in acknowledged {
        let id = one.id.to_string();
        let jobs = cluster.client().describe_job(&id).await;
        assert_eq!(jobs.expect("the job exists").id.to_string(), id);
    }
    let rows = session.query_one("SELECT count(*), count(DISTINCT id) FROM job", &[]).await;
    let rows = rows.expect("the database answers");
    let (jobs, ids): (i64, i64) = (rows.get(0), rows.get(1));
    assert_eq!(jobs, ids);
}
