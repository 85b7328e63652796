//! Every command of the program against a real orchestrator and a simulated node.

mod access;
mod cluster;
mod complete;
mod context;
mod credential;
mod dependencies;
mod describe;
mod errors;
mod events;
mod explain;
mod get;
mod graph;
mod group;
mod in_terminal;
mod init;
mod list;
mod logs;
mod names;
mod node;
mod rerun;
mod run;
mod schedule;
mod shell;
mod sign_in;
mod stop;
mod submit;
mod validate;
mod version;
mod wait;

mod fake_node;
mod secret;
mod service;
mod terminal;
mod transcript;
