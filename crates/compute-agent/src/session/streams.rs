//! Answers requests for output, for published archives and for what tasks use, each on a connection
//! that this node opens separately.
//!
//! Output is produced only as fast as it is consumed: a slow reader fills the connection and then
//! the engine's, but no memory in this process.

use std::sync::Arc;
use std::time::Duration;

use api_client::Client;
use api_types::log::{
    FRAME_KEEP_ALIVE_SECONDS, LogFrame, LogOutput, MAX_FRAME_OUTPUT_BYTES, StreamRequest,
};
use api_types::usage::{ExecutionUsage, MAX_FRAME_CURVES, MAX_FRAME_EXECUTIONS, UsageRequest};
use api_types::{Code, NodeId};
use bytes::Bytes;
use futures_util::future::FutureExt;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use super::archives;
use crate::data::logs::{Begin, Output, OutputError, Outputs, Wanted};
use crate::data::results::publisher::PublishedDir;
use crate::node::tasks::Tasks;
use crate::node::usage::Meters;
use crate::runtime::OutputChunk;

/// Concurrent streams: each holds a connection to the orchestrator, and one to the engine while its
/// task runs. Beyond it a request is refused, and a reader that follows the output repeats it.
const MAX_STREAMS: usize = 256;

/// Frames that are available together are sent together, up to about this length.
const PIECE_BYTES: usize = 64 << 10;

/// Answers the orchestrator's requests for output.
pub(crate) struct Streams {
    client: Client,
    node_id: NodeId,
    outputs: Arc<Outputs>,
    published: PublishedDir,
    meters: Arc<Meters>,
    tasks: Tasks,
    permits: Arc<Semaphore>,
}

// === impl Streams ===

impl Streams {
    pub(crate) fn new(
        client: Client,
        node_id: NodeId,
        outputs: Arc<Outputs>,
        published: PublishedDir,
        meters: Arc<Meters>,
        tasks: Tasks,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_STREAMS));
        Self { client, node_id, outputs, published, meters, tasks, permits }
    }

    /// Answers in the background, until everything is sent or the reader has disconnected.
    pub(crate) fn answer(&self, request: StreamRequest) {
        let (client, node_id) = (self.client.clone(), self.node_id);
        let (stream_id, execution) = (request.stream_id, request.execution_id);
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let frames = match &permit {
            Ok(_) => match request.archive.clone() {
                Some(archive) => archives::frames(&self.published, execution, archive),
                None => self.frames(request),
            },
            Err(_) => {
                warn!(%execution, "too many log streams at the same time; one is refused");
                let message = format!("its node serves {MAX_STREAMS} log streams already");
                stream::iter([LogFrame::Failed { message }]).boxed()
            }
        };
        self.tasks.spawn(async move {
            let _permit = permit;
            let body = pieces(with_keep_alive(frames));
            match client.answer_stream(node_id, stream_id, body).await {
                Ok(()) => debug!(%execution, %stream_id, "a log stream ended"),
                Err(error) if error.code() == Some(Code::StreamNotFound) => {
                    debug!(%execution, %stream_id, "no reader waits for the log stream any more");
                }
                Err(error) => debug!(%execution, %stream_id, %error, "a log stream broke off"),
            }
        });
    }

    /// Answers in the background. The orchestrator asks again only when it has the answer or has
    /// given up, so that there are never many.
    pub(crate) fn answer_usage(&self, request: UsageRequest) {
        let UsageRequest { stream_id, job_id, node } = request;
        let (client, node_id) = (self.client.clone(), self.node_id);
        let meters = Arc::clone(&self.meters);
        self.tasks.spawn(async move {
            let frames = match node {
                true => {
                    let (hour, day) = meters.of_node();
                    vec![LogFrame::NodeUsage { hour, day }, LogFrame::End]
                }
                false => used_frames(&meters.all(job_id).await, job_id.is_some()),
            };
            let body = pieces(stream::iter(frames));
            if let Err(error) = client.answer_stream(node_id, stream_id, body).await {
                debug!(%stream_id, %error, "cannot send the usage of the tasks");
            }
        });
    }

    fn frames(&self, request: StreamRequest) -> BoxStream<'static, LogFrame> {
        let StreamRequest { execution_id: id, follow, tail, stream, from, .. } = request;
        let begin = match (from, tail) {
            (Some(position), _) => Begin::At(position),
            (None, Some(count)) => Begin::Tail(count),
            (None, None) => Begin::At(Default::default()),
        };
        self.outputs
            .read(Wanted { id, follow, stream, begin })
            .map(Some)
            .chain(stream::once(async { None }))
            .scan(false, |failed, output| {
                let frames = match output {
                    Some(Ok(Output::Begin(position))) => vec![LogFrame::Begin(position)],
                    Some(Ok(Output::Chunk(chunk))) => of_chunk(&chunk),
                    Some(Err(error)) => {
                        *failed = true;
                        vec![of_error(&error)]
                    }
                    None if *failed => Vec::new(),
                    None => vec![LogFrame::End],
                };
                std::future::ready(Some(stream::iter(frames)))
            })
            .flatten()
            .boxed()
    }
}

fn used_frames(used: &[ExecutionUsage], with_curves: bool) -> Vec<LogFrame> {
    let length = if with_curves { MAX_FRAME_CURVES } else { MAX_FRAME_EXECUTIONS };
    let frames = used.chunks(length);
    let frames = frames.map(|part| LogFrame::Usage { executions: part.to_vec() });
    frames.chain([LogFrame::End]).collect()
}

fn of_chunk(chunk: &OutputChunk) -> Vec<LogFrame> {
    let OutputChunk { stream, time, ref bytes } = *chunk;
    let output = |data: &[u8]| LogFrame::Output(LogOutput { stream, time, data: data.into() });
    bytes.chunks(MAX_FRAME_OUTPUT_BYTES).map(output).collect()
}

fn of_error(error: &OutputError) -> LogFrame {
    match error {
        OutputError::Absent => LogFrame::Absent,
        OutputError::Executor(_) | OutputError::Disk(_) | OutputError::Stopping => {
            if let OutputError::Disk(cause) = error {
                warn!(%cause, "kept output cannot be read");
            }
            LogFrame::Failed { message: error.to_string() }
        }
    }
}

/// Adds a keep-alive frame whenever no other was sent for a while.
fn with_keep_alive(frames: BoxStream<'static, LogFrame>) -> impl Stream<Item = LogFrame> + Send {
    stream::unfold(frames, |mut frames| async {
        let silence = Duration::from_secs(FRAME_KEEP_ALIVE_SECONDS);
        match tokio::time::timeout(silence, frames.next()).await {
            Ok(frame) => frame.map(|frame| (frame, frames)),
            Err(_) => Some((LogFrame::KeepAlive, frames)),
        }
    })
}

/// One JSON object a line; lines that are available together are sent together.
fn pieces(
    frames: impl Stream<Item = LogFrame> + Send + 'static,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::unfold(frames.boxed().fuse(), |mut frames| async {
        let mut bytes = Vec::with_capacity(PIECE_BYTES);
        let mut next = frames.next().await;
        while let Some(frame) = next {
            if let Err(error) = serde_json::to_writer(&mut bytes, &frame) {
                return Some((Err(error.into()), frames));
            }
            bytes.push(b'\n');
            if bytes.len() >= PIECE_BYTES {
                break;
            }
            next = frames.next().now_or_never().flatten();
        }
        (!bytes.is_empty()).then(|| (Ok(Bytes::from(bytes)), frames))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_filled_with_keep_alive_frames() {
        let silent = stream::pending().boxed();
        let frames: Vec<_> = with_keep_alive(silent).take(2).collect().await;
        assert_eq!(frames, [LogFrame::KeepAlive, LogFrame::KeepAlive]);
        let ended = stream::iter([LogFrame::End]).boxed();
        assert_eq!(with_keep_alive(ended).collect::<Vec<_>>().await, [LogFrame::End]);
    }
}
