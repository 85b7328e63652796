//! The parts put together: one orchestrator that runs, for the daemon and for whole clusters in
//! one process.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use api_types::NodeId;
use daemon::Pulse;
use telemetry::traces::{OtlpError, Tracer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::driver::{self, Driver, DriverError};
use crate::http::{self, Api, Own, Places, Reader, SpecCache};
use crate::identity::{Identity, IdentityError};
use crate::observer::Observer;
use crate::settings::Settings;
use crate::store::{StoreError, sqlite};
use crate::submission::Requester;
use crate::view::View;

/// An orchestrator that runs. Dropped without [`Orchestrator::shutdown`], it stops without
/// waiting for requests under way.
pub struct Orchestrator {
    address: SocketAddr,
    node_id: NodeId,
    stopping: CancellationToken,
    server: JoinHandle<()>,
    driver: Driver,
    tracer: Tracer,
}

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("read the orchestrator's identity")]
    Identity(#[from] IdentityError),
    #[error("open the state database")]
    Store(#[from] StoreError),
    #[error("start the driver")]
    Driver(#[from] DriverError),
    #[error("send traces over OTLP")]
    Otlp(#[from] OtlpError),
    #[error("start a blocking task")]
    Task(#[from] tokio::task::JoinError),
}

// === impl Orchestrator ===

impl Orchestrator {
    /// Answers when the API is served.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;

        let (engine, retention) = (settings.engine(), settings.retention());
        let view = Arc::new(View::default());
        let (identity, reads, handle, driver, observer) = {
            let (view, data_dir) = (Arc::clone(&view), settings.data_dir.clone());
            let otlp = settings.otlp.clone();
            // Reads the whole live state: seconds for a large one.
            tokio::task::spawn_blocking(move || {
                let identity = Identity::load_or_make(&data_dir)?;
                let instance = identity.node_id.to_string();
                let observer = Observer::new(Tracer::start(&otlp, "orchestrator", instance)?);
                let (store, reads) = sqlite::open(&data_dir)?;
                let (handle, driver) =
                    driver::start(Box::new(store), view, engine, retention, observer.clone())?;
                Ok::<_, StartError>((identity, reads, handle, driver, observer))
            })
            .await??
        };

        let stopping = CancellationToken::new();
        let node_id = identity.node_id;
        let requester = Requester { id: node_id.to_string(), public_key: identity.public_key };
        let tracer = observer.tracer.clone();
        let api = Arc::new(Api {
            handle,
            reader: Reader::new(reads),
            view,
            own: Own { id: node_id, address, labels: labels(), requester },
            lease_seconds: settings.node_ttl,
            specs: SpecCache::default(),
            relay: Arc::default(),
            waiting: Places::of_waiting_reads(),
            streams: Places::of_event_streams(),
            large_bodies: Places::of_large_bodies(),
            log_readers: Places::of_log_readers(),
            observer,
            stopping: stopping.clone(),
        });
        let server = tokio::spawn(http::serve::serve(listener, api, stopping.clone()));
        Ok(Self { address, node_id, stopping, server, driver, tracer })
    }

    /// Where the API is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// Beats while the driver makes progress.
    pub fn pulse(&self) -> Pulse {
        self.driver.pulse()
    }

    /// Waits until it cannot go on; while it can, this never returns.
    pub async fn failed(&mut self) -> Option<DriverError> {
        self.driver.ended().await.err()
    }

    /// Answers the requests under way, ends the streams and closes the database.
    pub async fn shutdown(mut self) -> Result<(), DriverError> {
        self.stopping.cancel();
        if let Err(error) = (&mut self.server).await {
            tracing::error!(%error, "the server ended badly");
        }
        // The last handle went with the last connection.
        let ended = self.driver.ended().await;
        self.tracer.shutdown().await;
        ended
    }
}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

fn labels() -> BTreeMap<String, String> {
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    BTreeMap::from([
        ("Operating-System".to_owned(), std::env::consts::OS.to_owned()),
        ("Architecture".to_owned(), api_types::version::VersionRecord::current().goarch),
        ("hostname".to_owned(), hostname),
    ])
}
