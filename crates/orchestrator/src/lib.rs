//! The daemon that schedules jobs and keeps them, and, as a library, its parts.

pub mod clock;
pub mod driver;
pub mod engine;
pub mod feed;
mod http;
mod json;
pub mod store;
mod submission;
pub mod view;
