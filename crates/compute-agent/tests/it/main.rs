//! The agent against a small orchestrator over real sockets, and against real docker.

mod contract;
mod daemon;
mod engines;
mod failing;
mod gpus;
mod http;
mod image;
mod interrupted;
mod node;
mod noop;
mod orchestrator;
mod programs;
mod publishing;
mod pulling;
mod registry;
mod restarting;
mod running;
mod sessions;
mod stopping;
mod wasm;
