//! Operations of an API: where they are routed, and how the OpenAPI document describes them.
//!
//! `#[utoipa::path]` on a handler says both, and [`collect!`](crate::collect) takes both from it, so
//! that no second list of operations can fall behind. The document is made when somebody asks for
//! it: made at every start, it would take a quarter of the orchestrator's memory at rest.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::handler::Handler;
use axum::routing::MethodRouter;
use tokio::sync::OnceCell;
use tokio::task::JoinError;
use utoipa::openapi::{HttpMethod, OpenApi};
use utoipa_axum::PathItemExt;

/// Operations with the state `S`.
pub struct Operations<S> {
    router: Router<S>,
    described: Described,
}

/// How the document describes operations.
#[derive(Default)]
pub struct Described(Vec<fn() -> OpenApi>);

/// A text that is made when it is first asked for.
#[derive(Clone)]
pub struct Document(Arc<Made>);

struct Made {
    make: Box<dyn Fn() -> String + Send + Sync>,
    text: OnceCell<Bytes>,
}

/// The operations of these handlers.
///
/// The arm `@path` of `routes!` is not documented; it is what `routes!` itself uses to find the
/// attribute of a handler.
#[macro_export]
macro_rules! collect {
    ($($handler:path),+ $(,)?) => {{
        #[derive(utoipa::OpenApi)]
        #[openapi(paths($($handler),+))]
        struct Described;
        let operations = $crate::http::Operations::of(
            <Described as utoipa::OpenApi>::openapi,
        );
        $(
            let (path, methods) = $crate::http::utoipa_axum::paste! {(
                $crate::http::utoipa_axum::routes!(@path [path()] of $handler),
                $crate::http::utoipa_axum::routes!(@path [methods()] of $handler),
            )};
            let operations = operations.routed(&path, methods, $handler);
        )+
        operations
    }};
}

// === impl Operations ===

impl<S: Clone + Send + Sync + 'static> Default for Operations<S> {
    fn default() -> Self {
        Self { router: Router::new(), described: Described::default() }
    }
}

impl<S: Clone + Send + Sync + 'static> Operations<S> {
    /// None yet; the document has the operations that this describes.
    pub fn of(describe: fn() -> OpenApi) -> Self {
        Self { router: Router::new(), described: Described(vec![describe]) }
    }

    /// With an operation that is routed to the handler.
    pub fn routed<H, T>(self, path: &str, methods: Vec<HttpMethod>, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let to_handler = methods.iter().fold(MethodRouter::new(), |router, method| {
            router.on(method.to_method_filter(), handler.clone())
        });
        Self { router: self.router.route(path, to_handler), ..self }
    }

    /// The operations of both.
    pub fn merge(mut self, other: Self) -> Self {
        self.described.0.extend(other.described.0);
        Self { router: self.router.merge(other.router), ..self }
    }

    pub fn split(self) -> (Router<S>, Described) {
        (self.router, self.described)
    }
}

// === impl Described ===

impl Described {
    /// The document, with what no handler says.
    pub fn document(&self, beside: OpenApi) -> OpenApi {
        self.0.iter().fold(beside, |mut document, describe| {
            document.merge(describe());
            document
        })
    }
}

// === impl Document ===

impl Document {
    pub fn new(make: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(Made { make: Box::new(make), text: OnceCell::new() }))
    }

    /// # Errors
    /// If making it panics.
    pub async fn text(&self) -> Result<Bytes, JoinError> {
        let made = Arc::clone(&self.0);
        let make = || tokio::task::spawn_blocking(move || Bytes::from((made.make)()));
        self.0.text.get_or_try_init(make).await.cloned()
    }
}
