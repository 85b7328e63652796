//! What executions leave behind, as the tests of several promises store it.

use api_types::ExecutionId;
use api_types::engine::PublisherType;
use api_types::execution::{PublishedResult, RunOutput};
use api_types::usage::Usage;
use scheduler::change::OutputRow;

pub(super) fn output(id: ExecutionId, text: &str) -> OutputRow {
    OutputRow {
        id,
        run_output: Some(RunOutput {
            stdout: text.to_owned(),
            stdout_truncated: true,
            stderr: "warning".to_owned(),
            stderr_truncated: false,
            exit_code: -9,
            runner_error: "was killed".to_owned(),
        }),
        usage: Some(Usage { cpu_seconds: 0.25, memory_peak: 1 << 40, ..Usage::default() }),
        published_result: Some(published(text)),
    }
}

pub(super) fn published(text: &str) -> PublishedResult {
    let mut params = api_types::engine::Params::new();
    params.insert("Key".to_owned(), text.into());
    PublishedResult { publisher_type: PublisherType::S3, params }
}
