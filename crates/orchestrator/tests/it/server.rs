//! A separate orchestrator for every test, and a client for it.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use orchestrator::driver::DriverError;
use orchestrator::{Orchestrator, Settings};
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::front::{self, Front};

/// Longer than any successful step takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The lease in seconds: a fake node sends no heartbeats, and a loaded machine may take its time.
const LONGER_THAN_A_TEST: u64 = 3600;

thread_local! {
    /// Method and path of each request by the test on this thread.
    static REQUESTS: RefCell<Vec<(Method, String)>> = const { RefCell::new(Vec::new()) };
}

/// Runs a test, and returns its requests.
pub(crate) fn requests_of(test: fn()) -> Vec<(Method, String)> {
    REQUESTS.take();
    test();
    REQUESTS.take()
}

pub(crate) struct Server {
    orchestrator: Option<Orchestrator>,
    front: Option<Front>,
    settings: Settings,
    client: reqwest::Client,
    _directory: TempDir,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null when the text is not JSON.
    pub(crate) body: Value,
}

// === impl Server ===

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(Settings) -> Settings) -> Self {
        // Fails harmlessly if another test of this process has installed it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let directory = tempfile::tempdir().expect("make a directory");
        let settings = change(Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: directory.path().join("data"),
            node_ttl: LONGER_THAN_A_TEST,
            ..Settings::default()
        });
        let (orchestrator, front) = front::start(&settings).await;
        let client = client_of(&orchestrator);
        let orchestrator = Some(orchestrator);
        Self { orchestrator, front, settings, client, _directory: directory }
    }

    /// One that was started otherwise, whose directory is another's.
    pub(crate) fn of(orchestrator: Orchestrator, settings: Settings) -> Self {
        let client = client_of(&orchestrator);
        let directory = tempfile::tempdir().expect("make a directory");
        let orchestrator = Some(orchestrator);
        Self { orchestrator, front: None, settings, client, _directory: directory }
    }

    /// Why it cannot continue, once that is so.
    pub(crate) async fn failed(&mut self) -> Option<DriverError> {
        self.orchestrator.as_mut().expect("it runs").failed().await
    }

    /// Stops it and starts it again on the same data.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        let (orchestrator, front) = front::start(&self.settings).await;
        self.client = client_of(&orchestrator);
        (self.orchestrator, self.front) = (Some(orchestrator), front);
    }

    /// The same with other settings.
    pub(crate) async fn restart_with(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        self.restart().await;
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn data_dir(&self) -> &Path {
        &self.settings.data_dir
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(orchestrator) = self.orchestrator.take() {
            // What still holds the API keeps the process from ending.
            let stopped = tokio::time::timeout(PATIENCE, orchestrator.shutdown()).await;
            stopped.expect("it stops").expect("stop the orchestrator");
        }
    }

    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// The same, with connections from this address of the machine.
    pub(crate) fn client_from(&self, own: [u8; 4]) -> reqwest::Client {
        client_builder(self.running()).local_address(IpAddr::from(own)).build().expect("a client")
    }

    pub(crate) fn status_address(&self) -> Option<SocketAddr> {
        self.running().status_address()
    }

    fn running(&self) -> &Orchestrator {
        self.orchestrator.as_ref().expect("it runs")
    }

    /// That of the follower in front, if there is one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.front.as_ref().map_or_else(|| self.running().address(), Front::address)
    }

    /// Without a path.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.running().protection().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    pub(crate) fn node_id(&self) -> String {
        self.running().node_id().to_string()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let asked = path.split('?').next().unwrap_or_default().to_owned();
        REQUESTS.with_borrow_mut(|requests| requests.push((method.clone(), asked)));
        let url = format!("{}{path}", self.url());
        self.client.request(method, url).timeout(PATIENCE)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        answer(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        answer(self.request(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// A raw body, sent as JSON.
    pub(crate) async fn put_text(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.request(Method::PUT, path).header("Content-Type", "application/json");
        answer(request.body(body)).await
    }

    /// Submits a job and returns its ID.
    pub(crate) async fn submit(&self, job: Value) -> String {
        let answer = self.put(JOBS, &json!({ "Job": job })).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        text(&answer.body["JobID"])
    }

    /// Sends raw bytes, and returns everything received until the connection closes.
    pub(crate) async fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address()).await.expect("connect");
        stream.write_all(request).await.expect("send");
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("the connection closes in time")
            .expect("receive");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Trusts the CA of the orchestrator, if it has one.
fn client_of(orchestrator: &Orchestrator) -> reqwest::Client {
    client_builder(orchestrator).build().expect("make a client")
}

fn client_builder(orchestrator: &Orchestrator) -> reqwest::ClientBuilder {
    let none = reqwest::redirect::Policy::none();
    let mut builder = reqwest::Client::builder().no_proxy().redirect(none);
    if let Some(protection) = orchestrator.protection() {
        let ca = std::fs::read(protection.ca_file()).expect("the CA");
        let ca = reqwest::Certificate::from_pem(&ca).expect("a certificate");
        builder = builder.tls_certs_only([ca]);
    }
    builder
}

pub(crate) const JOBS: &str = "/api/v1/orchestrator/jobs";

pub(crate) fn job_path(id: &str) -> String {
    format!("{JOBS}/{id}")
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.expect("a whole body");
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Answer { status, headers, text, body }
}

// === impl Answer ===

impl Answer {
    /// Asserts that the envelope is complete and has this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.body["Status"], status, "{}", self.text);
        assert_eq!(self.body["Code"], code, "{}", self.text);
        assert!(!text(&self.body["Message"]).is_empty(), "{}", self.text);
        assert_eq!(self.body["RequestID"], self.header("x-request-id"), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, part: &str) -> &Self {
        assert!(text(&self.body["Message"]).contains(part), "{part:?} is not in {}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> &Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        &self.body
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
    }

    /// `path: reason` of every detail.
    #[track_caller]
    pub(crate) fn problems(&self) -> Vec<String> {
        self.refused(400, text(&self.body["Code"]).as_str());
        list(&self.body["Details"])
            .iter()
            .map(|detail| format!("{}: {}", text(&detail["Path"]), text(&detail["Reason"])))
            .collect()
    }
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("expected a string, got {value}")).to_owned()
}

#[track_caller]
pub(crate) fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("expected an array, got {value}"))
}

/// A job with one docker task and no optional field.
pub(crate) fn plain_job() -> Value {
    json!({
        "Type": "batch",
        "Tasks": [{
            "Name": "main",
            "Engine": { "Type": "docker", "Params": { "Image": "image:1" } },
        }],
    })
}

/// The same with some fields replaced or added.
pub(crate) fn job_with(fields: Value) -> Value {
    merged(plain_job(), fields)
}

/// The same with fields of its task replaced or added.
pub(crate) fn task_with(fields: Value) -> Value {
    let mut job = plain_job();
    let task = job["Tasks"][0].take();
    job["Tasks"][0] = merged(task, fields);
    job
}

pub(crate) fn merged(mut base: Value, fields: Value) -> Value {
    let (Some(target), Value::Object(fields)) = (base.as_object_mut(), fields) else {
        panic!("expected objects");
    };
    target.extend(fields);
    base
}

/// The value with everything that differs between runs replaced: ids by their letter, times by `T`.
pub(crate) fn redacted(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(redacted_text(text)),
        Value::Number(number) if number.to_string().len() == 19 => Value::from("T"),
        Value::Array(items) => items.iter().map(redacted).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), redacted(value))).collect()
        }
        other => other.clone(),
    }
}

fn redacted_text(text: &str) -> String {
    let is_uuid = |part: &str| {
        part.len() == 36
            && part.chars().enumerate().all(|(at, c)| match at {
                8 | 13 | 18 | 23 => c == '-',
                _ => c.is_ascii_hexdigit(),
            })
    };
    if text.len() == 30 && text.ends_with('Z') && text.contains('T') {
        return "T".to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let id = rest.get(..38).filter(|id| {
            id.starts_with(['j', 'e', 'n', 'v']) && id.get(1..2) == Some("-") && is_uuid(&id[2..])
        });
        match id {
            Some(id) => {
                out.push_str(&id[..2]);
                out.push('…');
                rest = &rest[38..];
            }
            None => {
                out.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    out
}
