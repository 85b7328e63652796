//! The agent's OpenAPI document: it is the golden file, and every operation in it has a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::http::{get, requests_of};
use crate::node::Node;

/// What its handlers say, as a unit test checks.
const GOLDEN: &str = "openapi.json";

crate::covers! {
    "describeApi" => the_document_is_the_golden_file;
}

/// The operations that the modules of these tests cover.
const COVERED: &[crate::Coverage] =
    &[COVERS, crate::http::COVERS, crate::metrics::COVERS, crate::publishing::COVERS];

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// The group that is gone, which says so for every method.
const GONE: &str = "/api/v1/requester/";

/// Path by operation; an agent takes nothing but GET.
fn operations(document: &Value) -> BTreeMap<String, String> {
    let mut operations = BTreeMap::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let item = item.as_object().expect("operations");
        if !path.starts_with(GONE) {
            assert_eq!(item.keys().collect::<Vec<_>>(), ["get"], "{path}");
        }
        for operation in item.values() {
            let id = operation["operationId"].as_str().expect("every operation has an ID");
            assert!(operations.insert(id.to_owned(), path.clone()).is_none(), "{id} comes twice");
        }
    }
    operations
}

/// Whether a path is one that a template stands for.
fn matches(template: &str, path: &str) -> bool {
    let parts = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (templates, parts) = (parts(template), parts(path));
    templates.len() == parts.len()
        && templates.iter().zip(&parts).all(|(template, part)| {
            template == part || (template.starts_with('{') && !part.is_empty())
        })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_the_golden_file() {
    let node = Node::start(|_| ()).await;
    let answer = get(&node.url("/api/v1/openapi.json")).await;
    assert_eq!(answer.status, 200);
    let document: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert!(golden() == document, "what is served is not {GOLDEN}");
}

#[test]
fn every_operation_has_a_test_that_uses_it() {
    let operations = operations(&golden());
    assert!(operations.len() >= 10, "{} operations are too few to be all", operations.len());
    let covered: Vec<_> = COVERED.iter().copied().flatten().collect();
    let named: BTreeSet<&str> = covered.iter().map(|(operation, ..)| *operation).collect();
    let known: BTreeSet<&str> = operations.keys().map(String::as_str).collect();
    assert_eq!(named, known, "`covers!` names a test for every operation, and no other");
    let mut made: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (operation, name, test) in covered {
        let requests = made.entry(name).or_insert_with(|| requests_of(*test));
        let template = &operations[*operation];
        assert!(
            requests.iter().any(|path| matches(template, path)),
            "{name} is named for {operation} and does not ask for {template}"
        );
    }
}
