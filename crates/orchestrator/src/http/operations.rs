//! Every operation of the API, one file per resource.

mod agent;
mod archives;
mod audit;
mod changes;
mod cluster;
mod credentials;
mod curves;
mod demand;
mod enrolment;
mod events;
mod exchange;
mod executions;
mod graphs;
mod groups;
mod health;
mod history;
mod jobs;
mod keys;
mod login;
mod logs;
mod members;
mod metrics;
mod namespaces;
mod node_tokens;
mod nodes;
pub(super) mod openapi;
mod protocol;
mod results;
mod schedules;
mod sealed;
mod search;
mod secrets;
mod sessions;
mod slots;
mod survey;
mod tokens;
mod usage;

use std::sync::Arc;

pub(super) use health::readiness;
pub(super) use metrics::scraped;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use daemon::http::Operations;
use http::Request;

use super::api::{Api, RouteMeta, Routes};
use super::error::{BadRequest, Failure};
use crate::access::policy;

/// Who may use an operation is decided before it is called, at the edge.
///
/// # Panics
///
/// If the policy lacks one: nothing is open because it was forgotten there.
pub(super) fn routes(api: Arc<Api>) -> Routes {
    let metrics = api.observer.metrics.http.clone();
    operations().routes(api, method_not_allowed, |pattern, methods| {
        let rules = policy::rules(pattern, methods);
        let rules = rules.unwrap_or_else(|| panic!("the policy lacks {methods:?} of {pattern}"));
        RouteMeta { rules, metrics: metrics.of_route(Some(pattern)) }
    })
}

pub(super) fn operations() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(jobs::router())
        .merge(graphs::router())
        .merge(usage::router())
        .merge(curves::router())
        .merge(executions::router())
        .merge(slots::router())
        .merge(archives::router())
        .merge(history::router())
        .merge(events::router())
        .merge(changes::router())
        .merge(cluster::router())
        .merge(demand::router())
        .merge(members::router())
        .merge(results::router())
        .merge(logs::router())
        .merge(nodes::router())
        .merge(search::router())
        .merge(tokens::router())
        .merge(namespaces::router())
        .merge(groups::router())
        .merge(secrets::router())
        .merge(credentials::router())
        .merge(schedules::router())
        .merge(sessions::router())
        .merge(exchange::router())
        .merge(login::router())
        .merge(keys::router())
        .merge(audit::router())
        .merge(node_tokens::router())
        .merge(enrolment::router())
        .merge(protocol::router())
        .merge(agent::router())
        .merge(health::router())
        .merge(metrics::router())
        .merge(daemon::http::requester::router())
        .merge(openapi::router())
}

fn method_not_allowed(request: &Request<Body>) -> Response {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    Failure::from(BadRequest::Method { method, path }).into_response()
}
