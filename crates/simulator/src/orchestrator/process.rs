//! A process of the orchestrator: it runs the step that the daemon runs, over simulated I/O.

mod commit;
mod heartbeats;
mod release;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api_types::{NodeId, Timestamp};
use control_plane::batch::NumberedCommit;
use control_plane::clock::{Reading, ServiceClock, Stamp};
use control_plane::step::{
    Action, DueTime, Envelope, Event, Failure, Lookups, Step, TakeError, TermState, Trust,
};
use control_plane::store::{Outcome, Removed, Retention, StoreError, Term};
use scheduler::silence::{self, HeartbeatArrival};
use scheduler::time::Moment;
use scheduler::{Settings, invariants};

use self::commit::SlowCommit;
use super::disk::Disk;
use super::outgoing::{Outgoing, Stream};
use super::requests::{due_run, envelope};
use super::sabotage::sabotaged;
use super::witness::Witness;
use crate::digest::Digest;
use crate::machine::Machine;
use crate::network::{Caller, Request, StreamLine};
use crate::random::Random;
use crate::schedule::CHECK;
use crate::summary::Sabotage;

/// With so many live jobs, the invariants are checked after every second commit.
const JOBS_PER_CHECK: usize = 10;

/// A turn takes this long at least, so that virtual time goes on.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

pub(crate) struct Process {
    pub(crate) number: u64,
    step: Step<Caller>,
    /// As they are for this process.
    settings: Settings,
    clock: ServiceClock,
    /// Under which it writes.
    term: Term,
    /// Until the first turn.
    taken: Option<TermState>,
    pub(crate) inbox: VecDeque<Request>,
    /// The connection on which each node's stream is open.
    streams: BTreeMap<NodeId, Stream>,
    /// The lease that each node holds, as the listener knows it.
    leases: BTreeMap<NodeId, silence::NodeLease>,
    /// It does nothing before this moment.
    pub(crate) paused_until: Timestamp,
    /// The store does not answer it before this moment.
    pub(crate) cut_off_until: Timestamp,
    slow: Option<SlowCommit>,
    /// Due times that the runner checks, until when.
    due: VecDeque<(Timestamp, DueTime)>,
    /// So many commits are not checked before the next that is.
    unchecked: usize,
    /// Heartbeats that the step was told of, and that the scheduler may still refuse.
    noted: Vec<HeartbeatArrival>,
    /// How long the last pause was, until the step is told.
    pub(crate) gap: Duration,
    /// Time of its next turn; turns scheduled for other times are void.
    pub(crate) next_turn: Option<Timestamp>,
}

/// Where a turn of the process is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    BeforeCommit,
    AfterCommit,
}

/// What befalls one turn.
pub(crate) struct Plan<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) most: usize,
    pub(crate) crash: Option<CrashPoint>,
    /// The chance that the outcome of a commit remains unknown, in thousandths.
    pub(crate) unknown: u64,
    /// The chance that the disk takes some seconds for a commit, in thousandths.
    pub(crate) slow: u64,
}

/// How a process goes on after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// After this time at the latest.
    Sleep(Duration),
    Crashed,
    /// Another process has taken the store over.
    Deposed,
}

/// All that a turn uses apart from the process.
pub(super) struct Surroundings<'a> {
    pub(super) disk: &'a mut Disk,
    pub(super) machine: &'a Machine,
    pub(super) sabotage: Option<Sabotage>,
    /// Of the process that listens.
    pub(super) witness: Option<&'a mut Witness>,
    pub(super) slow_commits: &'a mut u64,
    pub(super) digest: &'a mut Option<Digest>,
    pub(super) now: Timestamp,
}

// === impl Process ===

impl Process {
    /// Begins to serve under this term with its first turn.
    pub(super) fn start(
        number: u64,
        trust: Trust,
        settings: Settings,
        clock: ServiceClock,
        taken: TermState,
        now: Moment,
    ) -> Self {
        let (step, _) = Step::start(Retention::default(), trust, now);
        Self {
            number,
            step,
            settings,
            clock,
            term: taken.progress.term,
            taken: Some(taken),
            inbox: VecDeque::new(),
            streams: BTreeMap::new(),
            leases: BTreeMap::new(),
            paused_until: Timestamp::ZERO,
            cut_off_until: Timestamp::ZERO,
            slow: None,
            due: VecDeque::new(),
            unchecked: 0,
            noted: Vec::new(),
            gap: Duration::ZERO,
            next_turn: None,
        }
    }

    /// Handles some requests and what is due. A crash leaves the store as it was at that moment,
    /// and nothing leaves.
    pub(super) fn turn(
        &mut self,
        around: &mut Surroundings<'_>,
        plan: &mut Plan<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) -> After {
        let stamp = self.stamp(around);
        if around.sabotage == Some(Sabotage::OverlookDelays) {
            self.gap = Duration::ZERO;
        }
        let mut after = None;
        if let Some(taken) = self.taken.take() {
            after = self.on(Event::Took(Ok(taken)), stamp, around, plan, outgoing);
        }
        let mut first = self.hear(stamp, around, outgoing);
        if let Some(slow) = self.slow.take_if(|slow| slow.until <= around.now) {
            after = self.end_slow_commit(slow, stamp, around, plan, outgoing);
        }
        if after.is_some() || self.step.is_committing() {
            first.into_iter().rev().for_each(|request| self.inbox.push_front(request));
        } else {
            let rest = plan.most.min(self.inbox.len());
            first.extend(self.inbox.drain(..rest));
            let due = self.checked(stamp, around);
            if !first.is_empty() || !due.is_empty() {
                let mut inputs: Vec<_> =
                    first.into_iter().map(|r| envelope(r, stamp, around.sabotage)).collect();
                inputs.extend(due);
                let known =
                    Lookups::for_inputs(&inputs).ask(&mut around.disk.store, stamp.moment).ok();
                after = self.on(Event::Inputs { inputs, known }, stamp, around, plan, outgoing);
            }
        }
        if after.is_none() && self.step.wake().is_some_and(|wake| wake <= stamp.moment) {
            after = self.on(Event::Tick, stamp, around, plan, outgoing);
        }
        if after.is_none() && plan.crash.is_some() {
            after = Some(After::Crashed);
            outgoing.clear();
        }
        if after.is_none() {
            self.testify(around);
        }
        after.unwrap_or_else(|| {
            if let Some(slow) = &self.slow {
                return After::Sleep(slow.until.since(around.now).max(SHORTEST_SLEEP));
            }
            let wake = self.step.wake().expect("nothing is under way after a turn");
            let wake = wake.since(stamp.moment);
            let checked = self.due.front().map_or(wake, |(until, _)| until.since(around.now));
            After::Sleep(wake.min(checked).max(SHORTEST_SLEEP))
        })
    }

    /// What the runner has checked by now.
    fn checked(&mut self, stamp: Stamp, around: &mut Surroundings<'_>) -> Vec<Envelope<Caller>> {
        let mut checked = Vec::new();
        while let Some((_, time)) = self.due.pop_front_if(|(until, _)| *until <= around.now) {
            around.disk.minted += 1;
            checked.push(due_run(time, around.disk.minted, stamp));
        }
        checked
    }

    /// Whether it serves, and nothing is the matter with it or its store.
    pub(crate) fn is_steady(&self, now: Timestamp) -> bool {
        let is_held_up = self.paused_until > now || self.cut_off_until > now || self.slow.is_some();
        !is_held_up && self.step.scheduler().is_some() && !self.step.is_committing()
    }

    /// Whether it certainly speaks for the store at this moment.
    fn is_certain(&self, now: Moment) -> bool {
        self.step.trusted_until().is_none_or(|until| now < until)
    }

    /// The same by the clocks of its machine.
    pub(super) fn is_certain_at(&self, reading: &Reading) -> bool {
        self.is_certain(self.clock.moment_of(reading.boot))
    }

    /// Whether a commit is under way, which holds the row that a follower wants.
    pub(super) fn holds_the_row(&self, now: Timestamp) -> bool {
        self.cut_off_until <= now && self.slow.is_some()
    }

    /// Whether requests wait that it can take now.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.inbox.is_empty() && !self.step.is_committing()
    }

    fn stamp(&mut self, around: &Surroundings<'_>) -> Stamp {
        sabotaged(self.clock.stamp(&around.machine.reading(around.now)), around.sabotage)
    }

    /// Nobody is answered, unless that is the fault.
    fn crash_before(
        &mut self,
        commit: &NumberedCommit,
        stamp: Stamp,
        around: &mut Surroundings<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) {
        if around.sabotage != Some(Sabotage::AnswerBeforeCommit) {
            outgoing.clear();
            return;
        }
        let event = Event::Committed(commit.id, Ok(Outcome::Written(Removed::default())));
        for action in self.step.on(event, stamp) {
            if let Action::Release(release) = action {
                self.release(release, around, outgoing);
            }
        }
    }

    /// Lets the step act, and carries out what it asks for.
    fn on(
        &mut self,
        event: Event<Caller>,
        stamp: Stamp,
        around: &mut Surroundings<'_>,
        plan: &mut Plan<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) -> Option<After> {
        // A turn that stores nothing leaves the state as the last check found it.
        let mut has_changed = matches!(event, Event::Took(_));
        if has_changed {
            self.unchecked = 0;
        }
        let mut actions = VecDeque::from(self.step.on(event, stamp));
        while let Some(action) = actions.pop_front() {
            let event = match action {
                Action::Take(_) => Event::Took(self.take(stamp, around, plan.random)),
                Action::Commit(commit) => {
                    if let Some(digest) = around.digest {
                        digest.add_commit(&commit);
                    }
                    if plan.crash == Some(CrashPoint::BeforeCommit) {
                        self.crash_before(&commit, stamp, around, outgoing);
                        return Some(After::Crashed);
                    }
                    let id = commit.id;
                    has_changed = true;
                    if plan.crash.is_none() && plan.random.chance(plan.slow) {
                        self.begin_slow_commit(commit, stamp, around, plan.random);
                        continue;
                    }
                    let result = self.commit(commit, around, plan, outgoing);
                    if plan.crash.is_some() {
                        outgoing.retain(|outgoing| matches!(outgoing, Outgoing::Late(_)));
                        return Some(After::Crashed);
                    }
                    Event::Committed(id, result)
                }
                Action::Release(release) => {
                    self.release(release, around, outgoing);
                    continue;
                }
                Action::Due(due) => {
                    self.due.extend(due.into_iter().map(|time| (around.now + CHECK, time)));
                    continue;
                }
                Action::Refuse { callers, why: _ } => {
                    outgoing.extend(callers.into_iter().map(Outgoing::lost));
                    continue;
                }
                Action::CloseStreams => {
                    let streams = std::mem::take(&mut self.streams).into_values();
                    outgoing.extend(streams.map(|at| Outgoing::Line(at, StreamLine::Closed)));
                    continue;
                }
                Action::StepDown(Failure::LeadLost) => return Some(After::Deposed),
                // It ends, and another one starts.
                Action::StepDown(
                    Failure::Commit(StoreError::WentBack { .. })
                    | Failure::Take(TakeError::Store(StoreError::WentBack { .. })),
                ) => return Some(After::Crashed),
                Action::StepDown(failure) => panic!("memory does not fail: {failure:?}"),
            };
            actions.extend(self.step.on(event, stamp));
        }
        if has_changed {
            self.check();
        }
        None
    }

    /// Checks the invariants, which takes a time in proportion to the live jobs: when there are many,
    /// not after each commit.
    fn check(&mut self) {
        let Some(scheduler) = self.step.scheduler() else { return };
        if let Some(rest) = self.unchecked.checked_sub(1) {
            self.unchecked = rest;
            return;
        }
        self.unchecked = scheduler.live_jobs() / JOBS_PER_CHECK;
        invariants::check(scheduler);
        invariants::check_capacity(scheduler);
    }
}
