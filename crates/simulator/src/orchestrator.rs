//! The orchestrator: its machine, its store, and the processes that run the step.
//!
//! One process listens. Where the store is shared, another on a second machine may take it over
//! while that one is paused or cut off; the deposed one goes on when it can, and must notice.

mod disk;
mod outgoing;
mod process;
mod replica;
mod requests;
mod sabotage;
mod standby;
mod times;
mod witness;

use std::time::Duration;

use api_types::Timestamp;
use control_plane::clock::{Reading, ServiceClock, Stamp};
use control_plane::step::{TermState, Trust};
use control_plane::store::{Progress, Store, StoreError};
use scheduler::Settings;
use scheduler::mint::Mint;
use scheduler::time::Moment;

pub(super) use self::disk::Disk;
pub(super) use self::outgoing::{Outgoing, Stream};
use self::process::Surroundings;
pub(super) use self::process::{After, CrashPoint, Plan, Process};
use self::replica::Replica;
pub(super) use self::replica::SKIPPED;
use self::sabotage::{sabotaged, sabotaged_settings};
use self::standby::Standby;
pub(super) use self::times::{LEASE, STARVATION};
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
    /// Whether the store is this process's, or shared.
    trust: Trust,
    /// Of the process that listens.
    pub(super) machine: Machine,
    standby: Standby,
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
            trust: Trust::Always,
            machine: Machine::new(now),
            standby: Standby::new(Machine::new(now)),
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
        self.disk.note_time(reading, now);
    }

    /// A process on another machine follows.
    pub(super) fn share(&mut self, seed: u64, now: Timestamp, random: &mut Random) {
        self.disk.replica = Replica::of_seed(seed);
        self.trust = Trust::AfterCommit;
        self.standby = Standby::new(Machine::another(now, random));
    }

    /// What may happen to a shared database each second.
    pub(super) fn second_of_the_database(&mut self) {
        self.disk.replica.second(&mut self.disk.store);
    }

    pub(super) fn is_shared(&self) -> bool {
        self.trust == Trust::AfterCommit
    }

    /// A process that loads says that it lives; false if none does.
    pub(super) fn beat(&mut self) -> bool {
        if self.starting.is_some() && self.sabotage != Some(Sabotage::LoadSilently) {
            self.disk.beat();
        }
        self.starting.is_some()
    }

    /// Restarts the machine of the process that listens.
    pub(super) fn reboot(&mut self, now: Timestamp, random: &mut Random) {
        let ahead = |(reading, at): (Reading, Timestamp)| reading.wall.0 - at.0;
        let ahead = self.disk.stamps().into_iter().map(ahead).min();
        self.machine.reboot(ahead.unwrap_or_default(), now, random);
    }

    /// Whatever a promotion may lose.
    pub(super) fn has_committed_since_boot(&mut self, now: Timestamp) -> bool {
        let boot = self.machine.reading(now).boot_id;
        let stamps = self.disk.stamps();
        !stamps.is_empty() && stamps.iter().all(|(reading, _)| reading.boot_id == boot)
    }

    /// Whether a commit under way may still come from this boot of a machine.
    pub(super) fn knows_boot(&self, boot: [u8; 16], now: Timestamp) -> bool {
        [&self.machine, &self.standby.machine]
            .into_iter()
            .any(|machine| machine.reading(now).boot_id == boot)
    }

    /// The first step of a new process after one that ended; false if it has to be tried again.
    pub(super) fn begin(&mut self, now: Timestamp, random: &mut Random) -> bool {
        if self.starting.is_some() {
            return true;
        }
        let reading = self.machine.reading(now);
        let stored = self.disk.store.progress().expect("memory answers").stamp;
        let clock = ServiceClock::resume(stored, &reading);
        let Ok(done) = self.first_step(&clock, now, &reading, random) else {
            return false;
        };
        self.starting = Some(Starting { clock, done });
        true
    }

    fn first_step(
        &mut self,
        clock: &ServiceClock,
        now: Timestamp,
        reading: &Reading,
        random: &mut Random,
    ) -> Result<FirstStep, StoreError> {
        if self.sabotage == Some(Sabotage::LoadBeforeTerm) {
            let stamp = sabotaged(clock.clone().stamp(reading), self.sabotage);
            let progress = self.disk.store.progress()?;
            return Ok(FirstStep::Loaded(self.load(progress, stamp.moment, random)));
        }
        self.disk.take(None, now).map(FirstStep::Took)
    }

    /// The second step; false if it has to be tried again.
    pub(super) fn finish(&mut self, now: Timestamp, random: &mut Random) -> bool {
        let Some(Starting { mut clock, done }) = self.starting.take() else { return true };
        let stamp = sabotaged(clock.stamp(&self.machine.reading(now)), self.sabotage);
        let taken = match done {
            FirstStep::Took(progress) => self.load(progress, stamp.moment, random),
            FirstStep::Loaded(mut taken) => match self.disk.take(None, now) {
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
        self.process = Some(Process::start(
            self.started,
            self.trust,
            self.settings,
            clock,
            taken,
            stamp.moment,
        ));
        true
    }

    fn load(&mut self, progress: Progress, now: Moment, random: &mut Random) -> TermState {
        let mint = Mint::from_seed(random.seed());
        let settings = sabotaged_settings(self.settings, self.sabotage);
        self.disk
            .read(|store| TermState::load(store, progress, settings, mint, || now, &|| {}))
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
        let machine = if is_deposed { &self.standby.machine } else { &self.machine };
        let (disk, sabotage) = (&mut self.disk, self.sabotage);
        let (slow_commits, digest) = (&mut self.slow_commits, &mut self.digest);
        let witness = (!is_deposed).then_some(&mut self.witness);
        let mut around =
            Surroundings { disk, machine, witness, slow_commits, digest, sabotage, now };
        let mut outgoing = Vec::new();
        let after = process.turn(&mut around, plan, &mut outgoing);
        match after {
            After::Sleep(_) => {}
            After::Crashed | After::Deposed => *place = None,
        }
        (outgoing, after)
    }
}
