//! A due time and its job are one commit, whatever crashes, and whatever the clock does.

use super::*;
use api_types::schedule::{CatchUp, Overlap, RunOutcome};

use crate::records::{Expected, RecordKind, RecordWrite};
use crate::schedule::{self, Definition, Plan, Position};
use crate::step::schedules::position;

const MINUTE: Duration = Duration::from_secs(60);

/// Every minute from the beginning of time.
fn plan(overlap: Overlap) -> Plan {
    Plan {
        cron: "* * * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        overlap,
        catch_up: CatchUp::All,
        catch_up_seconds: 0,
        jitter_seconds: 0,
        paused: false,
        since: Timestamp::ZERO,
    }
}

fn put(caller: u32, name: &str, plan: &Plan) -> (u32, Request) {
    let definition = Definition {
        plan: plan.clone(),
        job: serde_json::Value::Null,
        create_time: Timestamp::ZERO,
    };
    let key = RecordKind::Schedule.key(schedule::key("default", name));
    let write = RecordWrite::json(key, Expected::Anything, &definition);
    (caller, Request::Records(vec![write]))
}

/// What the runner sends back: this job, or a refusal.
fn checked(due: &DueTime, id: Option<u128>) -> (u32, Request) {
    let submission = |id| match submit(0, id, "default", None).1 {
        Request::Submit(mut submission) => {
            submission.id_given = false;
            submission
        }
        other => panic!("{other:?}"),
    };
    let checked = id.map(submission).ok_or_else(|| "its namespace does not permit it".to_owned());
    (50, Request::Due(Box::new(DueRun { time: due.clone(), checked })))
}

// === impl World ===

impl World {
    fn position(&self, name: &str) -> Position {
        let mut store = self.store.clone();
        let records = Records::new(store.records().unwrap());
        position(&records, &schedule::key("default", name))
    }

    fn outcomes(&self, name: &str) -> Vec<RunOutcome> {
        self.position(name).runs.iter().map(|run| run.outcome).collect()
    }

    fn take_due(&mut self) -> Vec<DueTime> {
        std::mem::take(&mut self.due)
    }

    /// A process that continues from the store.
    fn crash(&mut self) {
        let (step, actions) = Step::start(Retention::default(), Trust::Always, self.now);
        self.step = step;
        self.due.clear();
        self.perform(actions);
    }

    fn is_live(&self, id: u128) -> bool {
        self.step.scheduler().unwrap().is_live(job(id))
    }

    /// The minute passes, and the runner checks what is due.
    fn minute(&mut self, id: u128) {
        self.pass(MINUTE);
        for due in self.take_due() {
            self.request([checked(&due, Some(id))]);
        }
    }
}

#[test]
fn a_due_time_gets_one_job_however_often_it_comes_back() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Allow))]);
    assert!(world.take_due().is_empty(), "it is not due yet");
    world.pass(MINUTE);
    let due = world.take_due();
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].due, Timestamp(60_000_000_000));
    let before = world.commits.len();
    world.request([checked(&due[0], Some(20))]);
    assert_eq!(world.commits.len(), before + 1, "the job and the state are one commit");
    world.request([checked(&due[0], Some(21))]);
    assert_eq!(world.store.new_jobs.len(), 1);
    assert_eq!(world.position("a").last_due, Some(due[0].due));
    assert_eq!(world.position("a").live, [job(20)]);
    world.crash();
    world.pass(Duration::from_secs(10));
    assert!(world.take_due().is_empty());
}

#[test]
fn a_run_that_gets_lost_is_due_again() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Allow))]);
    world.pass(MINUTE);
    let first = world.take_due();
    world.pass(Duration::from_secs(1));
    assert!(world.take_due().is_empty(), "it is on its way");
    world.pass(Duration::from_secs(10));
    assert_eq!(world.take_due(), first, "the runner dropped it");
    world.crash();
    world.pass(Duration::from_millis(1));
    assert_eq!(world.take_due(), first, "the process ended before the job was stored");
    world.refusal = Some(|| StoreError::Fenced);
    world.request([checked(&first[0], Some(20))]);
    world.refusal = None;
    world.pass(RETRY_EVERY);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.take_due(), first, "the commit failed");
    world.request([checked(&first[0], Some(21))]);
    assert_eq!(world.store.new_jobs.keys().copied().collect::<Vec<_>>(), [job(21)]);
}

#[test]
fn a_run_whose_predecessor_was_not_stored_does_not_overtake_it() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Allow))]);
    world.pass(3 * MINUTE);
    let first = world.take_due();
    world.refusal = Some(|| StoreError::Fenced);
    world.request([checked(&first[0], Some(20))]);
    world.refusal = None;
    let early = world.take_due();
    assert_eq!(early.len(), 1, "the second minute left before the first one was stored");
    world.pass(RETRY_EVERY);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.take_due(), first, "the commit failed");
    world.request([checked(&early[0], Some(21))]);
    assert_eq!(world.position("a").last_due, None, "the minute before it is not decided");
    for id in 22..25 {
        let due = world.take_due().pop().expect("the runner dropped nothing");
        world.request([checked(&due, Some(id))]);
    }
    let runs: Vec<_> =
        world.position("a").runs.iter().map(|run| run.due.0 / 60_000_000_000).collect();
    assert_eq!(runs, [1, 2, 3]);
}

#[test]
fn a_refused_run_is_recorded_and_not_tried_again() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Skip))]);
    world.pass(MINUTE);
    let due = world.take_due();
    world.request([checked(&due[0], None)]);
    world.pass(Duration::from_secs(30));
    assert!(world.take_due().is_empty());
    let position = world.position("a");
    assert_eq!(position.last_due, Some(due[0].due));
    assert_eq!(position.runs[0].outcome, RunOutcome::Refused);
    assert_eq!(position.runs[0].reason, "its namespace does not permit it");
}

#[test]
fn a_clock_that_is_set_repeats_nothing_and_skips_nothing() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Allow))]);
    world.minute(20);
    world.shift = -30_000_000_000;
    world.pass(Duration::from_secs(29));
    assert!(world.take_due().is_empty(), "the minute comes a second time");
    world.shift = 180_000_000_000;
    for id in 21..24 {
        world.pass(Duration::from_secs(1));
        let due = world.take_due();
        assert_eq!(due.len(), 1, "one after the other");
        world.request([checked(&due[0], Some(id))]);
        for due in world.take_due() {
            world.due.push(due);
        }
    }
    let runs: Vec<_> =
        world.position("a").runs.iter().map(|run| run.due.0 / 60_000_000_000).collect();
    assert_eq!(runs[..3], [1, 2, 3]);
}

/// The leader's clock was a year ahead, and that of the next leader is right.
#[test]
fn a_clock_that_was_far_ahead_does_not_stop_a_schedule() {
    const YEAR: i64 = 365 * 86_400 * 1_000_000_000;
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &Plan { catch_up: CatchUp::Latest, ..plan(Overlap::Allow) })]);
    world.minute(20);
    world.shift = YEAR;
    world.minute(21);
    let since = Timestamp(world.now.0.cast_signed() + YEAR);
    world.request([put(2, "b", &Plan { since, ..plan(Overlap::Allow) })]);
    assert!(world.position("a").last_due > Some(Timestamp(YEAR)));

    world.shift = 0;
    world.crash();
    world.pass(Duration::from_secs(10));
    assert!(world.take_due().is_empty(), "what has passed was decided");
    let now = Timestamp(world.now.0.cast_signed());
    assert!(world.position("a").last_due <= Some(now), "{:?}", world.position("a").last_due);
    world.pass(MINUTE);
    let due: Vec<_> = world.take_due().into_iter().map(|due| (due.key, due.due)).collect();
    let minute = Timestamp(now.0 - now.0 % 60_000_000_000 + 60_000_000_000);
    let key = |name| schedule::key("default", name);
    assert_eq!(due, [(key("a"), minute), (key("b"), minute)]);
}

#[test]
fn a_change_takes_effect_from_its_moment_on() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Allow))]);
    world.pass(MINUTE);
    let due = world.take_due();
    let since = Timestamp(world.now.0.cast_signed());
    let changed = Plan { since, ..plan(Overlap::Allow) };
    world.request([put(2, "a", &Plan { paused: true, ..changed.clone() })]);
    world.request([checked(&due[0], Some(20))]);
    world.pass(MINUTE);
    assert!(world.store.new_jobs.is_empty() && world.take_due().is_empty(), "it is paused");
    let since = Timestamp(world.now.0.cast_signed());
    world.request([put(3, "a", &Plan { since, ..changed })]);
    assert!(world.take_due().is_empty(), "what fell due in a pause is not caught up");
    world.minute(21);
    assert_eq!(world.store.new_jobs.len(), 1);
}

#[test]
fn each_overlap_does_what_it_says() {
    let after_two = |overlap| {
        let mut world = World::new(Trust::Always);
        world.request([put(1, "a", &plan(overlap))]);
        world.minute(20);
        world.minute(21);
        world
    };
    let skip = after_two(Overlap::Skip);
    assert_eq!(skip.outcomes("a"), [RunOutcome::Started, RunOutcome::Skipped]);
    assert_eq!(skip.store.new_jobs.len(), 1);

    let allow = after_two(Overlap::Allow);
    assert_eq!(allow.outcomes("a"), [RunOutcome::Started, RunOutcome::Started]);
    assert!(allow.is_live(20) && allow.is_live(21));

    let replace = after_two(Overlap::Replace);
    assert_eq!(replace.outcomes("a"), [RunOutcome::Started, RunOutcome::Started]);
    assert!(!replace.is_live(20) && replace.is_live(21));

    let mut queue = after_two(Overlap::Queue);
    assert_eq!(queue.outcomes("a"), [RunOutcome::Started, RunOutcome::Queued]);
    queue.crash();
    let stop = Input::Stop { job: job(20), reason: String::new() };
    queue.request([(9, Request::Input(stop))]);
    queue.pass(Duration::from_millis(1));
    let due = queue.take_due();
    assert_eq!(due[0].due, Timestamp(120_000_000_000), "{due:?}");
    queue.request([checked(&due[0], Some(22))]);
    assert_eq!(queue.outcomes("a"), [RunOutcome::Started, RunOutcome::Started]);
    assert!(queue.is_live(22) && queue.position("a").queued.is_empty());
}

#[test]
fn a_queue_of_runs_has_a_bound() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Queue))]);
    for id in 20..40 {
        world.minute(id);
    }
    let position = world.position("a");
    assert_eq!(position.queued.len(), schedule::MAX_QUEUED);
    assert_eq!(position.runs.last().unwrap().outcome, RunOutcome::Skipped);
    assert_eq!(world.store.new_jobs.len(), 1);
}

#[test]
fn a_thousand_schedules_of_one_second_come_a_few_at_a_time() {
    let mut world = World::new(Trust::Always);
    for number in 0..1000 {
        world.request([put(1, &number.to_string(), &plan(Overlap::Allow))]);
    }
    world.pass(MINUTE);
    let mut id = 20;
    loop {
        let due = world.take_due();
        assert!(due.len() <= 64, "{}", due.len());
        let Some(first) = due.first() else { break };
        assert_eq!(first.due, Timestamp(60_000_000_000));
        let mut checks = Vec::new();
        for due in &due {
            id += 1;
            checks.push(checked(due, Some(id)));
        }
        world.request(checks);
    }
    assert_eq!(world.store.new_jobs.len(), 1000);
}

#[test]
fn a_schedule_that_nothing_is_left_of_runs_no_more() {
    let mut world = World::new(Trust::Always);
    world.request([put(1, "a", &plan(Overlap::Allow))]);
    world.pass(MINUTE);
    let due = world.take_due();
    let keys = [RecordKind::Schedule, RecordKind::ScheduleState].map(|kind| kind.key("default/a"));
    let gone = keys.map(RecordWrite::removal).to_vec();
    world.request([(2, Request::Records(gone)), checked(&due[0], Some(20))]);
    world.pass(MINUTE);
    assert!(world.take_due().is_empty() && world.store.new_jobs.is_empty());
    assert_eq!(world.store.records().unwrap().len(), 0);
}
