//! Which operation a request is for.
//!
//! One lookup finds the path, and with it what the daemon says of the path: who may use it, how it
//! is counted. axum's router would look it up once more, and copies a service for each request;
//! its handlers and extractors need no router.

use std::pin::Pin;
use std::sync::Arc;

use api_types::routes::ROUTINE;
use axum::body::{Body, HttpBody};
use axum::handler::Handler;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, Method, Request, header};
use percent_encoding::percent_decode_str;

use super::context::RequestContext;

/// The operations of an API with the state `S`, and what the daemon says of each path.
pub struct Routes<S, A> {
    state: S,
    paths: matchit::Router<Route<S, A>>,
    /// Answers a request with a method that its path does not have.
    refuse: fn(&Request<Body>) -> Response,
}

/// The operations of a path.
struct Route<S, A> {
    pattern: &'static str,
    is_routine: bool,
    meta: A,
    methods: Methods<S>,
}

/// The operations that a request is for one of.
pub struct RouteMatch<'a, S, A> {
    routes: &'a Routes<S, A>,
    route: &'a Route<S, A>,
}

/// The handlers of a path.
pub(super) struct Methods<S> {
    each: Vec<(Method, Answer<S>)>,
    /// For every method.
    any: Option<Answer<S>>,
}

pub(super) type Answer<S> = Arc<dyn Fn(Request<Body>, S) -> Answering + Send + Sync>;

/// What axum's handlers return.
pub(super) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The parameters in the path of a request, decoded; none where one is not text.
///
/// # Panics
///
/// If the path has another number of parameters.
pub fn parameters<const N: usize>(parts: &Parts) -> Option<[String; N]> {
    let context = RequestContext::from_extensions(&parts.extensions)
        .expect("the request was found by its path");
    let segments = context.pattern.split('/').zip(parts.uri.path().split('/'));
    let mut values = segments.filter(|(name, _)| name.starts_with('{')).map(|(_, value)| value);
    let mut decoded = [const { String::new() }; N];
    for text in &mut decoded {
        let value = values.next().expect("the handler asks for what its path has");
        *text = percent_decode_str(value).decode_utf8().ok()?.into();
    }
    assert!(values.next().is_none(), "the handler asks for what its path has");
    Some(decoded)
}

// === impl Routes ===

impl<S: Clone, A> Routes<S, A> {
    /// # Panics
    ///
    /// If two paths cannot be told apart.
    pub(super) fn new(
        operations: impl IntoIterator<Item = (String, Methods<S>)>,
        state: S,
        refuse: fn(&Request<Body>) -> Response,
        meta: impl Fn(&'static str, &[&Method]) -> A,
    ) -> Self {
        let mut paths = matchit::Router::new();
        for (pattern, methods) in operations {
            // A daemon has its routes for as long as it runs.
            let pattern: &'static str = pattern.leak();
            let meta = meta(pattern, &methods.listed().collect::<Vec<_>>());
            let is_routine = ROUTINE.contains(&pattern);
            let route = Route { pattern, is_routine, meta, methods };
            paths.insert(pattern, route).expect("the paths of an API differ");
        }
        Self { state, paths, refuse }
    }

    /// The operations with this path.
    pub fn find(&self, path: &str) -> Option<RouteMatch<'_, S, A>> {
        let found = self.paths.at(path).ok()?;
        Some(RouteMatch { routes: self, route: found.value })
    }
}

// === impl RouteMatch ===

impl<'a, S: Clone, A> RouteMatch<'a, S, A> {
    /// The path with the names of its parameters.
    pub fn pattern(&self) -> &'static str {
        self.route.pattern
    }

    /// Whether programs ask for it as long as they run.
    pub fn is_routine(&self) -> bool {
        self.route.is_routine
    }

    pub fn meta(&self) -> &'a A {
        &self.route.meta
    }

    /// Dispatches the request by method.
    pub async fn answer(&self, mut request: Request<Body>) -> Response {
        let Some(answer) = self.route.methods.with(request.method()) else {
            let mut response = (self.routes.refuse)(&request);
            response.headers_mut().insert(header::ALLOW, self.route.methods.allowed());
            return response;
        };
        let is_head = *request.method() == Method::HEAD;
        RequestContext::from_extensions_mut(request.extensions_mut()).pattern = self.route.pattern;
        let mut response = answer(request, self.routes.state.clone()).await;
        if is_head {
            let body = std::mem::take(response.body_mut());
            if let Some(length) = body.size_hint().exact() {
                response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
            }
        }
        response
    }
}

// === impl Methods ===

impl<S> Default for Methods<S> {
    fn default() -> Self {
        Self { each: Vec::new(), any: None }
    }
}

impl<S> Methods<S> {
    pub(super) fn on(methods: impl IntoIterator<Item = Method>, answer: Answer<S>) -> Self {
        let each = methods.into_iter().map(|method| (method, Arc::clone(&answer)));
        Self { each: each.collect(), any: None }
    }

    pub(super) fn any(answer: Answer<S>) -> Self {
        Self { each: Vec::new(), any: Some(answer) }
    }

    /// # Panics
    ///
    /// If both have the same method.
    pub(super) fn merge(&mut self, other: Self) {
        for (method, answer) in other.each {
            assert!(self.listed().all(|known| *known != method), "two operations for {method}");
            self.each.push((method, answer));
        }
        self.any = self.any.take().or(other.any);
    }

    pub(super) fn listed(&self) -> impl Iterator<Item = &Method> {
        self.each.iter().map(|(method, _)| method)
    }

    /// A response to HEAD is one to GET without its body.
    fn with(&self, method: &Method) -> Option<&Answer<S>> {
        let exact = |wanted: &Method| self.each.iter().find(|(method, _)| method == wanted);
        let found = exact(method).or_else(|| match *method {
            Method::HEAD => exact(&Method::GET),
            _ => None,
        });
        found.map(|(_, answer)| answer).or(self.any.as_ref())
    }

    fn allowed(&self) -> HeaderValue {
        let mut names: Vec<&str> = self.listed().map(Method::as_str).collect();
        if names.contains(&"GET") {
            names.push("HEAD");
        }
        HeaderValue::from_str(&names.join(",")).expect("names of methods are visible")
    }
}

/// Without its type.
pub(super) fn erased<T: 'static, S: Send + Sync + 'static>(
    handler: impl Handler<T, S, Future = Answering>,
) -> Answer<S> {
    Arc::new(move |request, state| handler.clone().call(request, state))
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use http::StatusCode;

    use super::*;
    use crate::http::Operations;

    fn routes() -> Routes<u8, usize> {
        let get = |path| Operations::default().routed(path, [Method::GET], async || "body");
        let both = async |request: Request<Body>| {
            let found = parameters(&request.into_parts().0);
            found.map_or_else(|| "no text".to_owned(), |[one, two]| one + &two)
        };
        let operations = get("/jobs/{job}")
            .merge(Operations::default().routed("/jobs/{job}", [Method::PUT], async || "put"))
            .merge(get("/jobs/{job}/files"))
            .merge(Operations::default().any("/old/{*rest}", async || "gone"))
            .merge(Operations::default().routed("/nodes/{node}/at/{at}", [Method::POST], both));
        let refuse = |_: &Request<Body>| {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response
        };
        operations.routes(0, refuse, |path, methods| path.len() * methods.len())
    }

    async fn asked(method: Method, path: &str) -> (Response, String) {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let routes = routes();
        let response = routes.find(path).expect("it is found").answer(request).await;
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        (Response::from_parts(parts, Body::empty()), text)
    }

    #[tokio::test]
    async fn a_request_is_answered_by_the_operation_with_its_path_and_method() {
        for (method, path, body) in [
            (Method::GET, "/jobs/j-1", "body"),
            (Method::PUT, "/jobs/j-1", "put"),
            (Method::GET, "/jobs/j-1/files", "body"),
            (Method::TRACE, "/old/a/b", "gone"),
            (Method::POST, "/nodes/n%2F1/at/%C3%A4", "n/1ä"),
            (Method::POST, "/nodes/n/at/%FF", "no text"),
        ] {
            assert_eq!(asked(method, path).await.1, body, "{path}");
        }
        let routes = routes();
        for path in ["/", "/jobs", "/jobs/", "/jobs/j-1/", "/jobs/j-1/files/f", "/old", ""] {
            assert!(routes.find(path).is_none(), "{path}");
        }
        let found = routes.find("/jobs/j-1/files").unwrap();
        assert_eq!((found.pattern(), *found.meta()), ("/jobs/{job}/files", 17));
    }

    #[tokio::test]
    async fn the_head_of_a_response_says_how_long_its_body_is() {
        let (response, body) = asked(Method::HEAD, "/jobs/j-1").await;
        assert_eq!((response.status(), &*body), (StatusCode::OK, ""));
        assert_eq!(response.headers()[header::CONTENT_LENGTH], "4");
    }

    #[tokio::test]
    async fn a_method_that_the_path_does_not_have_is_refused_with_those_that_it_has() {
        for (path, allowed) in [("/jobs/j-1", "GET,PUT,HEAD"), ("/nodes/n/at/a", "POST")] {
            let (response, _) = asked(Method::DELETE, path).await;
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(response.headers()[header::ALLOW], allowed);
        }
    }
}
