//! A process of the orchestrator: it runs the step that the daemon runs, over simulated I/O.

mod commit;
mod release;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api_types::protocol::HeartbeatAnswer;
use api_types::{NodeId, Timestamp};
use control_plane::clock::{ServiceClock, Stamp};
use control_plane::step::{Action, DueTime, Envelope, Event, Lookups, Step, TermState, Trust};
use control_plane::store::{Outcome, Removed, Retention};
use scheduler::silence::{self, HeartbeatArrival};
use scheduler::time::Moment;
use scheduler::{Settings, invariants};

use self::commit::SlowCommit;
use super::disk::Disk;
use super::outgoing::{Outgoing, Stream};
use super::requests::{due_run, envelope, mishear};
use super::sabotage::sabotaged;
use super::times::TRUST;
use super::witness::Witness;
use crate::digest::Digest;
use crate::machine::Machine;
use crate::network::{Answer, Caller, Request, RequestBody, StreamLine};
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
    /// Another process listens in its place.
    pub(super) is_deposed: bool,
    pub(super) now: Timestamp,
}

// === impl Process ===

impl Process {
    /// Begins to serve under this term with its first turn.
    pub(super) fn start(
        number: u64,
        settings: Settings,
        clock: ServiceClock,
        taken: TermState,
        now: Moment,
    ) -> Self {
        let (step, _) = Step::start(Retention::default(), Trust::AfterCommit(TRUST), now);
        Self {
            number,
            step,
            settings,
            clock,
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

    /// Whether requests wait that it can take now.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.inbox.is_empty() && !self.step.is_committing()
    }

    /// Tells the witness of the heartbeats that the scheduler took.
    fn testify(&mut self, around: &mut Surroundings<'_>) {
        let (Some(scheduler), false) = (self.step.scheduler(), self.step.is_committing()) else {
            return;
        };
        for heard in self.noted.drain(..) {
            if let Some(witness) = &mut around.witness
                && scheduler.held_by(heard.node).is_some_and(|held| held.session == heard.session)
            {
                witness.hears(&heard);
            }
        }
    }

    fn stamp(&mut self, around: &Surroundings<'_>) -> Stamp {
        sabotaged(self.clock.stamp(&around.machine.reading(around.now)), around.sabotage)
    }

    /// Notes heartbeats, which bypass the queue; returns those that only the scheduler can answer.
    fn hear(
        &mut self,
        stamp: Stamp,
        around: &mut Surroundings<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) -> VecDeque<Request> {
        let mut arrivals = Vec::new();
        let mut unknown = VecDeque::new();
        for request in std::mem::take(&mut self.inbox) {
            match &request.body {
                RequestBody::Heartbeat { node, heartbeat } => {
                    let (node, session) = (*node, heartbeat.session);
                    let held = self.leases.get(&node).filter(|held| held.session == session);
                    let Some(silence::NodeLease { lease: granted, probe, .. }) = held.copied()
                    else {
                        unknown.push_back(request);
                        continue;
                    };
                    let (at, kept) = (stamp.moment, heartbeat.lease());
                    let stalled = Duration::from_millis(heartbeat.stalled_millis);
                    let probed = mishear(heartbeat.probed.clone(), around.sabotage);
                    arrivals.push(HeartbeatArrival {
                        node,
                        session,
                        at,
                        stalled,
                        granted,
                        kept,
                        probed,
                    });
                    let renewed = HeartbeatAnswer { probe, ..HeartbeatAnswer::granting(granted) };
                    let answer = Answer::Renewed(renewed);
                    outgoing.push(Outgoing::Answer(request.caller(), answer));
                }
                RequestBody::Join { .. }
                | RequestBody::Open { .. }
                | RequestBody::Reports { .. }
                | RequestBody::Submit { .. }
                | RequestBody::Stop { .. }
                | RequestBody::PutSecret { .. }
                | RequestBody::PutGroup { .. }
                | RequestBody::PutQuota { .. }
                | RequestBody::Forget { .. }
                | RequestBody::Act { .. } => self.inbox.push_back(request),
            }
        }
        self.noted.extend(arrivals.iter().cloned());
        for heard in &mut arrivals {
            if let Some(witness) = &mut around.witness {
                witness.goes_on(heard);
            }
            if around.sabotage == Some(Sabotage::OverlookStalls) {
                heard.stalled = Duration::ZERO;
            }
        }
        let gap = std::mem::take(&mut self.gap);
        let actions = self.step.on(Event::Heard { gap, arrivals }, stamp);
        assert!(actions.is_empty(), "arrivals are only noted");
        unknown
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
                Action::Take(_) if around.is_deposed => return Some(After::Deposed),
                Action::Take(_) => Event::Took(self.take(stamp, around, plan.random)),
                Action::Commit(commit) => {
                    if let Some(digest) = around.digest {
                        digest.add_commit(&commit);
                    }
                    let answers = around.sabotage == Some(Sabotage::AnswerBeforeCommit);
                    match plan.crash {
                        Some(CrashPoint::BeforeCommit) if answers => {
                            let outcome = Ok(Outcome::Written(Removed::default()));
                            let event = Event::Committed(commit.id, outcome);
                            for action in self.step.on(event, stamp) {
                                if let Action::Release(release) = action {
                                    self.release(release, around, outgoing);
                                }
                            }
                            return Some(After::Crashed);
                        }
                        Some(CrashPoint::BeforeCommit) => {
                            outgoing.clear();
                            return Some(After::Crashed);
                        }
                        Some(CrashPoint::AfterCommit) | None => {}
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
                    let lost = |caller| Outgoing::Answer(caller, Answer::Lost);
                    outgoing.extend(callers.into_iter().map(lost));
                    continue;
                }
                Action::CloseStreams => {
                    let streams = std::mem::take(&mut self.streams).into_values();
                    outgoing.extend(streams.map(|at| Outgoing::Line(at, StreamLine::Closed)));
                    continue;
                }
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
