//! Operations of an API: where they are routed, and how the OpenAPI document describes them.
//!
//! `#[utoipa::path]` on a handler says both, and [`collect!`](crate::collect) takes both from it, so
//! that no second list of operations can fall behind. Only unit tests collect the descriptions, and
//! write them to the file that the programs serve: in the programs they would be a tenth of the
//! orchestrator's code.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::body::{Body, Bytes};
use axum::handler::Handler;
use axum::response::Response;
use http::{Method, Request};
use utoipa::openapi::{HttpMethod, OpenApi};

use super::indent::compact;
use super::routes::{Answering, Methods, Routes, erased};

/// Operations with the state `S`.
pub struct Operations<S> {
    paths: BTreeMap<String, Methods<S>>,
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
            let methods = methods.into_iter().map($crate::http::method);
            let operations = operations.routed(&path, methods, $handler);
        )+
        operations
    }};
}

// === impl Operations ===

impl<S> Default for Operations<S> {
    fn default() -> Self {
        Self { paths: BTreeMap::new(), described: Described::default() }
    }
}

impl<S: Clone + Send + Sync + 'static> Operations<S> {
    /// The document has the operations that this describes.
    pub fn described_by(mut self, describe: fn() -> OpenApi) -> Self {
        self.described.0.push(describe);
        self
    }

    /// With an operation that is routed to the handler.
    pub fn routed<T: 'static>(
        self,
        path: &str,
        methods: impl IntoIterator<Item = Method>,
        handler: impl Handler<T, S, Future = Answering>,
    ) -> Self {
        self.with(path, Methods::on(methods, erased(handler)))
    }

    /// With an operation for every method.
    pub fn any<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S, Future = Answering>,
    ) -> Self {
        self.with(path, Methods::any(erased(handler)))
    }

    fn with(mut self, path: &str, methods: Methods<S>) -> Self {
        self.paths.entry(path.to_owned()).or_default().merge(methods);
        self
    }

    /// The operations of both.
    pub fn merge(mut self, other: Self) -> Self {
        self.described.0.extend(other.described.0);
        for (path, methods) in other.paths {
            self.paths.entry(path).or_default().merge(methods);
        }
        self
    }

    /// The paths, and the methods that each has.
    pub fn listed(&self) -> impl Iterator<Item = (&str, Vec<&Method>)> {
        self.paths.iter().map(|(path, methods)| (&**path, methods.listed().collect()))
    }

    /// What answers requests: `refuse` those with a method that their path does not have; `meta`
    /// is what the daemon says of a path and the methods that it has.
    pub fn routes<A>(
        self,
        state: S,
        refuse: fn(&Request<Body>) -> Response,
        meta: impl Fn(&'static str, &[&Method]) -> A,
    ) -> Routes<S, A> {
        Routes::new(self.paths, state, refuse, meta)
    }

    pub fn described(self) -> Described {
        self.described
    }
}

/// A method as the rest of the program knows it.
#[doc(hidden)]
pub fn method(described: HttpMethod) -> Method {
    match described {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Delete => Method::DELETE,
        HttpMethod::Options => Method::OPTIONS,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Trace => Method::TRACE,
    }
}

// === impl Described ===

impl Described {
    /// The document, with what no handler says.
    pub fn document(&self, rest: OpenApi) -> OpenApi {
        self.0.iter().fold(rest, |mut document, describe| {
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

    /// As every response is unless a client asks for indentation.
    pub fn text(&self) -> Bytes {
        self.compact.get_or_init(|| Bytes::from(compact(self.file.as_bytes()))).clone()
    }
}
