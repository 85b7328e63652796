//! What hostile namespaces do, with the rates of the review that first tried it.
//!
//! Two rates are lower than they were there, because the clients share the machine with the cluster:
//! what an attack costs its sender must not decide the result. They are marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use testbed::harness::{Cluster, batch};
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::tenant::{ORCHESTRATOR, Tenant, client, publishing};

/// Streams of events and of changes that one token opens. The review opened 512.
const STREAMS: usize = 512;

/// Archives that one token begins to download, and does not read.
const DOWNLOADS: usize = 64;

/// Logs that one token follows.
const LOG_READERS: usize = 64;

/// Bodies that do not end. The review sent 27.
const UNFINISHED: usize = 30;

/// Bytes of such a body that arrive: less than an open operation accepts.
const BEGINNING: usize = 20_000;

/// Pairs of brackets in a body of 240 kB.
const NESTED: usize = 60_000;

/// Sign-ins of each hostile namespace per second. The review sent 1,244, which keeps more than two
/// cores busy with TLS and JSON in a debug build.
const SIGN_INS: u32 = 100;

/// Empty programs of one job, and the interval between such jobs. The review ran 1,010, one after the
/// other; each costs a process of a debug build.
const PROGRAMS: (u32, Duration) = (20, Duration::from_secs(10));

/// Jobs with bad parameters in a row, and the interval between those that follow.
const BAD_PARAMETERS: (usize, Duration) = (8, Duration::from_secs(10));

/// How long an attack waits after it was refused.
const AGAIN: Duration = Duration::from_secs(2);

/// Threads of the hostile clients.
const THREADS: usize = 2;

/// Priority of these threads.
const PRIORITY: i32 = 10;

/// Requests of the attacks so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    accepted: AtomicUsize,
    refused: AtomicUsize,
}

/// A hostile namespace, and what it has prepared.
pub(crate) struct Attacker {
    tenants: Vec<Tenant>,
    image: String,
    empty: Value,
    archive: String,
    logs: String,
    counts: Arc<Counts>,
}

/// Where the hostile clients run. Real ones have machines of their own: these must not take from the
/// cluster the processors that it shares with them here.
pub(crate) fn clients() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(THREADS).enable_all().on_thread_start(|| {
        // It concerns the calling thread alone. Without the privilege, it is as busy as any.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
    });
    builder.build().expect("a runtime")
}

// === impl Counts ===

impl Counts {
    pub(crate) fn accepted_and_refused(&self) -> (usize, usize) {
        (self.accepted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    fn count(&self, response: &reqwest::Result<Response>) {
        let is_accepted = response.as_ref().is_ok_and(|response| response.status().is_success());
        let counter = if is_accepted { &self.accepted } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

// === impl Attacker ===

impl Attacker {
    /// Publishes an archive to download, and starts a task whose log can be followed.
    pub(crate) async fn prepare(
        cluster: &Cluster,
        mut tenants: Vec<Tenant>,
        counts: &Arc<Counts>,
    ) -> Self {
        let image = cluster.image.as_str();
        let first = &tenants[0];
        let (_, published, _) = first.run(publishing(image, 20)).await;
        let id = published["ID"].as_str().expect("an ID");
        let archive = format!("{ORCHESTRATOR}/executions/{id}/results");
        let sleeping = first.submit(small(batch(image, &["sleep", "3600"]))).await;
        let sleeping: Value = sleeping.expect("an answer").json().await.expect("JSON");
        let id = sleeping["JobID"].as_str().expect("an ID");
        let logs = format!("{ORCHESTRATOR}/jobs/{id}/logs?follow");
        let module = wat::parse_str(r#"(module (func (export "_start")))"#).expect("a module");
        let empty = empty_programs(&module);
        // Connections belong to the runtime that opens them.
        let http = client(cluster);
        tenants.iter_mut().for_each(|tenant| tenant.http = http.clone());
        let (image, counts) = (image.to_owned(), Arc::clone(counts));
        Self { tenants, image, empty, archive, logs, counts }
    }

    pub(crate) fn namespace(&self) -> &'static str {
        self.tenants[0].namespace
    }

    /// Everything, with all tokens, until it is dropped.
    pub(crate) async fn attack(&self) {
        let [events, changes] = ["events", "changes"].map(|name| format!("{ORCHESTRATOR}/{name}"));
        let holding = join_all(self.tenants.iter().flat_map(|tenant| {
            [
                (&self.archive, DOWNLOADS),
                (&self.logs, LOG_READERS),
                (&events, STREAMS),
                (&changes, STREAMS),
            ]
            .map(|(path, most)| self.hold(tenant, path.clone(), most))
        }));
        let [first, second] = [&self.tenants[0], &self.tenants[1]];
        tokio::join!(
            holding,
            self.submit_bad_parameters(first),
            self.nest(first),
            self.nest(second),
            self.stall(first),
            self.sign_in(first),
            self.run_programs(first),
        );
    }

    /// Opens as much as is granted, again and again, and reads nothing of it.
    async fn hold(&self, tenant: &Tenant, path: String, most: usize) {
        let mut open = Vec::new();
        loop {
            while open.len() < most {
                let response = tenant.request(Method::GET, &path).send().await;
                self.counts.count(&response);
                match response {
                    Ok(response) if response.status().is_success() => open.push(response),
                    _ => break,
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Sends a body that takes long to parse.
    async fn nest(&self, tenant: &Tenant) {
        let yaml = "{a: ".repeat(NESTED);
        loop {
            let request = tenant.request(Method::PUT, &format!("{ORCHESTRATOR}/jobs"));
            let sent = request.header("Content-Type", "application/yaml").body(yaml.clone()).send();
            self.counts.count(&sent.await);
            sleep(AGAIN).await;
        }
    }

    /// Begins bodies that do not end, half of them without credentials.
    async fn stall(&self, tenant: &Tenant) {
        let session = format!("{}/api/v1/auth/session", tenant.url);
        loop {
            let bodies = (0..UNFINISHED).map(|number| {
                let request = if number % 2 == 0 {
                    tenant.request(Method::PUT, &format!("{ORCHESTRATOR}/jobs"))
                } else {
                    tenant.http.post(&session)
                };
                let first = stream::iter([Ok::<_, std::io::Error>(vec![b' '; BEGINNING])]);
                let body = reqwest::Body::wrap_stream(first.chain(stream::pending()));
                request.header("Content-Type", "application/json").body(body).send()
            });
            for response in join_all(bodies).await {
                self.counts.count(&response);
            }
        }
    }

    async fn sign_in(&self, tenant: &Tenant) {
        let mut pace = interval(Duration::from_secs(1) / SIGN_INS);
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let url = format!("{}/api/v1/auth/session", tenant.url);
        loop {
            pace.tick().await;
            let body = json!({ "Token": tenant.token });
            self.counts.count(&tenant.http.post(&url).json(&body).send().await);
        }
    }

    /// Empty programs: each leaves an output on its node.
    async fn run_programs(&self, tenant: &Tenant) {
        loop {
            self.counts.count(&tenant.submit(self.empty.clone()).await);
            sleep(PROGRAMS.1).await;
        }
    }

    /// Jobs that no node can run, and that must count against none.
    async fn submit_bad_parameters(&self, tenant: &Tenant) {
        let (burst, pause) = BAD_PARAMETERS;
        for (number, job) in bad_parameters(&self.image).iter().cycle().enumerate() {
            self.counts.count(&tenant.submit(job.clone()).await);
            if number >= burst {
                sleep(pause).await;
            }
        }
    }
}

/// The job, so that it needs almost nothing.
fn small(mut job: Value) -> Value {
    job["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "10m", "Memory": "10MB" });
    job
}

fn empty_programs(module: &[u8]) -> Value {
    use base64::Engine as _;
    let module = base64::engine::general_purpose::STANDARD.encode(module);
    let url = format!("data:application/wasm;base64,{module}");
    let source = json!({ "Type": "inline", "Params": { "URL": url } });
    let engine = json!({ "Type": "wasm", "Params": { "EntryModule": { "Source": source } } });
    let task = json!({ "Name": "main", "Engine": engine });
    small(json!({ "Type": "batch", "Count": PROGRAMS.0, "Tasks": [task] }))
}

fn bad_parameters(image: &str) -> [Value; 4] {
    let bad = |change: &dyn Fn(&mut Value)| {
        let mut job = small(batch(image, &["echo"]));
        job["Priority"] = json!(100);
        change(&mut job["Tasks"][0]);
        job
    };
    let target = |target: &str| {
        let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
        json!([{ "Source": source, "Target": target }])
    };
    [
        bad(&|task| task["Engine"]["Params"]["WorkingDirectory"] = json!("/task")),
        bad(&|task| task["InputSources"] = target("/proc/x")),
        bad(&|task| task["InputSources"] = target(&format!("/{}", "x".repeat(300)))),
        bad(&|task| task["InputSources"] = target("/task/below/a/file")),
    ]
}
