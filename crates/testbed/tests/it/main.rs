//! End to end: real daemons in real processes, real docker, over HTTP.
//!
//! Each test has a cluster of its own and says in its name what a user may rely on.

mod chaos;
mod deaths;
mod demo;
mod deploy;
mod disk;
mod drain;
mod environment;
mod failpoints;
mod fetching;
mod image;
mod inputs;
mod jobs;
mod limits;
mod logging;
mod logs;
mod metrics;
mod nodes;
mod placement;
mod publishers;
mod readme;
mod restart;
mod runs;
mod schemathesis;
mod sim;
mod sources;
mod stop;
mod tidy;
mod traces;
