//! The document is what the handlers say, and agrees with the router on paths and methods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::openapi::check_golden;
use api_types::routes;
use axum::body::{Body, to_bytes};
use http::{Request, header};
use serde_json::Value;
use tower::ServiceExt;

use super::service::Service;
use crate::http::openapi::described;
use crate::http::router;

/// Paths of the old group, which is one operation: only the router needs several routes for it.
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

#[tokio::test]
async fn every_route_is_in_the_document_and_every_operation_is_routed() {
    let service = Service::start().await;
    let router = router(Arc::clone(&service.api));
    // The router lists its routes only in its debug output.
    let shown = format!("{router:?}");
    let routed: BTreeSet<String> = shown
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with('/') && *text != "/" && !is_old(text))
        .filter(|text| !text.contains("__private__axum"))
        .map(str::to_owned)
        .collect();
    assert!(routed.contains(routes::JOB) && routed.len() > 15, "{routed:?}");

    let request = Request::get(routes::OPENAPI).body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let documented = documented(&serde_json::from_slice(&body).unwrap());
    let described: BTreeSet<String> =
        documented.keys().filter(|path| !is_old(path)).cloned().collect();
    assert_eq!(described, routed);
    assert_eq!(documented.keys().filter(|path| is_old(path)).count(), 1);

    for (path, methods) in documented.iter().filter(|(path, _)| !is_old(path)) {
        let request = Request::builder().method("BREW").uri(path.replace(['{', '}'], ""));
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 405, "{path}");
        let allowed = answer.headers()[header::ALLOW].to_str().unwrap().to_lowercase();
        let allowed: BTreeSet<String> =
            allowed.split(',').filter(|method| *method != "head").map(str::to_owned).collect();
        assert_eq!(&allowed, methods, "{path}");
    }
}
