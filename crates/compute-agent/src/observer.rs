//! Observability of the agent: metrics and traces.
//!
//! The supervisor passes on what it has committed, and effects report what they did. Code deep
//! inside an effect finds its [`Watch`](watch::Watch) in the current task, so that engines, sources and
//! publishers do not depend on the observer.

mod lifecycle;
mod metrics;
mod stage;
mod state;
mod watch;

pub(crate) use metrics::Scrape;
pub(crate) use stage::Stage;
pub(crate) use state::Observer;
pub(crate) use watch::{fetch, part, publish};
