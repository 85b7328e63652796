//! A step that speaks for the store only for a while after each commit.

use api_types::ExecutionId;
use api_types::execution::ComputeState;
use api_types::protocol::Report;

use super::super::gate::TRUSTED_FOR;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// Ticks whenever the step wants to, for this long.
    fn idle(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wake) = self.step.wake().filter(|wake| *wake <= end) {
            self.now = wake.max(self.now);
            self.pass(Duration::ZERO);
        }
        self.now = end;
    }
}

/// A step from which another process took over.
fn deposed() -> World {
    let mut world = World::new(Trust::AfterCommit);
    world.request([submit(1, 20, "a", None)]);
    world.store.take().unwrap();
    world
}

#[test]
fn what_claims_nothing_stored_leaves_without_a_commit_until_the_renewal_is_due() {
    let mut world = World::new(Trust::AfterCommit);
    world.request([stop(1)]);
    assert_eq!(world.numbers(), [0; 0], "the term that just began vouches for it");
    world.now = world.now + SECOND;
    world.request([stop(2)]);
    assert_eq!(world.numbers(), [1], "an empty commit");
    world.request([stop(3)]);
    assert_eq!(world.numbers(), [1]);
    assert_eq!(world.replies.len(), 3);

    world.now = world.now + SECOND;
    world.store.take().unwrap();
    world.request([stop(4)]);
    assert_eq!(world.refused, [(4, Refused::NotStored)]);
}

#[test]
fn an_idle_step_commits_once_a_second_and_only_where_trust_ends() {
    for (trust, commits) in [(Trust::AfterCommit, 10), (Trust::Always, 0)] {
        let mut world = World::new(trust);
        world.idle(SECOND * 10);
        let batches = world.commits.iter().filter(|it| matches!(it.content, Content::Batch(_)));
        assert_eq!(batches.count(), commits, "{trust:?}");
    }
}

#[test]
fn a_commit_is_a_renewal() {
    let mut world = World::new(Trust::AfterCommit);
    world.now = world.now + SECOND / 2;
    let sent = world.now;
    world.request([submit(1, 20, "a", None)]);
    assert_eq!(world.step.trusted_until(), Some(sent + TRUSTED_FOR));
    assert_eq!(world.step.gate.renewal_due(), Some(sent + SECOND));
    world.pass(SECOND / 2);
    assert_eq!(world.numbers(), [1]);
    world.pass(SECOND / 2);
    assert_eq!(world.numbers(), [1, 2]);
}

#[test]
fn a_failed_commit_renews_nothing() {
    let mut world = World::new(Trust::AfterCommit);
    let trusted = world.step.trusted_until();
    world.refusal = Some(|| StoreError::Unavailable);
    world.idle(UNKNOWN_FOR * 2);
    assert_eq!(world.step.trusted_until(), trusted);
}

#[test]
fn the_lead_is_renewed_while_the_store_is_full() {
    let mut world = World::new(Trust::AfterCommit);
    world.refusal = Some(full);
    world.request([submit(1, 20, "a", None)]);
    // There is room for an empty commit, but not for one of usual size.
    for _ in 0..5 {
        world.refusal = None;
        world.now = world.now + SECOND;
        let renewal = world.step.on(Event::Tick, world.stamp());
        let [Action::Commit(commit)] = &renewal[..] else { panic!("a renewal comes first") };
        assert!(matches!(&commit.content, Content::Batch(batch) if batch.is_empty()));
        let (id, outcome) = (commit.id, commit.write_to(&mut world.store));
        let probe = world.step.on(Event::Committed(id, outcome), world.stamp());
        world.refusal = Some(full);
        world.perform(probe);
        assert_eq!(world.step.trusted_until(), Some(world.now + TRUSTED_FOR));
    }
    assert_eq!(world.takes, [Reason::Start], "the probe found no room");
    world.refusal = None;
    world.idle(SECOND);
    assert_eq!(world.takes, [Reason::Start, Reason::Writable]);
    assert!(!world.store.jobs.contains_key(&job(20)), "its caller was refused");
}

#[test]
fn a_step_that_lost_the_lead_never_comes_back() {
    let lost = |world: &World| matches!(world.stepped_down, Some(Failure::LeadLost));
    let mut world = deposed();
    world.request([submit(2, 21, "a", None)]);
    assert!(lost(&world), "{:?}", world.stepped_down);
    assert_eq!(world.refused, [(2, Refused::NotStored)]);
    assert!(world.closed_streams > 0);
    assert_eq!((world.takes.len(), world.step.wake()), (1, None));

    let mut idle = deposed();
    idle.idle(SECOND);
    assert!(lost(&idle), "the renewal finds out");

    let mut without_room = deposed();
    without_room.refusal = Some(full);
    without_room.request([submit(2, 21, "a", None)]);
    without_room.refusal = Some(|| StoreError::Fenced);
    without_room.idle(SECOND);
    assert!(lost(&without_room));

    let mut unknown = deposed();
    unknown.refusal = Some(|| StoreError::Unavailable);
    unknown.request([submit(2, 21, "a", None)]);
    unknown.pass(UNKNOWN_FOR);
    assert!(unknown.step.scheduler().is_none(), "it tries to take over from its own term");
    unknown.refusal = Some(|| StoreError::Fenced);
    unknown.idle(RETRY_EVERY);
    assert!(lost(&unknown));
    assert_eq!(unknown.refused, [(2, Refused::OutcomeUnknown)]);
}

#[test]
fn what_agents_act_upon_waits_for_one_commit_that_began_later() {
    let node = NodeId::from_uuid(Uuid::from_u128(30));
    let open = |caller| (caller, Request::Input(Input::OpenAssignments { node, session: 1 }));
    for (trust, commits) in [(Trust::AfterCommit, 1), (Trust::Always, 0)] {
        let mut world = World::new(trust);
        world.request([join(1, node)]);
        let before = world.commits.len();
        world.request([open(2), (3, Request::Prove), stop(4)]);
        assert_eq!(world.commits.len() - before, commits, "{trust:?}: shared");
        assert!(matches!(
            world.replies[1..],
            [
                (2, Reply::Answer(Answer::Assignments(_))),
                (3, Reply::Proved),
                (4, Reply::Answer(Answer::Refused(_)))
            ]
        ));
    }
    // Another process may have placed it.
    let unknown = ExecutionId::from_uuid(Uuid::from_u128(31));
    let reports = vec![Report::new(unknown, 1, ComputeState::Completed)];
    let reports = Request::Input(Input::Reports { node, session: 1, reports });
    for request in [open(5), (5, Request::Prove), (5, reports)] {
        let mut world = World::new(Trust::AfterCommit);
        world.request([join(1, node)]);
        world.store.take().unwrap();
        world.request([request]);
        assert_eq!(world.refused, [(5, Refused::NotStored)]);
        assert_eq!(world.replies.len(), 1, "only the node's joining is answered");
    }
}
