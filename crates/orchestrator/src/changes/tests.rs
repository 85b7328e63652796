//! Notes become messages, bounded in number and size.

use api_types::Timestamp;
use api_types::job::JobStateType;
use scheduler::change::{EventRow, EventSubject};
use scheduler::slots::Slots;
use uuid::Uuid;

use super::*;

fn job(number: usize) -> JobId {
    JobId::from_uuid(Uuid::from_u128(number as u128))
}

fn node(number: usize) -> NodeId {
    NodeId::from_uuid(Uuid::from_u128(number as u128))
}

/// A commit that changed these jobs, with an event.
fn changes(jobs: std::ops::Range<usize>, seq: u64) -> Changes {
    let mut changes = Changes::default();
    for number in jobs {
        let row = scheduler::change::JobRow {
            id: job(number),
            state: JobStateType::Running,
            message: "".into(),
            version: 1,
            revision: 2,
            modify_time: Timestamp::ZERO,
            last_event_time: Timestamp::ZERO,
            waiting_since: None,
            ended_at: None,
            start_time: None,
            running: 0,
            failed: 0,
            slots: Slots::below(1),
            fresh: 1,
            completed: 0,
            failed_slots: 0,
            evaluation: api_types::EvaluationId::from_uuid(Uuid::nil()),
            live: true,
        };
        changes.jobs.insert(row.id, row);
    }
    changes.events.push(EventRow {
        seq,
        time: Timestamp::ZERO,
        revision: 1,
        comment: "".into(),
        subject: EventSubject::Job {
            job: job(0),
            previous: JobStateType::Pending,
            new: JobStateType::Running,
        },
    });
    changes
}

#[test]
fn a_message_lists_what_changed_once() {
    let feed = ChangeFeed::default();
    assert_eq!(feed.next(0), Next::Nothing);
    feed.note(&changes(1..3, 7), &[], false);
    feed.note(&changes(2..4, 9), &[node(5)], false);
    feed.seal();
    let expected = ChangeNotice {
        through: 9,
        jobs: vec![job(1), job(2), job(3)],
        more: false,
        nodes: vec![node(5)],
        cluster: true,
    };
    match feed.next(0) {
        Next::Message(message) => {
            assert_eq!((message.number, &*message.notice), (1, &expected));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(feed.next(1), Next::Nothing);
    // Nothing happened since.
    feed.note(&Changes::default(), &[], false);
    feed.seal();
    assert_eq!((feed.next(1), feed.through()), (Next::Nothing, 9));
    // Reasons belong to no record.
    feed.note(&Changes::default(), &[], true);
    feed.seal();
    let Next::Message(message) = feed.next(1) else { panic!("there is a message") };
    let expected = ChangeNotice { through: 9, cluster: true, ..ChangeNotice::default() };
    assert_eq!(*message.notice, expected);
}

#[test]
fn a_message_lists_a_thousand_jobs_and_nodes() {
    let feed = ChangeFeed::default();
    feed.note(&changes(0..LISTED, 1), &[], false);
    feed.note(&changes(0..10, 2), &[], false);
    feed.seal();
    let Next::Message(message) = feed.next(0) else { panic!("there is a message") };
    assert_eq!((message.notice.jobs.len(), message.notice.more), (LISTED, false));
    feed.note(&changes(0..LISTED + 1, 3), &[], false);
    feed.seal();
    let Next::Message(message) = feed.next(1) else { panic!("there is a message") };
    assert_eq!((message.notice.jobs.len(), message.notice.more), (LISTED, true));
    let nodes: Vec<_> = (0..=LISTED).map(node).collect();
    feed.note(&Changes::default(), &nodes, false);
    feed.seal();
    let Next::Message(message) = feed.next(2) else { panic!("there is a message") };
    assert_eq!((message.notice.nodes.len(), message.notice.more), (LISTED, true));
}

#[test]
fn a_reader_that_is_far_behind_learns_that_it_missed_messages() {
    let feed = ChangeFeed::default();
    for seq in 1..=KEPT as u64 + 2 {
        feed.note(&changes(0..1, seq), &[], false);
        feed.seal();
    }
    let last = KEPT as u64 + 2;
    assert_eq!(feed.next(1), Next::Missed(last));
    assert!(matches!(feed.next(2), Next::Message(message) if message.number == 3));
    assert_eq!(feed.next(last), Next::Nothing);
}

#[tokio::test]
async fn messages_are_a_second_apart_and_the_first_comes_at_once() {
    let feed = std::sync::Arc::new(ChangeFeed::default());
    let stopping = CancellationToken::new();
    let running = tokio::spawn({
        let (feed, stopping) = (std::sync::Arc::clone(&feed), stopping.clone());
        async move { feed.run(stopping).await }
    });
    let mut last = feed.last();
    let began = Instant::now();
    let mut times = Vec::new();
    for seq in 1..=3 {
        feed.note(&changes(0..1, seq), &[], false);
        last.changed().await.unwrap();
        times.push(began.elapsed());
    }
    assert!(times[0] < PERIOD, "{times:?}");
    assert!(times[1] >= PERIOD && times[2] >= 2 * PERIOD, "{times:?}");
    feed.note_everything();
    last.changed().await.unwrap();
    let Next::Message(message) = feed.next(3) else { panic!("there is a message") };
    assert!(message.notice.more);
    stopping.cancel();
    running.await.unwrap();
}

/// Executions that change in a second at the rate that the service is made for, and for how long.
const PER_MILLISECOND: usize = 5;
const LOADED: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn at_5000_changes_a_second_every_message_is_bounded_and_a_second_apart() {
    let feed = std::sync::Arc::new(ChangeFeed::default());
    let stopping = CancellationToken::new();
    let running = tokio::spawn({
        let (feed, stopping) = (std::sync::Arc::clone(&feed), stopping.clone());
        async move { feed.run(stopping).await }
    });
    let reading = tokio::spawn({
        let (feed, mut last) = (std::sync::Arc::clone(&feed), feed.last());
        async move {
            let mut messages = Vec::new();
            while last.changed().await.is_ok() {
                let after = messages.last().map_or(0, |(_, message): &(_, Message)| message.number);
                let Next::Message(message) = feed.next(after) else { panic!("one was skipped") };
                let is_last = message.notice.cluster && message.notice.nodes == [node(1)];
                messages.push((Instant::now(), message));
                if is_last {
                    break;
                }
            }
            messages
        }
    });
    let begun = Instant::now();
    let mut changed = 0;
    while begun.elapsed() < LOADED {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for _ in 0..PER_MILLISECOND {
            changed += 1;
            feed.note(&changes(changed..changed + 1, changed as u64), &[], false);
        }
    }
    feed.note(&Changes::default(), &[node(1)], false);
    let messages = reading.await.unwrap();
    assert_eq!(changed as u64, LOADED.as_secs() * 5000);
    let seconds = usize::try_from(LOADED.as_secs()).unwrap();
    assert!((seconds..=seconds + 1).contains(&messages.len()), "{} messages", messages.len());
    for pair in messages.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= PERIOD, "{:?}", pair[1].0 - pair[0].0);
    }
    for (_, message) in &messages[1..] {
        assert_eq!(message.notice.jobs.len(), LISTED);
        assert!(message.notice.more);
    }
    assert_eq!(messages.last().map(|(_, last)| last.notice.through), Some(changed as u64));
    stopping.cancel();
    running.await.unwrap();
}
