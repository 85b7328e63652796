//! The document is what the handlers say; it and the policy agree with the routes.

use std::collections::{BTreeMap, BTreeSet};

use api_types::openapi::check_golden;
use api_types::routes;
use http::Method;
use serde_json::Value;

use crate::access::policy;
use crate::http::openapi::described;
use crate::http::operations::openapi::DOCUMENT;
use crate::http::operations::operations;

/// Paths of the old group, which is one operation with several routes.
fn is_old(path: &str) -> bool {
    path.starts_with(routes::REQUESTER.trim_end_matches('/'))
}

/// The document's methods by path.
fn documented(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let paths = document["paths"].as_object().unwrap();
    let methods = |item: &Value| item.as_object().unwrap().keys().cloned().collect();
    paths.iter().map(|(path, item)| (path.clone(), methods(item))).collect()
}

#[test]
fn the_file_is_what_the_handlers_say() {
    check_golden(env!("CARGO_MANIFEST_DIR"), &described::document());
}

#[test]
fn every_route_is_in_the_document_and_every_operation_is_routed() {
    let routed: BTreeMap<String, BTreeSet<String>> = operations()
        .listed()
        .filter(|(path, _)| !is_old(path))
        .map(|(path, methods)| {
            let lower = |method: &Method| method.as_str().to_lowercase();
            (path.to_owned(), methods.into_iter().map(lower).collect())
        })
        .collect();
    let served = DOCUMENT.text();
    let documented = documented(&serde_json::from_slice(&served).unwrap());
    let (old, described): (BTreeMap<_, _>, BTreeMap<_, _>) =
        documented.into_iter().partition(|(path, _)| is_old(path));
    assert_eq!(described, routed);
    assert_eq!(old.len(), 1);
}

#[test]
fn the_policy_calls_each_operation_what_the_document_calls_it() {
    let document: Value = serde_json::from_slice(&DOCUMENT.text()).unwrap();
    for (path, methods) in operations().listed().filter(|(path, _)| !is_old(path)) {
        let rules = policy::rules(path, &methods).expect(path);
        for method in methods {
            let described = &document["paths"][path][method.as_str().to_lowercase()];
            assert_eq!(rules.rule(method).operation, described["operationId"], "{method} {path}");
        }
    }
}
