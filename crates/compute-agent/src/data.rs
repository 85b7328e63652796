//! Data that enters and leaves this node: inputs, results, logs, and their transports.

pub(crate) mod archive;
mod checked;
pub(crate) mod credentials;
pub(crate) mod egress;
pub(crate) mod fetch;
pub(crate) mod handover;
pub(crate) mod inputs;
pub(crate) mod ipfs;
pub(crate) mod logs;
pub(crate) mod omitted;
pub(crate) mod progress;
pub(crate) mod results;
pub(crate) mod retention;
pub(crate) mod retry;
pub(crate) mod s3;
pub(crate) mod secrets;
