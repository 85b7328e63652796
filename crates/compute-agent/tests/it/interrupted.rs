//! An agent that crashes while it fetches or publishes; the next one completes the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use api_types::engine::{EngineType, PublisherType};
use api_types::execution::ComputeState;
use api_types::source::{InputSource, SourceSpec, SourceType};
use axum::Router;
use axum::extract::State;
use axum::routing::any;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;

use crate::node::{Node, eventually, work};

/// A server that lets every request wait until it is opened.
struct Gate {
    url: String,
    asked: Arc<AtomicUsize>,
    open: Arc<AtomicBool>,
}

async fn answer(State((asked, open)): State<(Arc<AtomicUsize>, Arc<AtomicBool>)>) -> &'static str {
    asked.fetch_add(1, Ordering::SeqCst);
    if !open.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    // A Kubo response; as an input, any text will do.
    "{\"Hash\":\"bafyresult\"}\n"
}

impl Gate {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let state = (Arc::clone(&asked), Arc::clone(&open));
        let router = Router::new().fallback(any(answer)).with_state(state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url, asked, open }
    }

    async fn is_asked(&self) {
        eventually("the server to be asked", async || self.asked.load(Ordering::SeqCst) > 0).await;
    }

    fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_while_it_fetches_fetches_again() {
    let gate = Gate::start().await;
    let mut node = Node::start(|_| ()).await;
    let mut work = work(EngineType::Noop, json!({}));
    let params = json!({ "URL": format!("{}/data.txt", gate.url) });
    work.task.input_sources = vec![InputSource {
        source: SourceSpec {
            source_type: SourceType::UrlDownload,
            params: serde_json::from_value(params).unwrap(),
        },
        target: "/in/data.txt".to_owned(),
        alias: String::new(),
    }];
    let id = node.orchestrator.run(work).await;
    gate.is_asked().await;
    node.kill_agent().await;
    gate.open();
    node.start_agent().await;
    node.orchestrator.reported(id, ComputeState::Completed).await;
    // The input is removed once no execution needs it.
    let inputs = node.execution_dir(id).join("inputs");
    eventually("the input to be removed", async || !inputs.exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_while_it_publishes_publishes_again() {
    let gate = Gate::start().await;
    let api = gate.url.clone();
    let mut node = Node::start(|settings| settings.ipfs.api = api).await;
    let mut work = work(EngineType::Noop, json!({}));
    work.task.publisher.publisher_type = PublisherType::Ipfs;
    let id = node.orchestrator.run(work).await;
    gate.is_asked().await;
    assert_eq!(node.phase(id).await.as_deref(), Some("Collecting"));
    node.kill_agent().await;
    gate.open();
    node.start_agent().await;
    let report = node.orchestrator.reported(id, ComputeState::Completed).await;
    let published = report.published_result.expect("a result");
    assert_eq!(published.publisher_type, PublisherType::Ipfs);
    assert_eq!(serde_json::Value::Object(published.params), json!({ "CID": "bafyresult" }));
    assert!(!node.execution_dir(id).join("archive.tar.gz").exists());
}
