//! Several sources in one order of time.

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
    merge.push(id(1), stream::iter([printed(1, 10, "a"), printed(1, 40, "d")]).boxed());
    let second = [printed(2, 20, "b"), printed(2, 15, "c"), printed(2, 50, "e")];
    merge.push(id(2), stream::iter(second).boxed());
    assert_eq!(read(&mut merge).await, ["1:a", "2:b", "2:c", "1:d", "2:e"]);
}

#[tokio::test(start_paused = true)]
async fn sources_that_hang_cost_two_seconds_in_total() {
    let begin = Instant::now();
    let mut merge = ByTime::new(false);
    for index in 1..=3 {
        let one = stream::iter([printed(index, i64::from(index), "x")]);
        merge.push(
            id(index),
            if index == 2 { one.boxed() } else { one.chain(stream::pending()).boxed() },
        );
    }
    assert_eq!(read(&mut merge).await, ["1:x", "1!", "2:x", "3:x", "3!"]);
    merge.push(id(4), stream::pending().boxed());
    assert_eq!(read(&mut merge).await, ["0!"]);
    let waited = begin.elapsed();
    assert!(waited >= SILENCE && waited <= SILENCE + 3 * LEAST_PATIENCE, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_source_does_not_wait_for_an_idle_one() {
    let mut merge = ByTime::new(true);
    merge.push(id(1), stream::pending().boxed());
    let busy: Vec<_> = (0..100).map(|number| printed(2, number, "x")).collect();
    let busy = stream::iter(busy).then(async |event| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        event
    });
    merge.push(id(2), busy.boxed());
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
    merge.push(id(1), source.boxed());
    merge.push(id(2), stream::iter([printed(2, 0, "y")]).boxed());
    merge.next().await.unwrap();
    assert!(merge.slots.iter().all(|slot| slot.bytes <= AHEAD_BYTES + 1000));
}
