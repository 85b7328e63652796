//! What leaves only while this process certainly leads: every response that depends on the store.
//!
//! It is checked when the head of a response is ready and before each piece of its body, because
//! most of them bypass the driver: reads, heartbeats, verdicts on credentials, lines of streams.
//! A store with a lock never closes this gate, and asks for no clock.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use api_types::routes;
use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use daemon::http::RequestContext;
use futures_util::{StreamExt, future};
use http::{Request, StatusCode};

use crate::access::Needs;
use crate::driver::Lead;
use crate::http::api::{Api, RouteMatch};
use crate::http::error::{Busy, Failure};

/// What says something about this process only.
const OPEN: [&str; 3] = [routes::LIVEZ, routes::ALIVE, routes::VERSION];

/// How long a request may wait while this process is not certain that it leads. Then it is refused:
/// a read waits for a database that may not respond for long. A commit of unknown outcome is
/// repeated for 3 s, of which the trust in the one before it lasts 2.5 s.
const UNCERTAIN_FOR: Duration = Duration::from_millis(1500);

/// How the response to a request leaves.
pub(super) enum LeadGate {
    /// It does not depend on the lead.
    Open,
    Guarded {
        /// A node that is refused stops its tasks.
        is_of_a_node: bool,
    },
}

// === impl LeadGate ===

impl LeadGate {
    /// For a request to this operation, or to the file of a page.
    pub(super) fn of(api: &Api, found: Option<&RouteMatch<'_>>, request: &Request<Body>) -> Self {
        let Some(found) = found.filter(|found| !OPEN.contains(&found.pattern())) else {
            return Self::Open;
        };
        if !api.handle.lead().can_be_lost() {
            return Self::Open;
        }
        let shows_certificate = || {
            let context = RequestContext::from_extensions(request.extensions());
            context.is_some_and(|context| context.certificate.is_some())
        };
        let is_for_nodes = found.meta().rules.rule(request.method()).needs == Needs::Node;
        Self::Guarded { is_of_a_node: is_for_nodes || shows_certificate() }
    }

    /// The response, or what takes its place.
    pub(super) async fn let_out(
        self,
        api: &Api,
        handling: impl Future<Output = Response>,
    ) -> Response {
        let Self::Guarded { is_of_a_node } = self else { return handling.await };
        let lead = Arc::clone(api.handle.lead());
        // Checked first, so that reads do not pile up that wait for the database.
        let response = tokio::select! {
            biased;
            () = lead.is_uncertain_for(UNCERTAIN_FOR) => return withheld(api),
            response = handling => response,
        };
        if is_of_a_node
            && response.status() == StatusCode::FORBIDDEN
            && let Err(error) = api.handle.prove().await
        {
            return Failure::Call(error).into_response();
        }
        if !lead.is_certain() {
            return withheld(api);
        }
        if response.body().size_hint().exact().is_some() {
            // It leaves with its head.
            return response;
        }
        let metrics = Arc::clone(&api.observer.metrics);
        response.map(|body| guarded(body, lead, move || metrics.lead().withheld()))
    }
}

fn withheld(api: &Api) -> Response {
    api.observer.metrics.lead().withheld();
    Failure::from(Busy::LeadUncertain).into_response()
}

/// The body, until the lead is not certain.
fn guarded(body: Body, lead: Arc<Lead>, withheld: impl FnOnce() + Send + 'static) -> Body {
    let mut withheld = Some(withheld);
    let pieces = body.into_data_stream().map(move |piece| {
        if lead.is_certain() {
            return piece.map_err(io::Error::other);
        }
        if let Some(withheld) = withheld.take() {
            withheld();
        }
        // An error, so that the part does not pass for the whole.
        Err(io::Error::other("whether this process still leads is not certain"))
    });
    // Nothing follows an error.
    let mut is_over = false;
    Body::from_stream(pieces.take_while(move |piece| {
        let goes_on = !is_over;
        is_over = piece.is_err();
        future::ready(goes_on)
    }))
}
