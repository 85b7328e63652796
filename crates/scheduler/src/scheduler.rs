//! An input, in two phases: a rule changes the state, and what follows is settled.

use alloc::vec::Vec;
use core::time::Duration;

use api_types::NodeId;
use api_types::protocol::Report;

use crate::budget::Budget;
use crate::input::{Answer, Input, Refusal, acknowledge};
use crate::mint::Mint;
use crate::rules::{
    ending, exclusion, execution, fetch, giving_up, graph, group, health, job_end, lease,
    mass_silence, offer, operators, quota, retry, session, submission,
};
use crate::settings::Settings;
use crate::settle;
use crate::settle::leftover::Settle;
use crate::settle::reservation::starving;
use crate::settle::{backlog, reservation};
use crate::state::State;
use crate::text::Text;
use crate::time::{Moment, Now};
use crate::timer::Timer;
use crate::turn::{Output, Turn};

/// The longest interval between ticks while the orchestrator is awake ([`Scheduler::next_wake`]).
pub const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Everything that is live, and what is left over of it.
///
/// Each event has two phases: a rule changes the state, and the consequences that it marked are
/// settled.
pub struct Scheduler {
    pub(crate) state: State,
    pub(crate) settle: Settle,
}

// === impl Scheduler ===

impl Scheduler {
    pub fn new(settings: Settings, mint: Mint) -> Self {
        Self { state: State::new(settings, mint), settle: Settle::default() }
    }

    /// Handles one input: decides, and returns what to store and send.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Output) -> Answer {
        let Now { moment, wall } = now;
        let Self { state, settle } = self;
        let now = moment.max(state.clock);
        state.clock = now;
        let turn = &mut Turn { now, wall, out, budget: Budget::of_a_turn() };
        let answer = match input {
            Input::Submit(submit) => submission::submit(state, turn, *submit),
            Input::SubmitGraph(graph) => graph::submit(state, turn, *graph),
            Input::StopJobs { jobs, reason } => graph::stop(state, turn, jobs, &reason),
            Input::Stop { job, reason } => job_end::stop(state, turn, job, &reason),
            Input::Join { node, request } => session::join(state, turn, node, *request),
            Input::Heartbeat { node, heartbeat } => {
                session::heartbeat(state, turn, node, &heartbeat)
            }
            Input::Heard(arrivals) => {
                lease::heard(state, turn, arrivals);
                Answer::Done
            }
            Input::MissedHeartbeats(for_how_long) => {
                lease::extend_leases(state, now, for_how_long);
                Answer::Done
            }
            Input::OpenAssignments { node, session } => {
                session::open_assignments(state, turn, node, session)
            }
            Input::Reports { node, session, reports } => self.reports(turn, node, session, reports),
            Input::Unreadable { execution, reason } => {
                ending::unreadable(state, turn, execution, &reason);
                Answer::Done
            }
            Input::NodeAction { node, action, message } => {
                operators::node_action(state, turn, node, action, message)
            }
            Input::LabelNode { node, given } => operators::label_node(state, turn, node, &given),
            Input::Provided { namespace } => {
                settle.backlog.provided.extend(fetch::provided(state, &namespace, now));
                Answer::Done
            }
            Input::Group { namespace, name, limit } => group::put(state, (&namespace, name), limit),
            Input::Entitle { namespace, to } => quota::entitle(state, &namespace, to),
            Input::ForgetNode { node, now } => operators::forget_node(state, turn, node, now),
            Input::Tick => {
                self.fire_timers(turn);
                backlog::work_off_backlog(&mut self.settle, &mut self.state, turn);
                Answer::Done
            }
        };
        settle::pass(&mut self.settle, &mut self.state, turn);
        self.state.queue.drop_surplus_pools();
        answer
    }

    /// Each report is an event.
    fn reports(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        session: u64,
        reports: Vec<Report>,
    ) -> Answer {
        let Self { state, settle } = self;
        let acknowledged = reports.iter().map(acknowledge).collect();
        match state.check_session(node, session) {
            None => {}
            // All its executions were given up, so its reports change nothing.
            Some(Refusal::NodeRejected(_)) => return Answer::Acknowledged(acknowledged),
            Some(refusal) => return Answer::Refused(refusal),
        }
        if state.nodes.get(&node).is_some_and(|node| node.agents.is_on_trial(turn.now)) {
            return Answer::Refused(Refusal::AgentOnTrial(node));
        }
        for report in reports {
            if execution::skips_the_start(state, node, &report) {
                execution::start(state, turn, report.execution_id, Text::Constant("started"));
                settle::pass(settle, state, turn);
            }
            execution::report(state, turn, node, report);
            settle::pass(settle, state, turn);
        }
        Answer::Acknowledged(acknowledged)
    }

    /// Each timer is an event: what it frees is placed before the next one asks who waits.
    fn fire_timers(&mut self, turn: &mut Turn<'_>) {
        let Self { state, settle } = self;
        while !turn.budget.is_spent()
            && let Some(timer) = state.timers.pop(turn.now)
        {
            turn.budget.spend();
            match timer {
                Timer::GiveUp(node) => giving_up::give_up_due(state, turn, node),
                Timer::MassSilence => mass_silence::mass_silence_due(state, turn.now),
                Timer::Lease(node) => lease::lease_timer_fired(state, turn, node),
                Timer::Retry(job, index) => retry::retry_due(state, turn, job, index),
                Timer::Exclusion(job, index) => {
                    exclusion::exclusion_ended(state, turn.now, job, index)
                }
                Timer::FetchDelay(job) => fetch::fetch_delay_ended(state, job),
                Timer::Offer(execution) => offer::offer_timed_out(state, turn, execution),
                Timer::GoodRun(execution) => retry::good_run(state, execution),
                Timer::Health(node) => health::health_due(state, turn, node),
                Timer::Probe(node) => health::probe_ran(state, turn, node),
                Timer::QueueTimeout(job) => job_end::queue_timed_out(state, turn, job),
                Timer::TotalTimeout(job) => job_end::total_timed_out(state, turn, job),
                Timer::DrainDeadline(node) => state.marks.drains.push(node),
                Timer::Retention(node) => operators::retention_timer_fired(state, turn, node),
                Timer::Starvation(waiter) => starving::starvation_due(settle, state, turn, waiter),
                Timer::Reserve => starving::reserve_due(settle, state, turn),
                Timer::Reservation(node) => reservation::reservation_due(state, turn, node),
            }
            settle::pass(settle, state, turn);
        }
    }

    /// When the next [`Input::Tick`] is due.
    pub fn next_wake(&self, now: Moment) -> Moment {
        let latest = now + LONGEST_SLEEP;
        if !self.settle.backlog.is_empty() || self.state.queue.lanes.is_any_postponed() {
            return now;
        }
        self.state.timers.next().map_or(latest, |due| due.min(latest))
    }
}
