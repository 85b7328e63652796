//! The HTTP API over real sockets: a whole orchestrator in this process, and nodes that are played.

mod agent;
mod body;
mod create;
mod daemon;
mod errors;
mod events;
mod executions;
mod health;
mod history;
mod jobs;
mod logs;
mod metrics;
mod node;
mod nodes;
mod protocol;
mod requester;
mod results;
mod retention;
mod server;
mod stop;
mod stream;
mod waiting;
