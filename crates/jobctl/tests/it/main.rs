//! The program as people use it: every command against a whole orchestrator and a played node.

mod context;
mod dependencies;
mod describe;
mod errors;
mod events;
mod explain;
mod get;
mod list;
mod logs;
mod node;
mod run;
mod shell;
mod stop;
mod submit;
mod validate;
mod version;
mod wait;

mod played;
mod service;
mod terminal;
mod transcript;
