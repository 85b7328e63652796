//! The orchestrator: its machine, its store, and the processes that run the step.
//!
//! One process listens. Another may take the store over while that one is paused or cut off; the
//! deposed one goes on when it can, and must notice.

mod disk;
mod process;
mod requests;
mod witness;

use std::time::Duration;

use api_types::Timestamp;
use control_plane::batch::NumberedCommit;
use control_plane::clock::{ServiceClock, Stamp};
use control_plane::step::Taken;
use control_plane::store::{Progress, Store};
use scheduler::Settings;
use scheduler::mint::Mint;
use scheduler::time::Moment;

pub(super) use self::disk::Disk;
use self::process::Surroundings;
pub(super) use self::process::{After, CrashPoint, Plan, Process};
use self::witness::Witness;
use super::machine::Machine;
use super::network::{Answer, Caller, StreamLine};
use super::summary::Sabotage;
use crate::random::Random;

/// Short, so that many fit into one run.
pub(super) const LEASE: Duration = Duration::from_secs(10);

const SETTINGS: Settings = Settings {
    lease: LEASE,
    approve_new_nodes: true,
    drain_deadline: Duration::from_secs(20),
    node_retention: Duration::from_secs(3600),
    starvation: Some(STARVATION),
};

/// A node is reserved for a job that has waited for so long.
pub(super) const STARVATION: Duration = Duration::from_secs(30);

/// A process speaks for the store for this long after a commit, and no other takes over sooner.
pub(super) const TRUST: Duration = Duration::from_secs(1);

pub(super) struct Orchestrator {
    pub(super) machine: Machine,
    /// As the operator has set them, for the next process.
    pub(super) settings: Settings,
    sabotage: Option<Sabotage>,
    pub(super) disk: Disk,
    pub(super) witness: Witness,
    /// Counts commits that took long.
    pub(super) slow_commits: u64,
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
    Loaded(Taken),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) agent: usize,
    pub(super) process: u64,
    pub(super) connection: u64,
}

/// What leaves the process.
#[derive(Debug)]
pub(super) enum Outgoing {
    Answer(Caller, Answer),
    Line(Stream, StreamLine),
    /// A commit without an answer, which reaches the disk later.
    Late(NumberedCommit),
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
            process: None,
            deposed: None,
            starting: None,
            started: 0,
        }
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

    /// Whether nobody speaks for the store any more, so that another process may take it over.
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

    fn load(&mut self, progress: Progress, now: Moment, random: &mut Random) -> Taken {
        let mint = Mint::from_seed(random.seed());
        let settings = sabotaged_settings(self.settings, self.sabotage);
        Taken::load(&mut self.disk.store, progress, settings, mint, || now)
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
        let slow_commits = &mut self.slow_commits;
        let witness = (!is_deposed).then_some(&mut self.witness);
        let mut around =
            Surroundings { disk, machine, witness, slow_commits, sabotage, is_deposed, now };
        let mut outgoing = Vec::new();
        let after = process.turn(&mut around, plan, &mut outgoing);
        match after {
            After::Sleep(_) => {}
            After::Crashed | After::Deposed => *place = None,
        }
        (outgoing, after)
    }
}

/// Longer than any run of the simulation.
const FOR_EVER: Duration = Duration::from_hours(24 * 365);

fn sabotaged_settings(settings: Settings, sabotage: Option<Sabotage>) -> Settings {
    match sabotage {
        Some(Sabotage::NoReservations) => Settings { starvation: None, ..settings },
        Some(Sabotage::NoSilence) => Settings { lease: FOR_EVER, ..settings },
        _ => settings,
    }
}

/// The clock that a service would use if it decided by the wall clock.
fn sabotaged(stamp: Stamp, sabotage: Option<Sabotage>) -> Stamp {
    match sabotage {
        Some(Sabotage::TrustWallClock) => {
            Stamp { moment: Moment(stamp.reading.wall.0.cast_unsigned()), ..stamp }
        }
        Some(
            Sabotage::AnswerBeforeCommit
            | Sabotage::ForgetReports
            | Sabotage::ForgetBoot
            | Sabotage::NoFence
            | Sabotage::NoReservations
            | Sabotage::NoSilence
            | Sabotage::ProvideSilently
            | Sabotage::LoadBeforeTerm
            | Sabotage::ForgetLostAfter
            | Sabotage::FillInPatience
            | Sabotage::ForgetAcceptance
            | Sabotage::ForgetLease
            | Sabotage::BlameTasks
            | Sabotage::BlameImages
            | Sabotage::BlameRoom
            | Sabotage::OverlookDelays
            | Sabotage::HeartbeatsWait
            | Sabotage::OverlookStalls
            | Sabotage::RunUnpublishedAgain
            | Sabotage::ForgetJoining,
        )
        | None => stamp,
    }
}
