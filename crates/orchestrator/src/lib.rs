//! The daemon that schedules and stores jobs and, as a library, its parts.

mod access;
mod app;
mod changes;
pub mod clock;
mod cluster;
mod credentials;
pub mod driver;
pub mod feed;
mod files;
mod http;
mod identity;
mod issuer;
mod json;
mod keys;
mod logs;
mod metrics;
mod names;
pub mod observer;
mod protection;
mod reads;
mod records;
mod rotation;
mod secrets;
pub mod settings;
mod spans;
mod specs;
mod submission;
pub mod view;

pub use app::{Orchestrator, StartError};
pub use issuer::IssuerError;
pub use protection::{Protection, ProtectionError};
pub use settings::Settings;
