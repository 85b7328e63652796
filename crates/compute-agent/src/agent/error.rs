//! Why an agent cannot start, or does not go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use api_types::NodeId;
use telemetry::traces::OtlpError;

use crate::host::data_dir::DataDirError;
use crate::host::settings::InvalidSettings;
use crate::http::local_token::LocalTokenError;
use crate::node::ledger::LedgerError;
use crate::session::enrolment::EnrolError;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("cannot listen on {address}: {source}; set another address with listen")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Enrol(#[from] EnrolError),
    #[error(
        "the certificate in the data directory is that of {enrolled}, and the executions there are \
         those of {own}; move identity.json away and join with a token made by `jobctl node token \
         --for {own}`"
    )]
    OtherNode { own: NodeId, enrolled: NodeId },
    /// Its tasks continue: on the same machine, they are the other agent's.
    #[error("another agent has the identity of this one, which ends: {reason} ({})", data_dir.display())]
    Copy { reason: String, data_dir: PathBuf },
    #[error(transparent)]
    LocalToken(#[from] LocalTokenError),
    #[error("cannot detect the capacity of this machine: {0}; set it with capacity")]
    Capacity(#[source] io::Error),
    #[error("start the thread of heartbeats")]
    Thread(#[source] io::Error),
    #[error("send traces over OTLP")]
    Otlp(#[from] OtlpError),
}
