//! A proxy in front of the Docker Engine that refuses chosen requests, as a damaged node does.
//!
//! Each connection carries one request, so that every request can be judged. Whatever the Engine
//! sends, streams and upgraded connections included, passes unchanged.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

/// The end of the head of a request or response.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// How long a refused client may take to close its connection.
const CLOSING: Duration = Duration::from_secs(1);

/// The name with which the agent's twins begin.
const TWIN: &str = "twin-";

/// What is broken on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    Starts,
    /// The network of containers on the bridge.
    Network,
    /// Mounts from below this directory.
    Mounts(PathBuf),
    /// The containers of this image.
    Image(String),
}

/// The proxy. Dropping it closes all connections.
#[derive(Debug)]
pub struct EngineProxy {
    directory: TempDir,
    seen: Arc<Mutex<Seen>>,
    forwarding: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    broken: Option<Broken>,
    /// The requests that created containers, by the containers' names and IDs.
    containers: HashMap<String, Value>,
    /// Names of twins that exist.
    twins: BTreeSet<String>,
    twins_made: usize,
    most_twins: usize,
    /// Starts of containers that were no twins and no sandboxes.
    starts: usize,
}

/// A request of the agent.
struct Request {
    method: String,
    /// Without the version of the API.
    path: String,
    head: Vec<u8>,
    body: Vec<u8>,
}

// === impl EngineProxy ===

impl EngineProxy {
    /// None where the Engine has no unix socket.
    pub fn open() -> Option<Self> {
        let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        let host = host.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
        let engine = PathBuf::from(host.strip_prefix("unix://")?);
        let directory = tempfile::Builder::new().prefix("engine-proxy-").tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("docker.sock")).unwrap();
        let seen = Arc::default();
        let forwarding = tokio::spawn(accept(listener, engine, Arc::clone(&seen)));
        Some(Self { directory, seen, forwarding })
    }

    /// The address of the proxy, for an agent's settings.
    pub fn host(&self) -> String {
        format!("unix://{}", self.directory.path().join("docker.sock").display())
    }

    pub fn breaks(&self, broken: Broken) {
        self.seen().broken = Some(broken);
    }

    pub fn is_repaired(&self) {
        self.seen().broken = None;
    }

    /// Twins created so far.
    pub fn twins_made(&self) -> usize {
        self.seen().twins_made
    }

    /// The most twins that existed at a time.
    pub fn most_twins(&self) -> usize {
        self.seen().most_twins
    }

    /// Requests to start the container of a task.
    pub fn starts(&self) -> usize {
        self.seen().starts
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

impl Drop for EngineProxy {
    fn drop(&mut self) {
        self.forwarding.abort();
    }
}

async fn accept(listener: UnixListener, engine: PathBuf, seen: Arc<Mutex<Seen>>) {
    // Dropping the set ends all connections.
    let mut connections = JoinSet::new();
    while let Ok((inside, _)) = listener.accept().await {
        let (engine, seen) = (engine.clone(), Arc::clone(&seen));
        connections.spawn(async move {
            // Either side may break a connection at any time.
            let _ = serve(inside, &engine, &seen).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut inside: UnixStream, engine: &Path, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let Some(request) = Request::read(&mut inside).await? else { return Ok(()) };
    let refused = seen.lock().unwrap().refusal(&request);
    if let Some(message) = refused {
        return refuse(inside, &message).await;
    }
    seen.lock().unwrap().passing(&request);
    let mut outside = UnixStream::connect(engine).await?;
    outside.write_all(&request.head).await?;
    outside.write_all(&request.body).await?;
    if request.created().is_none() {
        tokio::io::copy_bidirectional(&mut inside, &mut outside).await?;
        return Ok(());
    }
    let mut response = Vec::new();
    outside.read_to_end(&mut response).await?;
    seen.lock().unwrap().created(&request, &response);
    inside.write_all(&response).await
}

async fn refuse(mut inside: UnixStream, message: &str) -> std::io::Result<()> {
    let body = json!({ "message": message }).to_string();
    let head = format!(
        "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    inside.write_all(format!("{head}{body}").as_bytes()).await?;
    inside.shutdown().await?;
    // Unread bytes would break the connection before the answer is read.
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(CLOSING, inside.read_to_end(&mut rest)).await;
    Ok(())
}

// === impl Request ===

impl Request {
    /// Reads the head, and the whole body of a request that creates a container.
    async fn read(inside: &mut UnixStream) -> std::io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(HEAD_END.len()).position(|part| part == HEAD_END) {
                break at + HEAD_END.len();
            }
            if inside.read_buf(&mut bytes).await? == 0 {
                return Ok(None);
            }
        };
        let mut body = bytes.split_off(end);
        let head = String::from_utf8_lossy(&bytes).into_owned();
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let path = without_version(words.next().unwrap_or_default());
        let header = |name: &str| {
            let named = head.split("\r\n").filter_map(|line| line.split_once(':'));
            let mut values = named.filter(|(found, _)| found.eq_ignore_ascii_case(name));
            values.next().map(|(_, value)| value.trim().to_owned())
        };
        let is_upgrade = header("upgrade").is_some();
        let length: usize = header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        if path.starts_with("/containers/create") {
            while body.len() < length {
                if inside.read_buf(&mut body).await? == 0 {
                    return Ok(None);
                }
            }
        }
        let head = match is_upgrade {
            true => bytes,
            // One request for each connection.
            false => [&bytes[..end - 2], b"Connection: close\r\n\r\n"].concat(),
        };
        Ok(Some(Self { method, path, head, body }))
    }

    /// The container that this request is about, by its name or ID.
    fn container(&self) -> Option<&str> {
        self.path.strip_prefix("/containers/")?.split(['/', '?']).next()
    }

    /// The name of the container that this request creates.
    fn created(&self) -> Option<&str> {
        let query = self.path.strip_prefix("/containers/create?")?;
        query.split('&').find_map(|pair| pair.strip_prefix("name="))
    }

    fn starts(&self) -> Option<&str> {
        let is_start = self.path.split('?').next()?.ends_with("/start");
        (self.method == "POST" && is_start).then(|| self.container()).flatten()
    }
}

fn without_version(path: &str) -> String {
    let mut parts = path.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(""), Some(version), Some(rest)) if version.starts_with('v') => format!("/{rest}"),
        _ => path.to_owned(),
    }
}

// === impl Seen ===

impl Seen {
    fn refusal(&mut self, request: &Request) -> Option<String> {
        let started = request.starts()?;
        let container = self.containers.get(started);
        let name = container.map_or(started, |it| it["Name"].as_str().unwrap_or_default());
        if name.starts_with("execution-") {
            self.starts += 1;
        }
        let container = container.unwrap_or(&Value::Null);
        match self.broken.as_ref()? {
            Broken::Starts => Some("the runtime is broken".to_owned()),
            Broken::Network => (container["HostConfig"]["NetworkMode"] == "bridge")
                .then(|| "no network can be made".to_owned()),
            Broken::Mounts(below) => {
                let mounts = container["HostConfig"]["Mounts"].as_array();
                let mut sources =
                    mounts.into_iter().flatten().filter_map(|it| it["Source"].as_str());
                let source = sources.find(|source| Path::new(source).starts_with(below))?;
                Some(format!("cannot mount '{source}'"))
            }
            Broken::Image(image) => (container["Image"] == image.as_str())
                .then(|| format!("a layer of '{image}' is damaged")),
        }
    }

    fn created(&mut self, request: &Request, response: &[u8]) {
        let Some(name) = request.created() else { return };
        let Some(at) = response.windows(HEAD_END.len()).position(|part| part == HEAD_END) else {
            return;
        };
        // A response in chunks has their lengths around the JSON.
        let text = String::from_utf8_lossy(&response[at..]).into_owned();
        let id = text.split("\"Id\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let (Some(id), Ok(mut body)) = (id, serde_json::from_slice::<Value>(&request.body)) else {
            return;
        };
        body["Name"] = json!(name);
        self.containers.insert(id.to_owned(), body.clone());
        self.containers.insert(name.to_owned(), body);
        if name.starts_with(TWIN) {
            self.twins_made += 1;
            self.twins.insert(name.to_owned());
            self.most_twins = self.most_twins.max(self.twins.len());
        }
    }

    /// Before the agent can create the next.
    fn passing(&mut self, request: &Request) {
        if request.method == "DELETE"
            && let Some(container) = request.container()
            && let Some(name) = self.containers.get(container).and_then(|it| it["Name"].as_str())
        {
            self.twins.remove(name);
        }
    }
}
