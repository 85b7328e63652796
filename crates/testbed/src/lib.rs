//! Whole clusters for people and tests: the task image, the process harness, the demo.
//!
//! Nothing of the service depends on this crate; it sees all of it from outside.

pub mod bench;
pub mod demo;
pub mod docker;
pub mod harness;
pub mod image;
pub mod random;
pub mod sim;
