//! The daemon that schedules jobs and keeps them, and, as a library, its parts.

mod app;
pub mod clock;
pub mod driver;
pub mod engine;
pub mod feed;
mod http;
mod identity;
mod json;
mod metrics;
pub mod observer;
pub mod settings;
mod spans;
pub mod store;
mod submission;
pub mod view;

pub use app::{Orchestrator, StartError};
pub use settings::Settings;
