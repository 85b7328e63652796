//! The agent against a small orchestrator over real sockets, and against real docker.

mod engines;
mod failing;
mod http;
mod image;
mod noop;
mod node;
mod orchestrator;
mod restarting;
mod running;
mod sessions;
mod stopping;
