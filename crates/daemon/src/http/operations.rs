//! Operations of an API: where they are routed, and how the OpenAPI document describes them.
//!
//! `#[utoipa::path]` on a handler says both, and [`collect!`](crate::collect) takes both from it, so
//! that no second list of operations can fall behind. Only unit tests collect the descriptions, and
//! write them to the file that the programs serve: in the programs they would be a tenth of the
//! orchestrator's code.

use std::sync::OnceLock;

use axum::Router;
use axum::body::Bytes;
use axum::handler::Handler;
use axum::routing::MethodRouter;
use utoipa::openapi::{HttpMethod, OpenApi};
use utoipa_axum::PathItemExt;

use super::indent::compact;

/// Operations with the state `S`.
pub struct Operations<S> {
    router: Router<S>,
    described: Described,
}

/// How the document describes operations; empty outside of unit tests.
#[derive(Default)]
pub struct Described(Vec<fn() -> OpenApi>);

/// A document in a file, which is indented for people to read its changes.
pub struct Document {
    file: &'static str,
    compact: OnceLock<Bytes>,
}

/// The operations of these handlers.
///
/// The arm `@path` of `routes!` is not documented; it is what `routes!` itself uses to find the
/// attribute of a handler.
#[macro_export]
macro_rules! collect {
    ($($handler:path),+ $(,)?) => {{
        let operations = $crate::http::Operations::default();
        // `test` is that of the crate that calls the macro.
        #[cfg(test)]
        let operations = {
            #[derive(utoipa::OpenApi)]
            #[openapi(paths($($handler),+))]
            struct Described;
            operations.described_by(<Described as utoipa::OpenApi>::openapi)
        };
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
    /// The document has the operations that this describes.
    pub fn described_by(mut self, describe: fn() -> OpenApi) -> Self {
        self.described.0.push(describe);
        self
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

    pub fn router(self) -> Router<S> {
        self.router
    }

    pub fn described(self) -> Described {
        self.described
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
    pub const fn new(file: &'static str) -> Self {
        Self { file, compact: OnceLock::new() }
    }

    /// As every response is unless somebody asks for indentation.
    pub fn text(&self) -> Bytes {
        self.compact.get_or_init(|| Bytes::from(compact(self.file.as_bytes()))).clone()
    }
}
