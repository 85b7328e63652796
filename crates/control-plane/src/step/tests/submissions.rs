//! Submissions: once per key, and once per chosen ID.

use super::*;

#[test]
fn a_chosen_id_is_taken_in_its_turn_although_its_job_is_over() {
    let mut world = World::new(Trust::Always);
    // Without a node, an ops job ends as it is submitted.
    let ops = |caller| {
        let (caller, mut request) = submit(caller, 4, "a", None);
        if let Request::Submit(submission) = &mut request {
            let mut spec = JobSpec::clone(&submission.submit.spec);
            spec.job_type = JobType::Ops;
            submission.submit.spec_json = spec_json(&spec);
            submission.submit.spec = Arc::new(spec);
        }
        (caller, request)
    };
    world.request([ops(1), ops(2)]);
    let exists = Err(NotCreated::Refused(Refusal::JobExists(job(4))));
    assert_eq!(world.created(), [(1, Ok(job(4))), (2, exists)]);
}

#[test]
fn a_key_has_one_answer_in_its_turn_and_for_as_long_as_it_is_kept() {
    let mut world = World::new(Trust::Always);
    let with_key = |caller, id, namespace, hash| submit(caller, id, namespace, Some(("k", hash)));
    world.request([with_key(1, 21, "a", 1), with_key(2, 22, "a", 1), with_key(3, 23, "b", 1)]);
    world.request([with_key(4, 24, "a", 1), with_key(5, 25, "a", 2), with_key(6, 26, "c", 1)]);
    world.request([submit(7, 4, "a", None), submit(8, 4, "a", None)]);
    world.request([submit(9, 4, "a", None)]);
    let exists = || Err(NotCreated::Refused(Refusal::JobExists(job(4))));
    let expected = [
        (1, Ok(job(21))),
        (2, Ok(job(21))),
        (3, Ok(job(23))),
        (4, Ok(job(21))),
        (5, Err(NotCreated::KeyConflict)),
        (6, Ok(job(26))),
        (7, Ok(job(4))),
        (8, exists()),
        (9, exists()),
    ];
    assert_eq!(world.created(), expected);
    world.now = world.now + KEY_RETENTION + Duration::from_secs(1);
    world.request([with_key(10, 27, "a", 1)]);
    assert_eq!(world.created().last(), Some(&(10, Ok(job(27)))));
}

#[test]
fn without_the_store_only_what_needs_no_lookup_is_submitted() {
    let mut world = World::new(Trust::Always);
    let arrived = world.stamp().now();
    let requests =
        [submit(1, 21, "a", Some(("k", 1))), submit(2, 2, "a", None), submit(3, 22, "a", None)];
    let envelope = |request| enveloped(arrived, request);
    let inputs = requests.into_iter().map(envelope).collect();
    let actions = world.step.on(Event::Inputs { inputs, known: None }, world.stamp());
    world.perform(actions);
    let unreadable = || Err(NotCreated::Unreadable);
    assert_eq!(world.created(), [(1, unreadable()), (2, unreadable()), (3, Ok(job(22)))]);
}
