//! Limits on what a node sends: a malicious node can waste memory and disk only within them.
//!
//! What no honest agent sends is refused. What an honest agent might exceed in an odd case is cut,
//! since it would repeat a refused report for ever.

use api_types::NodeId;
use api_types::curve::MAX_POINTS;
use api_types::engine::PublisherType;
use api_types::error::FieldError;
use api_types::execution::{
    ComputeState, MAX_OMITTED, MAX_OMITTED_BYTES, RUN_OUTPUT_BYTES, RunOutput,
};
use api_types::log::{MAX_TAIL_BYTES, OutputTail, StreamTail};
use api_types::node::check_node_name;
use api_types::protocol::{AgentProcess, MAX_RESULT_BYTES, Report, SessionRequest};
use api_types::usage::Usage;

use crate::http::api::Api;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Conflict, Failure};

/// Bytes of a whole session request (addresses, labels, engines, GPUs) or heartbeat. A larger one is
/// not read: a node is heard while others send what they like.
const MAX_SESSION_BYTES: usize = 128 << 10;

/// Labels of one node: placement tests them, and node lists contain them.
const MAX_LABELS: usize = 256;

/// Bytes of one label's key and value together.
const MAX_LABEL_BYTES: usize = 4096;

/// Bytes of the name of a host or the ID of a boot; Linux has at most 64.
const MAX_PROCESS_BYTES: usize = 255;

/// Addresses of one node.
const MAX_ADDRESSES: usize = 64;

/// In the place of a location that is too long.
const RESULT_CUT: &str = "the location of its results was longer than 16 KiB and is not kept";

/// Refuses the orchestrator's own ID: its record is not a node's to set.
pub(super) fn agent_node(api: &Api, node: NodeId) -> Result<NodeId, Failure> {
    if node == api.own.id { Err(Conflict::OwnNode(node).into()) } else { Ok(node) }
}

/// Checks the size of a session request or heartbeat. Call before it is read.
pub(super) fn check_size(body: &JsonBody) -> Result<(), Failure> {
    if body.bytes.len() <= MAX_SESSION_BYTES {
        return Ok(());
    }
    let reason = format!("the body has more than {MAX_SESSION_BYTES} bytes");
    Err(BadRequest::MalformedBody { reason }.into())
}

pub(super) fn check_session(request: &SessionRequest) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let mut refuse = |path: String, reason: String| problems.push(FieldError { path, reason });
    // Empty from an agent of a release without names.
    if let Err(reason) = check_node_name(&request.name)
        && !request.name.is_empty()
    {
        refuse("Name".to_owned(), reason);
    }
    if let Some(AgentProcess { machine, boot, started: _ }) = &request.process {
        for (path, text) in [("Process.Machine", machine), ("Process.Boot", boot)] {
            if text.len() > MAX_PROCESS_BYTES {
                refuse(
                    path.to_owned(),
                    format!("must not be longer than {MAX_PROCESS_BYTES} bytes"),
                );
            }
        }
    }
    if request.addrs.len() > MAX_ADDRESSES {
        refuse("Addrs".to_owned(), format!("must not be more than {MAX_ADDRESSES}"));
    }
    if request.labels.len() > MAX_LABELS {
        refuse("Labels".to_owned(), format!("must not be more than {MAX_LABELS}"));
    }
    for (key, value) in &request.labels {
        if key.is_empty() || key.len() + value.len() > MAX_LABEL_BYTES {
            let reason =
                format!("must have a key, and not be longer than {MAX_LABEL_BYTES} bytes together");
            refuse(format!("Labels.{key}"), reason);
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(BadRequest::Body(problems).into()),
    }
}

/// Cuts a report to its bounds.
pub(super) fn bound_report(report: &mut Report) {
    if let Some(result) = &mut report.published_result {
        // The service itself says where such an archive is.
        if result.publisher_type == PublisherType::Local {
            result.params.clear();
        }
        let bytes = serde_json::to_vec(&result.params).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_RESULT_BYTES {
            result.params.clear();
            let said = if report.message.is_empty() { "" } else { "; " };
            report.message.insert_str(0, &format!("{RESULT_CUT}{said}"));
        }
    }
    report.cut_texts();
    report.usage = report.usage.map(Usage::bounded);
    report.curve = report.curve.take().filter(|curve| curve.is_sound(MAX_POINTS));
    let is_kept = report.compute_state == ComputeState::Failed;
    report.tail = report.tail.take().filter(|tail| is_kept && is_a_tail(tail));
    if let Some(RunOutput {
        stdout,
        stdout_truncated,
        stdout_tail,
        stderr,
        stderr_truncated,
        stderr_tail,
        omitted,
        ..
    }) = &mut report.run_output
    {
        omitted.truncate(MAX_OMITTED);
        for entry in omitted {
            cut_to(entry, MAX_OMITTED_BYTES);
        }
        cut_to(stdout_tail, RUN_OUTPUT_BYTES);
        cut_to(stderr_tail, RUN_OUTPUT_BYTES);
        *stdout_truncated |= cut_to(stdout, RUN_OUTPUT_BYTES);
        *stderr_truncated |= cut_to(stderr, RUN_OUTPUT_BYTES);
    }
}

/// Whether it is as small as those of honest agents.
fn is_a_tail(tail: &OutputTail) -> bool {
    let bytes = |tail: &StreamTail| tail.data.clone().into_bytes().map(|bytes| bytes.len());
    let sizes = bytes(&tail.stdout).zip(bytes(&tail.stderr));
    sizes.is_some_and(|(stdout, stderr)| stdout + stderr <= MAX_TAIL_BYTES)
}

/// Whether there was something to cut.
fn cut_to(text: &mut String, bytes: usize) -> bool {
    let is_longer = text.len() > bytes;
    if is_longer {
        text.truncate(text.floor_char_boundary(bytes));
        text.shrink_to_fit();
    }
    is_longer
}

#[cfg(test)]
mod tests {
    use api_types::log::LogData;

    use super::*;

    #[test]
    fn a_tail_that_is_too_long_or_unreadable_is_no_tail() {
        let tail = |data: LogData| StreamTail { offset: 0, data };
        let of = |bytes: usize| tail(LogData::Text("x".repeat(bytes)));
        let (half, none) = (MAX_TAIL_BYTES / 2, || of(0));
        assert!(is_a_tail(&OutputTail { stdout: of(half), stderr: of(half) }));
        assert!(!is_a_tail(&OutputTail { stdout: of(half), stderr: of(half + 1) }));
        let garbage = tail(LogData::Base64("?".to_owned()));
        assert!(!is_a_tail(&OutputTail { stdout: garbage, stderr: none() }));
    }
}
