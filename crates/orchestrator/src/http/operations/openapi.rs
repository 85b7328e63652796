//! Serves the OpenAPI document.

use std::sync::Arc;

use api_types::routes;
use axum::response::IntoResponse;
use daemon::http::{Document, JSON, Operations};
use http::{Method, header};

use crate::http::api::{Api, Handled};
use crate::http::openapi::refusals;

pub(in crate::http) static DOCUMENT: Document =
    Document::new(include_str!("../../../openapi.json"));

/// The OpenAPI document of this service
///
/// This document, generated from the operations that the service serves.
#[utoipa::path(
    get,
    path = routes::OPENAPI,
    operation_id = "describeApi",
    tag = "Health",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
pub(in crate::http) async fn document() -> Handled {
    Ok(([(header::CONTENT_TYPE, JSON)], DOCUMENT.text()).into_response())
}

/// Serves the document.
pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().routed(routes::OPENAPI, [Method::GET], document)
}
