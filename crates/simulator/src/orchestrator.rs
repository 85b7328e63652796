//! The orchestrator: its machine, its store, and the processes that run the step.
//!
//! One process listens. Another may take the store over while that one is paused or cut off; the
//! deposed one goes on when it can, and must notice.

mod disk;
mod outgoing;
mod process;
mod requests;
mod sabotage;
mod times;
mod witness;

use std::time::Duration;

use api_types::Timestamp;
use control_plane::clock::{ServiceClock, Stamp};
use control_plane::step::TermState;
use control_plane::store::{Progress, Store};
use scheduler::Settings;
use scheduler::mint::Mint;
use scheduler::time::Moment;

pub(super) use self::disk::Disk;
pub(super) use self::outgoing::{Outgoing, Stream};
use self::process::Surroundings;
pub(super) use self::process::{After, CrashPoint, Plan, Process};
use self::sabotage::{sabotaged, sabotaged_settings};
pub(super) use self::times::{LEASE, STARVATION, TRUST};
use self::witness::Witness;
use super::digest::Digest;
use super::machine::Machine;
use super::schedule;
use super::summary::Sabotage;
use crate::random::Random;

const SETTINGS: Settings = Settings {
    lease: LEASE,
    approve_new_nodes: true,
    drain_deadline: Duration::from_secs(20),
    node_retention: Duration::from_secs(3600),
    starvation: Some(STARVATION),
};

pub(super) struct Orchestrator {
    pub(super) machine: Machine,
    /// As the operator has set them, for the next process.
    pub(super) settings: Settings,
    sabotage: Option<Sabotage>,
    pub(super) disk: Disk,
    pub(super) witness: Witness,
    /// Counts commits that took long.
    pub(super) slow_commits: u64,
    /// What was decided, where that is asked for: it takes longer than the decisions.
    pub(super) digest: Option<Digest>,
    /// The process that listens.
    pub(super) process: Option<Process>,
    /// One that another replaced, and that does not know it.
    pub(super) deposed: Option<Process>,
    starting: Option<Starting>,
    /// Counts processes.
    pub(super) started: u64,
}

/// A process between its two steps: it takes a term, and loads the state.
struct Starting {
    clock: ServiceClock,
    done: FirstStep,
}

enum FirstStep {
    Took(Progress),
    /// Sabotage: the state is read before the term begins.
    Loaded(TermState),
}

// === impl Orchestrator ===

impl Orchestrator {
    pub(super) fn new(now: Timestamp, sabotage: Option<Sabotage>) -> Self {
        Self {
            machine: Machine::new(now),
            settings: SETTINGS,
            sabotage,
            disk: Disk::new(sabotage),
            witness: Witness::default(),
            slow_commits: 0,
            digest: None,
            process: None,
            deposed: None,
            starting: None,
            started: 0,
        }
    }

    /// A schedule is there before the first process.
    pub(super) fn put_schedule(&mut self, now: Timestamp) {
        let reading = self.machine.reading(now);
        schedule::put(&mut self.disk.store, Stamp { reading, moment: Moment::ZERO });
    }

    /// Restarts the machine, which ends every process.
    pub(super) fn reboot(&mut self, now: Timestamp, random: &mut Random) {
        self.deposed = None;
        self.machine.reboot(self.disk.committed, now, random);
    }

    pub(super) fn has_committed_since_boot(&self, now: Timestamp) -> bool {
        let boot = self.machine.reading(now).boot_id;
        self.disk.committed.is_some_and(|(reading, _)| reading.boot_id == boot)
    }

    /// Whether no process speaks for the store any more, so that another process may take it over.
    pub(super) fn is_free(&self, now: Timestamp) -> bool {
        self.starting.is_none() && self.deposed.is_none() && now.since(self.disk.written) > TRUST
    }

    /// The first step of a new process; false if it has to be tried again.
    pub(super) fn begin(&mut self, now: Timestamp, random: &mut Random) -> bool {
        if self.starting.is_some() {
            return true;
        }
        let reading = self.machine.reading(now);
        let mut progress = self.disk.store.progress().expect("memory answers");
        let mut clock = ServiceClock::resume(progress.stamp, &reading);
        let done = if self.sabotage == Some(Sabotage::LoadBeforeTerm) {
            let stamp = sabotaged(clock.stamp(&reading), self.sabotage);
            FirstStep::Loaded(self.load(progress, stamp.moment, random))
        } else {
            match self.disk.take(now) {
                Ok(taken) => progress = taken,
                Err(_) => return false,
            }
            FirstStep::Took(progress)
        };
        self.deposed = self.process.take();
        self.starting = Some(Starting { clock, done });
        true
    }

    /// The second step; false if it has to be tried again.
    pub(super) fn finish(&mut self, now: Timestamp, random: &mut Random) -> bool {
        let Some(Starting { mut clock, done }) = self.starting.take() else { return true };
        let stamp = sabotaged(clock.stamp(&self.machine.reading(now)), self.sabotage);
        let taken = match done {
            FirstStep::Took(progress) => self.load(progress, stamp.moment, random),
            FirstStep::Loaded(mut taken) => match self.disk.take(now) {
                Ok(progress) => {
                    taken.progress = progress;
                    taken
                }
                Err(_) => {
                    self.starting = Some(Starting { clock, done: FirstStep::Loaded(taken) });
                    return false;
                }
            },
        };
        self.started += 1;
        self.witness.process_begins(stamp.moment);
        self.process =
            Some(Process::start(self.started, self.settings, clock, taken, stamp.moment));
        true
    }

    fn load(&mut self, progress: Progress, now: Moment, random: &mut Random) -> TermState {
        let mint = Mint::from_seed(random.seed());
        let settings = sabotaged_settings(self.settings, self.sabotage);
        self.disk
            .read(|store| TermState::load(store, progress, settings, mint, || now))
            .expect("the store holds what the scheduler wrote")
    }

    /// The process with this number, if it still runs.
    pub(super) fn running(&mut self, number: u64) -> Option<&mut Process> {
        [&mut self.process, &mut self.deposed]
            .into_iter()
            .flatten()
            .find(|process| process.number == number)
    }

    /// Both that run.
    pub(super) fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        self.process.iter_mut().chain(&mut self.deposed)
    }

    /// A turn of the process with this number, and what leaves it; one that ends is gone.
    pub(super) fn turn(
        &mut self,
        number: u64,
        now: Timestamp,
        plan: &mut Plan<'_>,
    ) -> (Vec<Outgoing>, After) {
        let is_deposed = self.process.as_ref().is_none_or(|process| process.number != number);
        let place = if is_deposed { &mut self.deposed } else { &mut self.process };
        let Some(process) = place else { return (Vec::new(), After::Deposed) };
        let (disk, machine, sabotage) = (&mut self.disk, &self.machine, self.sabotage);
        let (slow_commits, digest) = (&mut self.slow_commits, &mut self.digest);
        let witness = (!is_deposed).then_some(&mut self.witness);
        let mut around = Surroundings {
            disk,
            machine,
            witness,
            slow_commits,
            digest,
            sabotage,
            is_deposed,
            now,
        };
        let mut outgoing = Vec::new();
        let after = process.turn(&mut around, plan, &mut outgoing);
        match after {
            After::Sleep(_) => {}
            After::Crashed | After::Deposed => *place = None,
        }
        (outgoing, after)
    }
}
