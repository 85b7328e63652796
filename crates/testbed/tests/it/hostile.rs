//! Inputs, modules, trees and requests that want all of a machine: each costs its own execution and a
//! bounded amount of memory, and no other execution, no lease and no daemon.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api_client::{NodeHistoryQuery, NodesQuery};
use api_types::JobId;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use peers::hostile::{archive_of_a_long_name, endless_references};
use peers::s3;
use serde_json::{Value, json};
use testbed::harness::{Cluster, ClusterSpec, batch, eventually_within};

use crate::programs;
use crate::sources::s3_agent;

/// What a hostile input may take of a node's memory.
const MEMORY_BYTES: u64 = 300_000_000;

/// A compiler has a minute of a processor, which it may have to share.
const ENDED_WITHIN: Duration = Duration::from_secs(300);

/// Interval between two samples of the memory in use. A process keeps its own peak; one that ends in
/// between is missed by less than what it takes in this time.
const SAMPLED_EVERY: Duration = Duration::from_millis(10);

/// Interval between two submissions of regular expressions.
const FLOODED_EVERY: Duration = Duration::from_millis(250);

/// The most memory that processes had, until it is asked.
struct Sampler {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<BTreeMap<u32, (String, u64)>>,
}

/// A job with this input at `/in`.
fn with_input(cluster: &Cluster, kind: &str, params: &Value) -> Value {
    let mut job = batch(&cluster.image, &["echo", "it ran"]);
    job["Tasks"][0]["InputSources"] =
        json!([{ "Source": { "Type": kind, "Params": params }, "Target": "/in" }]);
    job
}

/// A job whose results are nested deeper than any path is long.
fn nested(cluster: &Cluster) -> Value {
    let mut job = batch(&cluster.image, &["nest", "/out", "18000"]);
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "out", "Path": "/out" }]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Disk": "10MB" });
    job
}

/// A job whose input is filtered by an expression that takes a second and more to compile.
fn filtering(cluster: &Cluster) -> Value {
    let input = |number: usize| {
        let params =
            json!({ "Bucket": "b", "Key": "k/", "Region": "r", "Filter": r"(\pL{99}){99}" });
        json!({
            "Source": { "Type": "s3", "Params": params },
            "Target": format!("/in/{number}"), "Alias": format!("in{number}"),
        })
    };
    let mut job = batch(&cluster.image, &["echo"]);
    job["Tasks"][0]["InputSources"] = (0..64).map(input).collect();
    json!({ "Job": job })
}

/// The first execution of the job that failed; there may be more tries.
async fn failed(cluster: &Cluster, id: JobId) -> Execution {
    eventually_within(
        ENDED_WITHIN,
        &format!("an execution of {} to fail", id.short()),
        async || {
            let all = cluster.executions(id).await;
            let waiting = cluster.client().explain_job(id).await.map(|it| format!("{it:?}"));
            let is_failed = |it: &Execution| it.compute_state.state_type == ComputeState::Failed;
            all.into_iter().find(is_failed).ok_or(waiting.unwrap_or_default())
        },
    )
    .await
}

/// Sends jobs full of regular expressions until it is told to stop; returns how long the slowest
/// other request took in between.
async fn flood(cluster: &Cluster, stop: &AtomicBool) -> Duration {
    let body = filtering(cluster).to_string();
    let mut slowest = Duration::ZERO;
    let mut pace = tokio::time::interval(FLOODED_EVERY);
    while !stop.load(Ordering::Relaxed) {
        pace.tick().await;
        let other = async {
            let begin = Instant::now();
            cluster.client().list_nodes(&NodesQuery::default()).await.expect("the nodes");
            begin.elapsed()
        };
        let refused = cluster.client().create_job_raw(body.clone().into(), None);
        let (refused, took) = tokio::join!(refused, other);
        assert!(refused.is_err(), "it was accepted: {refused:?}");
        slowest = slowest.max(took);
    }
    slowest
}

/// The parent of every process.
fn parents() -> BTreeMap<u32, u32> {
    let parent = |path: &Path| -> Option<(u32, u32)> {
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let fields = stat.rsplit_once(')')?.1;
        Some((pid, fields.split_whitespace().nth(1)?.parse().ok()?))
    };
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes.filter_map(|process| parent(&process.path())).collect()
}

/// The peak of a process's memory, without what it shares of files such as its own program.
fn peak_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
    };
    Some(bytes("VmHWM:")?.saturating_sub(bytes("RssFile:")?))
}

// === impl Sampler ===

impl Sampler {
    /// Of these processes and all that they start.
    fn start(roots: Vec<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut peaks: BTreeMap<u32, (String, u64)> = BTreeMap::new();
            while !told.load(Ordering::Relaxed) {
                let parents = parents();
                for pid in parents.keys().copied() {
                    let mut ancestors =
                        std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
                    if !ancestors.any(|pid| roots.contains(&pid)) {
                        continue;
                    }
                    let Some(peak) = peak_bytes(pid) else { continue };
                    let name = fs::read_to_string(format!("/proc/{pid}/cmdline"));
                    let entry = peaks.entry(pid).or_default();
                    entry.1 = entry.1.max(peak);
                    if let Ok(name) = name.map(|name| name.replace('\0', " "))
                        && !name.is_empty()
                    {
                        entry.0 = name;
                    }
                }
                std::thread::sleep(SAMPLED_EVERY);
            }
            peaks
        });
        Self { stop, thread }
    }

    fn peaks(self) -> BTreeMap<u32, (String, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sampler does not panic")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_inputs_cost_their_own_execution_and_little_memory() {
    let shared = tempfile::tempdir().expect("a directory");
    let below = shared.path().join("data/sub");
    fs::create_dir_all(&below).expect("a directory");
    let (stray, references, listing) = (
        s3::listing(&["elsewhere/owned", "/tmp/owned"]).await,
        endless_references().await,
        s3::endless_listing().await,
    );
    let agent = s3_agent(&format!("{},{}", stray.url, listing.url))
        .engines("docker,wasm")
        .cpu("32")
        .setting("COMPUTE_AGENT_ALLOW_LOCAL_PATHS", &shared.path().display().to_string());
    let Some(cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let mut writer = batch(&cluster.image, &["sleep", "600"]);
    let input = |path: PathBuf, writes: bool| {
        let params = json!({ "SourcePath": path.display().to_string(), "ReadWrite": writes });
        json!([{ "Source": { "Type": "localdirectory", "Params": params }, "Target": "/in" }])
    };
    writer["Tasks"][0]["InputSources"] = input(shared.path().join("data"), true);
    let writer = cluster.submit(&writer).await;
    let others = cluster.wait_for_execution(writer, ComputeState::BidAccepted).await;
    let daemons =
        [&*cluster.orchestrator, &*cluster.agents[0]].map(|it| it.pid().expect("it runs"));
    let sampler = Sampler::start(daemons.to_vec());

    let bucket = |server: &peers::Serving, key: &str| json!({ "Bucket": "b", "Key": key, "Endpoint": server.url, "Region": "us-east-1" });
    let mut swapped = batch(&cluster.image, &["echo", "it ran"]);
    swapped["Tasks"][0]["InputSources"] = input(below, false);
    let hostile = [
        ("a key outside its prefix", with_input(&cluster, "s3", &bucket(&stray, "data/*"))),
        ("a directory that a task may swap", swapped),
        ("18,000 nested directories", nested(&cluster)),
        (
            "a name of 4 GiB",
            with_input(&cluster, "inline", &json!({ "URL": archive_of_a_long_name() })),
        ),
        ("a module that explodes", programs::job(&programs::bomb())),
        ("a listing without end", with_input(&cluster, "s3", &bucket(&listing, "data/*"))),
        (
            "references without end",
            with_input(
                &cluster,
                "repoclone",
                &json!({ "Repo": format!("{}/r.git", references.url) }),
            ),
        ),
    ];
    let mut submitted = Vec::new();
    for (what, job) in &hostile {
        submitted.push((what, cluster.submit(job).await));
    }
    let stop = AtomicBool::new(false);
    let ends = async {
        let mut ends = Vec::new();
        for (what, id) in &submitted {
            ends.push((what, failed(&cluster, *id).await.compute_state.message));
            cluster.client().stop_job(id, "seen").await.ok();
        }
        stop.store(true, Ordering::Relaxed);
        ends
    };
    let (ends, slowest) = tokio::join!(ends, flood(&cluster, &stop));
    let peaks = sampler.peaks();
    for (what, message) in &ends {
        eprintln!("{what}: {message}");
    }
    for (name, bytes) in peaks.values().filter(|(_, bytes)| *bytes > MEMORY_BYTES / 10) {
        eprintln!("{} MB at most: {:.60}", bytes / 1_000_000, name);
    }
    eprintln!("the slowest other request took {slowest:?}");

    for (name, bytes) in peaks.values() {
        assert!(*bytes <= MEMORY_BYTES, "{bytes} bytes: {name}");
    }
    assert!(!Path::new("/tmp/owned").exists(), "a listing made a file where it wanted");
    let now = cluster.execution(writer).await;
    assert_eq!((now.id, now.revision), (others.id, others.revision), "another execution moved");
    assert_eq!(now.compute_state.state_type, ComputeState::BidAccepted);
    let node = cluster.agents[0].node_id();
    let history = cluster.client().node_history(node, &NodeHistoryQuery::default()).await;
    let events = format!("{:?}", history.expect("its history").history);
    assert!(!events.contains("lease ended"), "a lease ended: {events}");
    assert_eq!((cluster.orchestrator.crashes(), cluster.agents[0].crashes()), (0, 0));
    assert_eq!(
        [&*cluster.orchestrator, &*cluster.agents[0]].map(|it| it.pid().expect("it runs")),
        daemons
    );
    let next = cluster.submit(&batch(&cluster.image, &["echo", "as ever"])).await;
    cluster.wait_for_job(next, JobStateType::Completed).await;
}
