//! The stores alone: what the commits of the driver take, and a load.

use std::time::{Duration, Instant};

use anyhow::Context;
use api_types::execution::ComputeState;
use control_plane::store::{Store, sqlite};
use scheduler::mint::Mint;
use scheduler::{Restore, Settings};
use tempfile::TempDir;

use super::{ROUNDS, Shared};
use crate::measure::{Measure, Target, median, median_round, millis, rate};
use crate::scale::Scale;
use crate::seed::{Joined, Seed};

/// Jobs in a commit under load.
const GROUP: u64 = 128;

/// Jobs that are committed one by one in a round.
const SINGLE: u32 = 200;

/// The states of an execution until it runs, and after that.
const RUNNING: [ComputeState; 2] = [ComputeState::AskForBidAccepted, ComputeState::BidAccepted];
const WHOLE: [ComputeState; 3] =
    [ComputeState::AskForBidAccepted, ComputeState::BidAccepted, ComputeState::Completed];

/// Loads, of which the median counts.
const LOADS: usize = 5;

/// A store, and what fills it.
struct Subject {
    seed: Seed,
    joined: Joined,
}

/// What one round takes in a store.
struct Round {
    commits: f64,
    lives: f64,
    single: Duration,
}

pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let shared = Shared::start().await?;
    tokio::task::spawn_blocking(move || {
        let mut measures = commits(&shared, scale)?;
        drop(shared);
        measures.push(loads(scale)?);
        Ok(measures)
    })
    .await?
}

fn commits(shared: &Shared, scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let directory = TempDir::new()?;
    let mut sqlite = Subject::new(Seed::open(directory.path())?)?;
    let won = shared.win()?;
    let mut postgres = Subject::new(Seed::continuing(won.store, &won.progress)?)?;
    let rounds = (0..ROUNDS)
        .map(|_| Ok([postgres.round(scale)?, sqlite.round(scale)?]))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let of = |figure: fn(&Round) -> f64| {
        let mut rounds: Vec<_> = rounds.iter().map(|round| round.each_ref().map(figure)).collect();
        median_round(&mut rounds)
    };
    let row = |what: &str, [postgres, sqlite]: [f64; 2], unit: &str, target| {
        let context = format!("{postgres:.2}{unit} against {sqlite:.2}{unit}");
        Measure::new(what, (postgres / sqlite, ""), target, context)
    };
    Ok(vec![
        row(
            "PostgreSQL, jobs committed in groups of 128, of SQLite's rate",
            of(|round| round.commits),
            "/s",
            Target::AtLeast(0.6),
        ),
        row(
            "PostgreSQL, a job committed alone, median, times SQLite's",
            of(|round| millis(round.single)),
            " ms",
            Target::AtMost(2.5),
        ),
        row(
            "PostgreSQL, lifecycles of executions in groups of 128, of SQLite's rate",
            of(|round| round.lives),
            "/s",
            Target::AtLeast(0.25),
        ),
    ])
}

/// The live state is loaded by each new leader.
fn loads(scale: Scale) -> anyhow::Result<Measure> {
    let directory = TempDir::new()?;
    let mut seed = Subject::new(Seed::open(directory.path())?)?;
    for _ in 0..u64::from(scale.live) / GROUP {
        seed.seed.lives(seed.joined, GROUP, &RUNNING)?;
    }
    seed.seed.finish();
    let runtime = tokio::runtime::Handle::current();
    let shared = runtime.block_on(async {
        let shared = Shared::start().await?;
        shared.import(directory.path()).await?;
        anyhow::Ok(shared)
    })?;
    let (sqlite, _) = sqlite::open(directory.path())?;
    let mut stores: [Box<dyn Store>; 2] = [shared.win()?.store, Box::new(sqlite)];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..LOADS {
        for (store, times) in stores.iter_mut().zip(&mut times) {
            let begin = Instant::now();
            let mut restore = Restore::new(Settings::default(), Mint::from_seed([1; 32]));
            store.load(&mut |job| restore.job(job)).context("load")?;
            times.push(begin.elapsed());
        }
    }
    let [postgres, sqlite] = times.map(|mut times| median(&mut times));
    Ok(Measure::new(
        format!("PostgreSQL, load of {} jobs and executions, times SQLite's", scale.live),
        (postgres.as_secs_f64() / sqlite.as_secs_f64(), ""),
        Target::AtMost(4.0),
        format!("{:.0} ms against {:.0} ms", millis(postgres), millis(sqlite)),
    ))
}

// === impl Subject ===

impl Subject {
    fn new(mut seed: Seed) -> anyhow::Result<Self> {
        let joined = seed.join()?;
        Ok(Self { seed, joined })
    }

    fn round(&mut self, scale: Scale) -> anyhow::Result<Round> {
        let jobs = scale.groups * GROUP;
        let (mut commits, mut lives, mut single) = (Duration::ZERO, Duration::ZERO, Vec::new());
        for _ in 0..scale.groups {
            commits += self.seed.lives(self.joined, GROUP, &[])?;
            lives += self.seed.lives(self.joined, GROUP, &WHOLE)?;
        }
        for _ in 0..SINGLE {
            single.push(self.seed.lives(self.joined, 1, &[])?);
        }
        Ok(Round {
            commits: rate(jobs, commits),
            lives: rate(jobs, lives),
            single: median(&mut single),
        })
    }
}
