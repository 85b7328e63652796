//! Every figure of `docs/performance.md`, measured on one machine in one run.
//!
//! Absolute figures depend on the machine. Therefore most figures are ratios to a floor (the same
//! work without the service) or to a peer, measured in the same run; the absolute figures are given
//! as context.
//!
//! The daemons are the programs beside this one: separate processes, durable storage, no failpoints.

mod bare;
mod containers;
mod fleet;
mod floor;
mod idle;
mod lifecycles;
mod load;
mod measure;
mod process;
mod protection;
mod queued;
mod report;
mod seed;
mod stored;
mod submissions;
mod turns;
mod wasm;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use bare::Bare;
pub use floor::serve as serve_floor;
pub use measure::{Measure, Target};
pub use report::{Report, markdown};

/// Amounts of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    /// Duration of a rate measurement.
    pub window: Duration,
    /// Number of jobs with a thousand executions.
    pub thousands: u64,
    /// Number of jobs with one execution.
    pub ones: u64,
    /// Containers per rate measurement.
    pub containers: u32,
    /// Samples of a container latency, and of a faster latency.
    pub slow_samples: u32,
    pub fast_samples: u32,
    /// Simulated agents, with a hundred live executions each.
    pub agents: u32,
    /// Number of queued jobs, and of stored jobs.
    pub jobs: u64,
    /// Live executions at a restart.
    pub live: u32,
}

pub const FULL: Scale = Scale {
    name: "full",
    window: Duration::from_secs(8),
    thousands: 40,
    ones: 20_000,
    containers: 64,
    slow_samples: 100,
    fast_samples: 1000,
    agents: 1000,
    jobs: 1_000_000,
    live: 100_000,
};

/// A run of two minutes with smaller amounts. Rows that depend on an amount name it.
pub const QUICK: Scale = Scale {
    name: "quick",
    window: Duration::from_secs(2),
    thousands: 8,
    ones: 3000,
    containers: 16,
    slow_samples: 5,
    fast_samples: 60,
    agents: 100,
    jobs: 30_000,
    live: 10_000,
};

type Measuring<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Vec<Measure>>> + 'a>>;

/// Measures all groups, or those whose name contains `only`, and passes each result to `report`.
/// A group that fails is reported with the reason; the others continue.
pub async fn run(scale: Scale, only: &str, mut report: impl FnMut(&str)) -> Vec<Measure> {
    let groups: Vec<(&str, Measuring<'_>)> = vec![
        ("turns", Box::pin(turns::measure(scale))),
        ("submissions", Box::pin(submissions::measure(scale))),
        ("protection", Box::pin(protection::measure(scale))),
        ("lives", Box::pin(lifecycles::measure(scale))),
        ("wasm", Box::pin(wasm::measure(scale))),
        ("containers", Box::pin(containers::measure(scale))),
        ("replacement", Box::pin(containers::replacement())),
        ("rest", Box::pin(idle::measure(scale))),
        ("fleet", Box::pin(fleet::measure(scale))),
        ("queued", Box::pin(queued::measure(scale))),
        ("stored", Box::pin(stored::measure(scale))),
    ];
    let mut measures = Vec::new();
    for (name, group) in groups.into_iter().filter(|(name, _)| name.contains(only)) {
        let begin = std::time::Instant::now();
        match group.await {
            Ok(found) => {
                for measure in &found {
                    report(&measure.to_string());
                }
                measures.extend(found);
            }
            Err(error) => report(&format!("cannot measure {name}: {error:#}")),
        }
        report(&format!("{name} took {:.1} s", begin.elapsed().as_secs_f64()));
    }
    measures
}
