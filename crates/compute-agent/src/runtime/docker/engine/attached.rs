//! The standard streams of a container.

use bollard::container::LogOutput;
use bollard::errors::Error;
use futures_util::stream::{BoxStream, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::WriteHalf;
use tokio_util::codec::FramedRead;

use super::answer::Answer;
use super::frames::OutputPieces;

pub(in super::super) struct Attached {
    pub(in super::super) input: WriteHalf<TokioIo<Upgraded>>,
    pub(in super::super) output: BoxStream<'static, Result<LogOutput, Error>>,
}

// === impl Attached ===

impl Attached {
    pub(super) async fn open(answer: Answer) -> Result<Self, Error> {
        let upgraded = hyper::upgrade::on(answer.into_response()).await?;
        let (reading, input) = tokio::io::split(TokioIo::new(upgraded));
        Ok(Self { input, output: FramedRead::new(reading, OutputPieces).boxed() })
    }
}
