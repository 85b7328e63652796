//! The agent against a small orchestrator over real sockets, and against real docker.

mod daemon;
mod engines;
mod failing;
mod http;
mod image;
mod interrupted;
mod node;
mod noop;
mod orchestrator;
mod publishing;
mod restarting;
mod running;
mod sessions;
mod stopping;
