//! The moments of a pool that no test from outside can hit, with a real Engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::engine::EngineType;
use api_types::{ExecutionId, NodeId};
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions, StopContainerOptions,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::data::secrets::ExecutionSecrets;
use crate::host::settings::{DockerSettings, Settings};
use crate::host::{clock, mint};
use crate::node::tasks::Tasks;
use crate::runtime::docker::Docker as Engine;
use crate::runtime::docker::engine::Engine as Client;
use crate::runtime::{Executor, Run};
use crate::testing::plain_work;

/// How long a sandbox stays without requests: longer than it takes to make two of them and a task,
/// next to other tests on a slow machine.
const SHORT: Silence = Silence { idle: Duration::from_secs(15), ..Silence::LONG };

/// An executor of a separate node, and the same Engine for inspection.
struct Bench {
    engine: Arc<Engine>,
    docker: Client,
    node_id: NodeId,
    keeping: tokio::task::JoinHandle<()>,
}

impl Bench {
    /// None, with a printed notice, where there is no Docker Engine; with `CI` set that is a
    /// failure.
    async fn start(node_id: NodeId, slots: u16) -> Option<Self> {
        Self::start_with(node_id, slots, Silence::LONG).await
    }

    async fn start_with(node_id: NodeId, slots: u16, silence: Silence) -> Option<Self> {
        let docker = DockerSettings { sandbox_pool: slots, ..DockerSettings::default() };
        let settings = Settings { docker, ..Settings::default() };
        let tasks = Tasks::new(tokio::runtime::Handle::current());
        let record = std::path::Path::new("no-record");
        let mut engine = Engine::new(&settings, node_id, record, tasks);
        engine.sandboxes.silence = silence;
        let engine = Arc::new(engine);
        if let Err(error) = engine.probe().await {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            println!("skipped: {error}");
            return None;
        }
        let docker = engine.client().expect("it answered");
        let kept = Arc::clone(&engine);
        let keeping = tokio::spawn(async move { kept.run_in_background().await });
        Some(Self { engine, docker, node_id, keeping })
    }

    /// A task in the only image that is there for sure.
    async fn run(&self) -> Run {
        let image = image::ensure(&self.docker).await.expect("the image");
        let mut work = plain_work();
        work.task.engine.engine_type = EngineType::Docker;
        work.task.engine.params =
            serde_json::from_value(json!({ "Image": image })).expect("an object");
        Run {
            id: ExecutionId::from_uuid(mint::node_id().uuid()),
            node_id: self.node_id,
            work: Arc::new(work),
            granted: Default::default(),
            inputs: Vec::new(),
            secrets: ExecutionSecrets::default(),
            modules: Vec::new(),
            gpus: Vec::new(),
            progress: crate::data::progress::Progress::silent(),
        }
    }

    async fn prepare(&self, run: &Run) {
        self.engine.prepare(run, &CancellationToken::new()).await.expect("it is made");
    }

    async fn mode_of(&self, run: &Run) -> String {
        let name = format!("execution-{}", run.id);
        let found = self.docker.inspect_container(&name, None::<InspectContainerOptions>).await;
        found.expect("inspect").host_config.and_then(|config| config.network_mode).expect("a mode")
    }

    async fn idle(&self, count: usize) {
        let looking = async {
            while self.engine.sandboxes.pool().idle() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), looking).await.expect("idle sandboxes");
    }

    async fn end(mut self, runs: &[Run]) {
        if !self.keeping.is_finished() {
            self.die().await;
        }
        for run in runs {
            self.engine.remove(run.id).await.expect("it is removed");
        }
        let label = (LABEL_SANDBOX_OF, self.node_id.to_string());
        for sandbox in containers::list(&self.docker, label.0, &label.1).await.expect("list") {
            let options = RemoveContainerOptions { force: true, ..Default::default() };
            let id = sandbox.id.expect("an id");
            // It may be ending by itself.
            let _ = self.docker.remove_container(&id, Some(options)).await;
        }
    }

    async fn sandboxes(&self) -> Vec<String> {
        let node_id = self.node_id.to_string();
        let listed =
            containers::list(&self.docker, LABEL_SANDBOX_OF, &node_id).await.expect("list");
        listed.into_iter().filter_map(|sandbox| sandbox.id).collect()
    }

    /// Ends the agent without removing its sandboxes, as if it never returned.
    async fn die(&mut self) {
        self.keeping.abort();
        let _ = (&mut self.keeping).await;
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.expect(what);
}

fn node() -> NodeId {
    mint::node_id()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_task_starts_although_its_sandbox_has_ended() {
    let Some(bench) = Bench::start(node(), 1).await else { return };
    bench.idle(1).await;
    let run = bench.run().await;
    bench.prepare(&run).await;
    let mode = bench.mode_of(&run).await;
    let sandbox = mode.strip_prefix(JOINS).expect("it joins a sandbox");
    let options = StopContainerOptions { t: Some(0), ..Default::default() };
    bench.docker.stop_container(sandbox, Some(options)).await.unwrap();
    eventually("it ends", async || {
        !bench.engine.sandboxes.runs(&bench.docker, sandbox).await.expect("an answer")
    })
    .await;
    bench.engine.start(run.id).await.expect("it starts");
    assert_eq!(bench.mode_of(&run).await, "none");
    bench.end(&[run]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_task_with_a_network_gets_another_sandbox_when_its_own_has_ended() {
    let Some(bench) = Bench::start(node(), 0).await else { return };
    let mut run = bench.run().await;
    let mut work = (*run.work).clone();
    work.task.network.network_type = api_types::engine::NetworkType::Full;
    run.work = Arc::new(work);
    bench.prepare(&run).await;
    let mode = bench.mode_of(&run).await;
    let sandbox = mode.strip_prefix(JOINS).expect("it joins a sandbox");
    let options = StopContainerOptions { t: Some(0), ..Default::default() };
    bench.docker.stop_container(sandbox, Some(options)).await.unwrap();
    eventually("it ends", async || {
        !bench.engine.guarded.runs(&bench.docker, sandbox).await.expect("an answer")
    })
    .await;
    bench.engine.start(run.id).await.expect("it starts");
    let other = bench.mode_of(&run).await;
    assert_ne!(other, mode);
    let other = other.strip_prefix(JOINS).expect("it joins another sandbox");
    bench.engine.remove(run.id).await.expect("it is removed");
    eventually("the sandbox to be free again", async || {
        inspect::inspect(&bench.docker, other).await == pool::Inspection::Clean
    })
    .await;
    assert_eq!(bench.engine.guarded.pool().slot_of(run.id), None);
    bench.engine.guarded.close(&bench.docker).await;
    bench.end(&[run]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_cannot_be_restricted_is_given_to_no_task() {
    let Some(bench) = Bench::start(node(), 0).await else { return };
    // More than the settings take, and more than the program in the sandbox does.
    let range = |number| format!("1.2.{}.{}", number / 256, number % 256).parse().expect("a range");
    let denied_addresses = (0..600).map(range).collect();
    let settings = Settings { denied_addresses, ..Settings::default() };
    let sandboxes = Sandboxes::guarded(bench.node_id, &settings);
    let refused = sandboxes.lease_or_make(&bench.docker, bench.run().await.id).await;
    let Err(ExecutorError::Failed(failure)) = refused else { panic!("{refused:?}") };
    assert!(failure.message.contains("ranges of addresses are more than"), "{}", failure.message);
    assert_eq!(sandboxes.pool().len(), 0);
    bench.end(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_sandbox_of_an_agent_that_never_comes_back_is_removed() {
    let Some(mut bench) = Bench::start_with(node(), 2, SHORT).await else { return };
    bench.idle(2).await;
    bench.die().await;
    assert_eq!(bench.sandboxes().await.len(), 2);
    eventually("no sandbox", async || bench.sandboxes().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_its_agent_never_started_is_abandoned_after_a_while() {
    let Some(bench) = Bench::start(node(), 1).await else { return };
    bench.idle(1).await;
    let body = ContainerCreateBody {
        image: Some(image::ensure(&bench.docker).await.expect("the image")),
        labels: Some(HashMap::from([(LABEL_SANDBOX_OF.to_owned(), bench.node_id.to_string())])),
        ..Default::default()
    };
    let created = bench
        .docker
        .create_container(None::<CreateContainerOptions>, body)
        .await
        .expect("it is created")
        .id;
    let abandoned = async |after| {
        let now = clock::now() + after;
        let all = containers::abandoned(&bench.docker, LABEL_SANDBOX_OF, now).await.expect("list");
        let own = bench.sandboxes().await;
        all.into_iter().filter(|sandbox| own.contains(sandbox)).collect::<Vec<_>>()
    };
    assert_eq!(abandoned(Duration::from_mins(9)).await, Vec::<String>::new());
    assert_eq!(abandoned(Duration::from_mins(11)).await, [created], "the running one is idle");
    bench.end(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_sandbox_waits_for_the_next_agent() {
    let node_id = node();
    let Some(mut bench) = Bench::start_with(node_id, 2, SHORT).await else { return };
    bench.idle(2).await;
    let run = bench.run().await;
    bench.prepare(&run).await;
    let mode = bench.mode_of(&run).await;
    let leased = mode.strip_prefix(JOINS).expect("it joins a sandbox");
    eventually("it to be told", async || !bench.engine.sandboxes.pool().awaits_hold()).await;
    bench.die().await;
    // The other was probed last: when it has ended, the leased one has had no request for longer.
    for sandbox in bench.sandboxes().await.iter().filter(|sandbox| *sandbox != leased) {
        assert_eq!(inspect::inspect(&bench.docker, sandbox).await, pool::Inspection::Clean);
    }
    eventually("the idle one to end", async || bench.sandboxes().await.len() <= 1).await;
    assert_eq!(bench.sandboxes().await, [leased]);

    let bench = Bench::start(node_id, 2).await.expect("the Engine answered before");
    bench.idle(1).await;
    assert_eq!(bench.engine.sandboxes.pool().slot_of(run.id).as_deref(), Some(leased));
    bench.engine.start(run.id).await.expect("it starts");
    assert_eq!(bench.mode_of(&run).await, mode);
    bench.end(&[run]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_free_when_its_task_has_ended_although_the_container_still_exists() {
    let node_id = node();
    let Some(mut bench) = Bench::start(node_id, 1).await else { return };
    bench.idle(1).await;
    let (ended, next) = (bench.run().await, bench.run().await);
    bench.prepare(&ended).await;
    bench.engine.start(ended.id).await.expect("it starts");
    let runs = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.engine.stop(ended.id, Duration::ZERO).await.expect("it is stopped");
    };
    let (exit, ()) = tokio::join!(bench.engine.wait(ended.id), runs);
    exit.expect("it ends");
    bench.idle(1).await;
    bench.die().await;

    // A restarted agent finds it free as well.
    let bench = Bench::start(node_id, 1).await.expect("the Engine answered before");
    bench.idle(1).await;
    bench.prepare(&next).await;
    assert_eq!(bench.mode_of(&next).await, bench.mode_of(&ended).await);
    bench.end(&[ended, next]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unseen_container_does_not_share_a_sandbox_leased_in_the_meantime() {
    let node_id = node();
    let Some(mut dead) = Bench::start(node_id, 1).await else { return };
    dead.idle(1).await;
    let (late, other) = (dead.run().await, dead.run().await);
    dead.prepare(&late).await;
    dead.die().await;
    // The next agent saw the sandbox but not yet the container, and leased it.
    let Some(mut bench) = Bench::start(node_id, 0).await else { return };
    let mode = dead.mode_of(&late).await;
    let sandbox = mode.strip_prefix(JOINS).expect("it joins a sandbox").to_owned();
    let now = clock::steady();
    bench.die().await;
    let pool = || bench.engine.sandboxes.pool();
    pool().add(sandbox.clone(), now);
    pool().inspected(&sandbox, &pool::Inspection::Clean, now);
    pool().give_back(late.id, now);
    pool().inspected(&sandbox, &pool::Inspection::Clean, now);
    bench.prepare(&other).await;
    assert_eq!(bench.mode_of(&other).await, mode);
    bench.prepare(&late).await;
    assert_eq!(bench.mode_of(&late).await, "none");
    bench.end(&[late, other]).await;
}
