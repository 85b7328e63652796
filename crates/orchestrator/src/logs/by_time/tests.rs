//! Several sources in one order of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use api_types::ExecutionId;
use api_types::log::LogStream;
use futures_util::stream;
use uuid::Uuid;

use super::*;

fn id(index: u32) -> ExecutionId {
    ExecutionId::from_uuid(Uuid::from_u128(u128::from(index)))
}

fn printed(index: u32, time: i64, text: &str) -> Event {
    let (stream, bytes) = (LogStream::Stdout, text.as_bytes().to_vec());
    let piece = Piece { stream, time: Timestamp(time), offset: 0, bytes };
    Event::Item(Label { id: id(index), index }, Item::Output(vec![piece]))
}

fn label(index: u32) -> Label {
    Label { id: id(index), index }
}

fn node(number: u128) -> NodeId {
    NodeId::from_uuid(Uuid::from_u128(number))
}

/// What a reader gets, as `index:text`; remarks as `index!`.
async fn read(merge: &mut ByTime) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(event) = merge.next().await {
        match event {
            Event::Item(label, Item::Output(pieces)) => {
                all.extend(pieces.iter().map(|piece| {
                    format!("{}:{}", label.index, String::from_utf8_lossy(&piece.bytes))
                }))
            }
            Event::Item(label, _) => all.push(format!("{}!", label.index)),
            Event::Ended(_) | Event::Interrupted(_) => {}
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn past_output_is_in_order_of_time_and_no_execution_is_reordered() {
    let mut merge = ByTime::new(false);
    // The second one's clock goes back.
    merge.push(label(1), None, stream::iter([printed(1, 10, "a"), printed(1, 40, "d")]).boxed());
    let second = [printed(2, 20, "b"), printed(2, 15, "c"), printed(2, 50, "e")];
    merge.push(label(2), None, stream::iter(second).boxed());
    assert_eq!(read(&mut merge).await, ["1:a", "2:b", "2:c", "1:d", "2:e"]);
}

#[tokio::test(start_paused = true)]
async fn sources_that_hang_cost_two_seconds_in_total() {
    let begin = Instant::now();
    let mut merge = ByTime::new(false);
    for index in 1..=3 {
        let one = stream::iter([printed(index, i64::from(index), "x")]);
        merge.push(
            label(index),
            None,
            if index == 2 { one.boxed() } else { one.chain(stream::pending()).boxed() },
        );
    }
    assert_eq!(read(&mut merge).await, ["1:x", "1!", "2:x", "3:x", "3!"]);
    merge.push(label(4), None, stream::pending().boxed());
    assert_eq!(read(&mut merge).await, ["4!"]);
    let waited = begin.elapsed();
    assert!(waited >= SILENCE && waited <= SILENCE + 3 * LEAST_PATIENCE, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_source_does_not_wait_for_an_idle_one() {
    let mut merge = ByTime::new(true);
    merge.push(label(1), None, stream::pending().boxed());
    let busy: Vec<_> = (0..100).map(|number| printed(2, number, "x")).collect();
    let busy = stream::iter(busy).then(async |event| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        event
    });
    merge.push(label(2), None, busy.boxed());
    let begin = Instant::now();
    let mut printed = 0;
    while printed < 100 {
        let Some(Event::Item(_, Item::Output(pieces))) = merge.next().await else { panic!("over") };
        printed += pieces.len();
    }
    assert!(begin.elapsed() <= FIRST_SILENCE + FOLLOWED_SILENCE, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn sources_are_read_a_little_ahead_and_no_further() {
    let mut merge = ByTime::new(false);
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<Event>(1000);
    for number in 0..1000 {
        sender.try_send(printed(1, number, &"x".repeat(1000))).ok().unwrap();
    }
    drop(sender);
    let source = stream::poll_fn(move |context| receiver.poll_recv(context));
    merge.push(label(1), None, source.boxed());
    merge.push(label(2), None, stream::iter([printed(2, 0, "y")]).boxed());
    merge.next().await.unwrap();
    assert!(merge.slots.iter().all(|slot| slot.bytes <= AHEAD_BYTES + 1000));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_is_given_up_and_one_that_sends_something_gets_another_chance() {
    let begin = Instant::now();
    let mut merge = ByTime::new(false);
    let push = |merge: &mut ByTime, index, of, hangs| {
        let one = stream::iter([printed(index, i64::from(index), "x")]);
        merge.push(
            label(index),
            Some(of),
            if hangs { stream::pending().boxed() } else { one.boxed() },
        );
    };
    let [silent, unwell, well] = [1, 2, 3].map(node);
    merge.begin_block();
    push(&mut merge, 1, silent, true);
    push(&mut merge, 2, unwell, true);
    push(&mut merge, 3, unwell, false);
    push(&mut merge, 4, well, false);
    assert_eq!(read(&mut merge).await, ["1!", "2!", "3:x", "4:x"]);
    assert_eq!([silent, unwell, well].map(|node| merge.gave_up(node)), [true, false, false]);
    assert_eq!(begin.elapsed(), SILENCE);
    merge.begin_block();
    push(&mut merge, 5, unwell, true);
    push(&mut merge, 6, well, false);
    assert_eq!(read(&mut merge).await, ["5!", "6:x"]);
    assert!(merge.gave_up(unwell) && begin.elapsed() == SILENCE + LEAST_PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn sources_are_not_polled_for_the_lines_of_others() {
    const SOURCES: u32 = 64;
    const LINES: i64 = 20;
    let mut merge = ByTime::new(false);
    let polls = Arc::new(AtomicU32::new(0));
    for index in 0..SOURCES {
        let lines = (0..LINES).map(move |number| printed(index, number, "x"));
        let (mut lines, polls) = (lines.collect::<VecDeque<_>>(), Arc::clone(&polls));
        let mut is_there = false;
        let source = stream::poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            is_there = !is_there;
            if is_there {
                return Poll::Ready(lines.pop_front());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        merge.push(label(index), None, source.boxed());
    }
    let lines = read(&mut merge).await;
    let expected = (0..LINES).flat_map(|_| (0..SOURCES).map(|index| format!("{index}:x")));
    assert_eq!(lines, expected.collect::<Vec<_>>());
    let polls = polls.load(Ordering::Relaxed);
    assert!(i64::from(polls) <= 4 * LINES * i64::from(SOURCES), "{polls}");
}
