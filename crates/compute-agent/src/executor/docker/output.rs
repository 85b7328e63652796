//! What a container printed, as the Engine's log driver kept it.

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptions;
use futures_util::stream::{BoxStream, StreamExt};

use super::error;
use crate::executor::{ExecutorError, OutputChunk, OutputStream};

pub(super) fn of_container(
    client: Docker,
    name: String,
) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
    let options =
        LogsOptions { stdout: true, stderr: true, tail: "all".to_owned(), ..Default::default() };
    client
        .logs(&name, Some(options))
        .filter_map(|output| async {
            let (stream, bytes) = match output {
                Ok(LogOutput::StdOut { message } | LogOutput::Console { message }) => {
                    (OutputStream::Stdout, message)
                }
                Ok(LogOutput::StdErr { message }) => (OutputStream::Stderr, message),
                Ok(LogOutput::StdIn { .. }) => return None,
                Err(error) => return Some(Err(error::of_container(error))),
            };
            Some(Ok(OutputChunk { stream, bytes }))
        })
        .boxed()
}
