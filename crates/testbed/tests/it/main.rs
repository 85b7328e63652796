//! End-to-end tests: real daemons in real processes, real docker, over HTTP.
//!
//! Each test has its own cluster, and its name states what a user may rely on.

mod builds;
mod chaos;
mod clock;
mod crashes;
mod credentials;
mod deploy;
mod disk;
mod documents;
mod drain;
mod environment;
mod failpoints;
mod fetching;
mod health;
mod image;
mod inputs;
mod jobs;
mod joining;
mod keys;
mod limits;
mod logging;
mod logs;
mod metrics;
mod nodes;
mod oidc;
mod openapi;
mod placement;
mod programs;
mod publishers;
mod python;
mod readme;
mod reboots;
mod restart;
mod runs;
mod schemathesis;
mod sdk;
mod secrets;
mod sources;
mod starvation;
mod stop;
mod tidy;
mod traces;
mod ui;
mod upgrade;
mod usage;
