//! What the tasks of simulated agents have printed.

use std::io;

use api_types::log::{LogFrame, LogOutput, LogPosition, LogStream};
use api_types::{ExecutionId, Timestamp};
use bytes::Bytes;
use futures_util::stream::{self, Stream};

/// Interval between two lines of a task.
const INTERVAL_NS: i64 = 1_000_000;

/// When all tasks began.
const BEGIN: i64 = 1_700_000_000_000_000_000;

/// Frames are sent together up to this length, as agents do.
const PIECE_BYTES: usize = 64 << 10;

/// The answer to a request for the output of an execution. Lines of several executions alternate.
pub(super) fn frames(
    id: ExecutionId,
    lines: u32,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
    let shift = id.uuid().as_u128() % INTERVAL_NS.unsigned_abs() as u128;
    let begin = BEGIN + i64::try_from(shift).unwrap_or(0);
    let line = move |number: u32| {
        let text =
            format!("line {number} of an execution that prints what a small service prints\n");
        let time = Timestamp(begin + i64::from(number) * INTERVAL_NS);
        let data = text.as_bytes().into();
        LogFrame::Output(LogOutput { stream: LogStream::Stdout, time, data })
    };
    let begin = std::iter::once(LogFrame::Begin(LogPosition::default()));
    let mut frames = begin.chain((0..lines).map(line)).chain([LogFrame::End]);
    stream::iter(std::iter::from_fn(move || {
        let mut bytes = Vec::with_capacity(PIECE_BYTES);
        for frame in frames.by_ref() {
            serde_json::to_writer(&mut bytes, &frame).expect("a frame is plain data");
            bytes.push(b'\n');
            if bytes.len() >= PIECE_BYTES {
                break;
            }
        }
        (!bytes.is_empty()).then(|| Ok(Bytes::from(bytes)))
    }))
}
