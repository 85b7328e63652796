//! Why an orchestrator does not start.

use std::io;
use std::net::SocketAddr;

use control_plane::store::StoreError;
use telemetry::traces::OtlpError;
use tokio::sync::oneshot;

use crate::access::bootstrap::BootstrapError;
use crate::access::left_token::LeaveTokenError;
use crate::driver::DriverError;
use crate::identity::IdentityError;
use crate::issuer::IssuerError;
use crate::keys::KeyError;
use crate::members::MembersError;
use crate::protection::ProtectionError;
use crate::settings::DatabaseError;

/// Why the orchestrator failed to start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("read the orchestrator's identity")]
    Identity(#[from] IdentityError),
    #[error("open the key ring")]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Members(#[from] MembersError),
    #[error("set up the issuer of ID tokens")]
    Issuer(#[from] IssuerError),
    #[error("protect the listener")]
    Protection(#[from] ProtectionError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("open the state database")]
    Store(#[from] StoreError),
    #[error("start the driver")]
    Driver(#[from] DriverError),
    #[error("send traces over OTLP")]
    Otlp(#[from] OtlpError),
    #[error("leave a join token in its file")]
    JoinToken(#[from] LeaveTokenError),
    #[error("make the first token")]
    FirstToken(#[from] BootstrapError),
    #[error("start a thread that opens the state")]
    Thread(#[source] io::Error),
    #[error("the thread that opens the state panicked")]
    Opening(#[from] oneshot::error::RecvError),
    #[error("the wait for the lead was given up")]
    GaveUp,
}

// === impl StartError ===

impl StartError {
    /// Whether the operator's settings are at fault.
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Keys(error) => error.is_of_settings(),
            Self::Members(error) => error.is_of_settings(),
            Self::Protection(error) => error.is_of_settings(),
            Self::Issuer(_) | Self::Database(_) => true,
            _ => false,
        }
    }
}
