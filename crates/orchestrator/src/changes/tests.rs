//! Notes become messages, bounded in number and size.

use api_types::Timestamp;
use api_types::job::JobStateType;
use scheduler::change::{EventRow, EventSubject};
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
            slots: 1,
            fresh: 1,
            completed: 0,
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
