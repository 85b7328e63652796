//! A way to the Docker Engine that a test can close: to an agent behind it the Engine is away.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

/// Listens on a socket of its own and passes everything on to the Engine's.
#[derive(Debug)]
pub struct DockerDoor {
    directory: TempDir,
    engine: PathBuf,
    passing: Option<JoinHandle<()>>,
}

// === impl DockerDoor ===

impl DockerDoor {
    /// An open door. None where the Engine is not reached by a unix socket.
    pub fn open_to_docker() -> Option<Self> {
        let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        let host = host.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
        let Some(engine) = host.strip_prefix("unix://") else {
            eprintln!("skipped: {host} is no unix socket");
            return None;
        };
        let directory = tempfile::Builder::new()
            .prefix("testbed-door-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot make a temporary directory: {error}"));
        let mut door = Self { directory, engine: engine.into(), passing: None };
        door.open();
        Some(door)
    }

    /// What an agent takes for the Engine's address.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn open(&mut self) {
        let listener = UnixListener::bind(self.socket())
            .unwrap_or_else(|error| panic!("cannot open the door to docker: {error}"));
        self.passing = Some(tokio::spawn(pass(listener, self.engine.clone())));
    }

    /// Ends every connection, and refuses new ones.
    pub async fn close(&mut self) {
        if let Some(passing) = self.passing.take() {
            passing.abort();
            // It ends as cancelled; by then its connections are closed.
            let _ = passing.await;
        }
        std::fs::remove_file(self.socket()).unwrap_or_else(|error| panic!("{error}"));
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("docker.sock")
    }
}

async fn pass(listener: UnixListener, engine: PathBuf) {
    // Aborted with this task, all of them.
    let mut connections = JoinSet::new();
    while let Ok((inside, _)) = listener.accept().await {
        connections.spawn(connect(inside, engine.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(mut inside: UnixStream, engine: impl AsRef<Path>) {
    if let Ok(mut outside) = UnixStream::connect(engine).await {
        // A connection that breaks is what this is for.
        let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
    }
}
