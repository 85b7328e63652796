//! The compute agent: joins an orchestrator, and runs on this node the tasks that it assigns.
//!
//! [`Agent::start`] runs one inside any process; `main.rs` is one process around it.

mod agent;
mod data;
mod host;
mod http;
mod node;
mod observer;
mod runtime;
mod session;

#[cfg(test)]
mod testing;

pub use agent::{Agent, RunningAgent, StartError, run};
pub use data::fetch::run as fetch;
pub use data::inputs::fetcher::FETCH;
pub use host::data_dir::DataDirError;
pub use host::identity::IdentityError;
pub use host::settings::{self, Settings};
// What 1,000 of them take is a row of the bench.
#[doc(hidden)]
pub use node::usage::full_curves;
pub use session::enrolment::EnrolError;
