//! A Docker Engine that knows the requests of an agent, and records every other one.
//!
//! It runs nothing: a started container has ended with code 0. What it checks is the form of
//! requests: methods, paths, queries and headers are matched against a list, byte by byte as they
//! were sent, so that no text of a job can turn one request into another.

mod forms;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use axum::body::Body;
use forms::Call;

/// Bytes of the largest request: a container of a job with the longest arguments.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// The output of every task, as the Engine frames it.
const OUTPUT: &[u8] = b"\x01\0\0\0\0\0\0\x232026-01-02T03:04:05.000000006Z done\n";

/// An Engine on a Unix socket; dropping it stops it.
#[derive(Debug)]
pub struct DockerEngine {
    directory: TempDir,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

/// How the Engine answers one kind of request.
#[derive(Debug, Clone)]
pub enum Reply {
    Status(u16, Bytes),
    /// This chunk again and again, without end.
    Endless(u16, Bytes),
    /// A head, and then nothing.
    Silence(u16),
    /// Bytes that replace the whole answer, again and again, head included.
    Raw(Bytes),
}

#[derive(Debug, Default)]
struct State {
    images: Mutex<HashSet<String>>,
    containers: Mutex<HashMap<String, Container>>,
    violations: Mutex<Vec<String>>,
    created: Mutex<Vec<Value>>,
    replies: Mutex<HashMap<&'static str, Reply>>,
    served: Mutex<Vec<&'static str>>,
}

#[derive(Debug, Clone)]
struct Container {
    config: Value,
    status: &'static str,
}

// === impl DockerEngine ===

impl DockerEngine {
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("engine-").tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("docker.sock")).unwrap();
        let state = Arc::<State>::default();
        let serving = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                tokio::spawn(serve(stream, state));
            }
        });
        Self { directory, state, accepting }
    }

    /// The address, for an agent's settings.
    pub fn host(&self) -> String {
        format!("unix://{}", self.directory.path().join("docker.sock").display())
    }

    /// The Engine has an image of this name.
    pub fn add_image(&self, name: &str) {
        self.state.images.lock().unwrap().insert(name.to_owned());
    }

    /// Answers requests of this kind (the name of the operation in the Engine's API, such as
    /// `ContainerInspect`) in this way from now on.
    pub fn reply(&self, operation: &'static str, reply: Reply) {
        self.state.replies.lock().unwrap().insert(operation, reply);
    }

    /// Every request that an agent never makes.
    pub fn violations(&self) -> Vec<String> {
        self.state.violations.lock().unwrap().clone()
    }

    /// The bodies of the requests for containers since the last call.
    pub fn created(&self) -> Vec<Value> {
        std::mem::take(&mut *self.state.created.lock().unwrap())
    }

    /// The operations that were served so far.
    pub fn served(&self) -> Vec<&'static str> {
        self.state.served.lock().unwrap().clone()
    }
}

impl Drop for DockerEngine {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

// === impl State ===

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let shown = format!("{} {}", request.method(), request.uri());
        let call = match forms::parse(&request) {
            Ok(call) => call,
            Err(problem) => return self.violation(format!("{shown}: {problem}")),
        };
        let (head, body) = request.into_parts();
        let Ok(body) = axum::body::to_bytes(Body::new(body), MAX_REQUEST_BYTES).await else {
            return self.violation(format!("{shown}: its body cannot be read"));
        };
        self.served.lock().unwrap().push(call.operation());
        let reply = self.replies.lock().unwrap().get(call.operation()).cloned();
        if let Some(reply) = reply {
            return reply.response();
        }
        match self.carry_out(&call, &body) {
            Ok(response) if head.method == Method::HEAD => response.map(|_| Body::empty()),
            Ok(response) => response,
            Err(problem) => self.violation(format!("{shown}: {problem}")),
        }
    }

    fn violation(&self, violation: String) -> Response<Body> {
        let answer = error(400, &violation);
        self.violations.lock().unwrap().push(violation);
        answer
    }

    fn carry_out(&self, call: &Call, body: &[u8]) -> Result<Response<Body>, String> {
        let mut containers = self.containers.lock().unwrap();
        Ok(match call {
            Call::Version => answer(&json!({ "ApiVersion": "1.41", "Version": "20.10.24" })),
            Call::Info => answer(&json!({})),
            Call::DiskUsage => answer(&json!({ "Volumes": [] })),
            Call::ListImages | Call::ListContainers => answer(&json!([])),
            Call::InspectImage(name) => match self.images.lock().unwrap().contains(name) {
                true => answer(&json!({ "Id": format!("sha256:{}", "1".repeat(64)) })),
                false => error(404, &format!("No such image: {name}")),
            },
            Call::RemoveImage(_) => answer(&json!([])),
            Call::PullImage { name, tag } => {
                self.images.lock().unwrap().insert(format!("{name}:{tag}"));
                self.images.lock().unwrap().insert(name.clone());
                answer(&json!({ "status": "Download complete" }))
            }
            Call::LoadImage => answer(&json!({ "stream": "Loaded image" })),
            Call::Create { name } => {
                let config: Value = serde_json::from_slice(body).map_err(|error| {
                    format!("the description of a container is no JSON: {error}")
                })?;
                self.created.lock().unwrap().push(config.clone());
                if containers.contains_key(name) {
                    return Ok(error(409, "the name is in use"));
                }
                containers.insert(name.clone(), Container { config, status: "created" });
                let id = json!({ "Id": name, "Warnings": [] });
                with_status(201, Body::from(id.to_string()))
            }
            Call::OfContainer { name, what } => match containers.get_mut(name) {
                None => error(404, &format!("No such container: {name}")),
                Some(container) => match *what {
                    "remove" => {
                        containers.remove(name);
                        with_status(204, Body::empty())
                    }
                    what => container.answer(name, what)?,
                },
            },
        })
    }
}

// === impl Container ===

impl Container {
    fn answer(&mut self, name: &str, what: &str) -> Result<Response<Body>, String> {
        Ok(match what {
            "inspect" => answer(&json!({
                "Id": name,
                "Config": { "Image": self.config["Image"], "Labels": self.config["Labels"] },
                "HostConfig": { "NetworkMode": self.config["HostConfig"]["NetworkMode"] },
                "State": { "Status": self.status, "Running": false, "ExitCode": 0 },
            })),
            "start" => {
                self.status = "exited";
                with_status(204, Body::empty())
            }
            "stop" => with_status(304, Body::empty()),
            "wait" => answer(&json!({ "StatusCode": 0 })),
            "stats" => answer(&json!({})),
            "logs" => with_status(200, Body::from(OUTPUT)),
            "read archive" => with_status(200, Body::from(vec![0; 1024])),
            "write archive" | "look into archive" => with_status(200, Body::empty()),
            other => return Err(format!("nothing does '{other}' with a container")),
        })
    }
}

// === impl Reply ===

impl Reply {
    fn response(self) -> Response<Body> {
        match self {
            Self::Status(status, body) => with_status(status, Body::from(body)),
            Self::Endless(status, chunk) => {
                let chunks = stream::repeat(chunk).map(Ok::<_, Infallible>);
                with_status(status, Body::from_stream(chunks))
            }
            Self::Silence(status) => {
                let nothing = stream::pending::<Result<Bytes, Infallible>>();
                with_status(status, Body::from_stream(nothing))
            }
            // Never reached: the connection is taken over before HTTP is spoken.
            Self::Raw(_) => error(500, "a raw answer has no response"),
        }
    }
}

async fn serve(stream: tokio::net::UnixStream, state: Arc<State>) {
    let raw = state.replies.lock().unwrap().get("Raw").cloned();
    if let Some(Reply::Raw(bytes)) = raw {
        use tokio::io::AsyncWriteExt;
        let mut stream = stream;
        while stream.write_all(&bytes).await.is_ok() {}
        return;
    }
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.answer(request).await) }
    });
    // The agent reports a broken connection.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn answer(value: &Value) -> Response<Body> {
    with_status(200, Body::from(format!("{value}\n")))
}

fn error(status: u16, message: &str) -> Response<Body> {
    with_status(status, Body::from(json!({ "message": message }).to_string()))
}

fn with_status(status: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
