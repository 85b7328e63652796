//! A proxy for the Docker Engine's socket that a test can close, to simulate an unreachable Engine.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

/// Listens on a separate socket and forwards everything to the Engine's socket.
#[derive(Debug)]
pub struct DockerProxy {
    directory: TempDir,
    engine: PathBuf,
    forwarding: Option<JoinHandle<()>>,
}

// === impl DockerProxy ===

impl DockerProxy {
    /// Opens the proxy; `None` when the Engine does not have a unix socket.
    pub fn open_to_docker() -> Option<Self> {
        let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        let host = host.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
        let Some(engine) = host.strip_prefix("unix://") else {
            eprintln!("skipped: {host} is not a unix socket");
            return None;
        };
        let directory = tempfile::Builder::new()
            .prefix("testbed-proxy-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot create a temporary directory: {error}"));
        let mut proxy = Self { directory, engine: engine.into(), forwarding: None };
        proxy.open();
        Some(proxy)
    }

    /// The address of the proxy, for an agent's settings.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn open(&mut self) {
        let listener = UnixListener::bind(self.socket())
            .unwrap_or_else(|error| panic!("cannot open the proxy to docker: {error}"));
        self.forwarding = Some(tokio::spawn(pass(listener, self.engine.clone())));
    }

    /// Closes all connections and refuses new ones.
    pub async fn close(&mut self) {
        if let Some(forwarding) = self.forwarding.take() {
            forwarding.abort();
            // Ends as cancelled, after its connections are closed.
            let _ = forwarding.await;
        }
        std::fs::remove_file(self.socket()).unwrap_or_else(|error| panic!("{error}"));
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("docker.sock")
    }
}

async fn pass(listener: UnixListener, engine: PathBuf) {
    // Dropping the set aborts all connections.
    let mut connections = JoinSet::new();
    while let Ok((inside, _)) = listener.accept().await {
        connections.spawn(connect(inside, engine.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(mut inside: UnixStream, engine: impl AsRef<Path>) {
    if let Ok(mut outside) = UnixStream::connect(engine).await {
        // Tests break connections on purpose.
        let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
    }
}
