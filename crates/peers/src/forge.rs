//! Real git repositories: on disk, and behind HTTP servers.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use tokio::io::AsyncWriteExt;

use crate::Serving;

/// A work tree and the bare repository that it pushes to.
#[derive(Debug)]
pub struct Forge {
    dir: tempfile::TempDir,
}

/// HTTP transport of a git server.
#[derive(Debug, Clone, Copy)]
pub enum Service {
    /// The smart protocol, by `git http-backend`.
    Smart,
    /// The same, for requests with this `Authorization` alone.
    SmartFor(&'static str),
    /// The dumb protocol: plain files.
    Dumb,
}

/// Probes for a program that tests need; panics instead of returning `None` when `CI` is set.
pub fn needs(name: &str, arguments: &[&str]) -> Option<()> {
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Some(());
    }
    assert!(std::env::var_os("CI").is_none(), "these tests need {name} {arguments:?}");
    None
}

// === impl Forge ===

impl Forge {
    /// Creates the repositories; `None` when git is not installed.
    pub fn new() -> Option<Self> {
        needs("git", &["--version"])?;
        let forge = Self { dir: tempfile::tempdir().unwrap() };
        forge.git("init --quiet --bare --initial-branch=main bare.git");
        forge.git("init --quiet --initial-branch=main tree");
        forge.in_tree("remote add origin ../bare.git");
        Some(forge)
    }

    /// The directory that contains `bare.git` and `tree`.
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }

    pub fn output(&self, directory: &str, arguments: &[&str]) -> Output {
        Command::new("git")
            .args(arguments)
            .current_dir(self.dir.path().join(directory))
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].iter().flat_map(|who| {
                [(format!("GIT_{who}_NAME"), "a"), (format!("GIT_{who}_EMAIL"), "a@example")]
            }))
            .output()
            .unwrap()
    }

    pub fn call(&self, directory: &str, arguments: &str) -> String {
        let arguments: Vec<_> = arguments.split(' ').collect();
        let output = self.output(directory, &arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub fn git(&self, arguments: &str) -> String {
        self.call(".", arguments)
    }

    pub fn in_tree(&self, arguments: &str) -> String {
        self.call("tree", arguments)
    }

    pub fn write(&self, path: &str, bytes: &[u8]) {
        std::fs::write(self.dir.path().join("tree").join(path), bytes).unwrap();
    }

    /// Commits the file and pushes it to the branch; returns the commit id.
    pub fn commit(&self, path: &str, bytes: &[u8], branch: &str) -> String {
        self.write(path, bytes);
        self.in_tree("add --all");
        self.in_tree("commit --quiet --allow-empty --message=x");
        self.in_tree(&format!("push --quiet --force origin HEAD:refs/heads/{branch}"));
        self.in_tree("rev-parse HEAD")
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.dir.path().join("bare.git").display())
    }

    /// Serves the repository; the returned URL redirects to it.
    pub async fn serve(&self, service: Service) -> (String, Serving) {
        let root = self.dir.path().to_owned();
        let router = axum::Router::new().fallback(respond).with_state((root, service));
        let serving = Serving::start(router).await;
        (format!("{}/moved/bare.git", serving.url), serving)
    }
}

async fn respond(State((root, service)): State<(PathBuf, Service)>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let response = |status, body: Body| Response::builder().status(status).body(body).unwrap();
    if let Some(path) = parts.uri.to_string().strip_prefix("/moved") {
        let moved = Response::builder().status(StatusCode::FOUND).header("location", path);
        return moved.body(Body::empty()).unwrap();
    }
    if let Service::Dumb = service {
        let path = root.join(parts.uri.path().trim_start_matches('/'));
        return match std::fs::read(path) {
            Ok(bytes) => response(StatusCode::OK, bytes.into()),
            Err(_) => response(StatusCode::NOT_FOUND, Body::empty()),
        };
    }
    let wanted = if let Service::SmartFor(login) = service { Some(login) } else { None };
    let login = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
    if wanted.is_some() && wanted != login {
        return response(StatusCode::UNAUTHORIZED, Body::empty());
    }
    let header =
        |name: &str| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&body).await.unwrap();
    let output = child.wait_with_output().await.unwrap().stdout;
    let split = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..split]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(&value[..3]),
            _ => response.header(name, value),
        };
    }
    response.body(Body::from(output[split + 4..].to_vec())).unwrap()
}
