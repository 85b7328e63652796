//! The amounts of a run.

use std::time::Duration;

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
    /// How long a task prints.
    pub printing: Duration,
    /// Samples of a container latency, and of a faster latency.
    pub slow_samples: u32,
    pub fast_samples: u32,
    /// Simulated agents, with a hundred live executions each.
    pub agents: u32,
    /// Number of queued jobs, and of stored jobs.
    pub jobs: u64,
    /// Live executions at a restart.
    pub live: u32,
    /// Groups of 128 that are committed to each store in a round.
    pub groups: u64,
    /// Executions whose output is read together.
    pub printed: u32,
}

pub const FULL: Scale = Scale {
    name: "full",
    window: Duration::from_secs(8),
    thousands: 40,
    ones: 20_000,
    containers: 64,
    printing: Duration::from_secs(10),
    slow_samples: 100,
    fast_samples: 1000,
    agents: 1000,
    jobs: 1_000_000,
    live: 100_000,
    groups: 200,
    printed: 10_000,
};

/// A run of two minutes with smaller amounts. Rows that depend on an amount name it.
pub const QUICK: Scale = Scale {
    name: "quick",
    window: Duration::from_secs(2),
    thousands: 8,
    ones: 3000,
    containers: 16,
    printing: Duration::from_secs(2),
    slow_samples: 5,
    fast_samples: 60,
    agents: 100,
    jobs: 30_000,
    live: 10_000,
    groups: 20,
    printed: 1000,
};
