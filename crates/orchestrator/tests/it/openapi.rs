//! The OpenAPI document is the golden file, and every operation in it has a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reqwest::Method;
use serde_json::Value;

use crate::server::{Server, requests_of};

/// What its handlers say, as a unit test checks.
const GOLDEN: &str = "openapi.json";

crate::covers! {
    "describeApi" => the_document_is_the_golden_file;
}

/// What the modules of these tests cover.
const COVERED: &[crate::Coverage] = &[
    COVERS,
    crate::agent::COVERS,
    crate::archives::COVERS,
    crate::audit::COVERS,
    crate::changes::COVERS,
    crate::cluster::COVERS,
    crate::create::COVERS,
    crate::demand::COVERS,
    crate::events::COVERS,
    crate::executions::COVERS,
    crate::explain::COVERS,
    crate::graphs::COVERS,
    crate::groups::COVERS,
    crate::health::COVERS,
    crate::history::COVERS,
    crate::inputs::COVERS,
    crate::jobs::COVERS,
    crate::joining::COVERS,
    crate::keys::COVERS,
    crate::labels::COVERS,
    crate::login::COVERS,
    crate::logs::COVERS,
    crate::metrics::COVERS,
    crate::namespaces::COVERS,
    crate::node_history::COVERS,
    crate::nodes::COVERS,
    crate::oidc::COVERS,
    crate::protocol::COVERS,
    crate::requester::COVERS,
    crate::reruns::COVERS,
    crate::results::COVERS,
    crate::credentials::COVERS,
    crate::schedules::COVERS,
    crate::search::COVERS,
    crate::secrets::COVERS,
    crate::sessions::COVERS,
    crate::slots::COVERS,
    crate::stop::COVERS,
    crate::tokens::COVERS,
    crate::lineage::COVERS,
    crate::usage::COVERS,
];

struct Operation {
    method: Method,
    path: String,
}

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

fn operations(document: &Value) -> BTreeMap<String, Operation> {
    let mut operations = BTreeMap::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let id = operation["operationId"].as_str().expect("every operation has an ID");
            let method = method.to_uppercase().parse().expect("a method");
            let operation = Operation { method, path: path.clone() };
            let earlier = operations.insert(id.to_owned(), operation);
            assert!(earlier.is_none(), "{id} names two operations");
        }
    }
    operations
}

/// Whether a path matches a template.
fn matches(template: &str, path: &str) -> bool {
    let (mut templates, mut parts) = (template.split('/'), path.split('/'));
    loop {
        match (templates.next(), parts.next()) {
            (None, None) => return true,
            // Paths of the old group have several segments.
            (Some("{rest}"), Some(_)) => return true,
            (Some(template), Some(part))
                if template == part || (template.starts_with('{') && !part.is_empty()) => {}
            _ => return false,
        }
    }
}

#[tokio::test]
async fn the_document_is_the_golden_file() {
    let server = Server::start().await;
    for question in ["", "?pretty"] {
        let answer = server.get(&format!("/api/v1/openapi.json{question}")).await;
        assert!(golden() == *answer.ok(), "what is served is not {GOLDEN}");
    }
}

#[test]
fn every_operation_has_a_test_that_uses_it() {
    let operations = operations(&golden());
    assert!(operations.len() > 25, "{} operations are too few to be all", operations.len());
    let covered: Vec<_> = COVERED.iter().copied().flatten().collect();
    let named: BTreeSet<&str> = covered.iter().map(|(operation, ..)| *operation).collect();
    let known: BTreeSet<&str> = operations.keys().map(String::as_str).collect();
    let untested: Vec<_> = known.difference(&named).collect();
    assert!(untested.is_empty(), "no test is named by `covers!` for the operations {untested:?}");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "`covers!` names operations that are not there: {unknown:?}");

    let mut made: BTreeMap<&str, Vec<(Method, String)>> = BTreeMap::new();
    for (operation, name, test) in covered {
        // Each test once, however many operations it covers.
        let requests = made.entry(name).or_insert_with(|| requests_of(*test));
        let Operation { method, path } = &operations[*operation];
        assert!(
            requests.iter().any(|(used, asked)| used == method && matches(path, asked)),
            "{name} is named for {operation} and does not ask for {method} {path}"
        );
    }
}

#[test]
fn words_and_keys_are_spelled_as_on_the_wire() {
    let schemas = &golden()["components"]["schemas"];
    assert_eq!(schemas["EngineType"]["enum"], serde_json::json!(["docker", "wasm", "noop"]));
    let publishers = serde_json::json!(["", "noop", "local", "s3", "ipfs"]);
    assert_eq!(schemas["PublisherType"]["enum"], publishers);
    let submission = &schemas["JobSubmission"];
    assert_eq!(submission["required"], serde_json::json!(["Type", "Tasks"]));
    for (schema, fields) in schemas.as_object().expect("schemas") {
        let keys = fields["properties"].as_object().into_iter().flat_map(|keys| keys.keys());
        for key in keys {
            let is_lower = key.starts_with(|first: char| first.is_ascii_lowercase());
            assert_eq!(is_lower, schema.starts_with("RunOutput"), "{schema}.{key}");
        }
    }
}

#[test]
fn a_path_is_matched_part_by_part() {
    let job = "/api/v1/orchestrator/jobs/{job_id}";
    assert!(matches(job, "/api/v1/orchestrator/jobs/j-1"));
    for other in ["/api/v1/orchestrator/jobs", "/api/v1/orchestrator/jobs/", "/a/b"] {
        assert!(!matches(job, other), "{other}");
    }
    assert!(!matches(job, "/api/v1/orchestrator/jobs/j-1/logs"));
    assert!(matches("/api/v1/requester/{rest}", "/api/v1/requester/websocket/events"));
}
