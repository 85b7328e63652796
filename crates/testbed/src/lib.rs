//! The process harness: real daemons on free ports, and a separate cluster for each test.
//!
//! No part of the service depends on this crate.

pub mod fleet;
pub mod harness;
pub mod issuer;
pub mod python;
