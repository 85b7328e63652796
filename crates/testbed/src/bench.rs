//! Every figure of `docs/performance.md`, measured on one machine in one run.
//!
//! A rate or a time says little about a machine that nobody knows. So each figure is set against
//! a floor (the same work without what the service adds) or a peer, measured in the same run, and
//! the absolute figure stands beside it.
//!
//! The daemons are the ones that lie beside this program: processes of their own, everything
//! durable, no failpoints.

mod bare;
mod containers;
mod fleet;
mod floor;
mod lives;
mod load;
mod measure;
mod process;
mod queued;
mod report;
mod rest;
mod seed;
mod stored;
mod submissions;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use bare::Bare;
pub use floor::serve as serve_floor;
pub use measure::{Measure, Target};
pub use report::{Report, markdown};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    /// How long a rate is taken over.
    pub window: Duration,
    /// Jobs of a thousand executions each.
    pub thousands: u64,
    /// Jobs of one execution.
    pub ones: u64,
    /// Containers per rate.
    pub containers: u32,
    /// Samples of a latency of containers, and of anything faster.
    pub slow_samples: u32,
    pub fast_samples: u32,
    /// Simulated agents, with a hundred live executions each.
    pub agents: u32,
    /// Jobs that wait, and jobs that are stored.
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

/// Two minutes: the same shapes, smaller. Rows that depend on the amount say how much it was.
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

/// Measures everything, or the groups whose name contains `only`; `told` hears of each group.
/// A group that cannot be measured here is told with its reason, and the others go on.
pub async fn run(scale: Scale, only: &str, mut told: impl FnMut(&str)) -> Vec<Measure> {
    let groups: Vec<(&str, Measuring<'_>)> = vec![
        ("submissions", Box::pin(submissions::measure(scale))),
        ("lives", Box::pin(lives::measure(scale))),
        ("containers", Box::pin(containers::measure(scale))),
        ("replacement", Box::pin(containers::replacement())),
        ("rest", Box::pin(rest::measure(scale))),
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
                    told(&measure.to_string());
                }
                measures.extend(found);
            }
            Err(error) => told(&format!("{name} could not be measured: {error:#}")),
        }
        told(&format!("{name} took {:.1} s", begin.elapsed().as_secs_f64()));
    }
    measures
}
