//! The small Docker image of the demo, the benchmarks and the tests, and their access to the Docker
//! Engine.

pub mod docker;
pub mod image;
