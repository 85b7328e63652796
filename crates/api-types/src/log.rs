//! Task output: lines as readers get them, frames as agents send them; `docs/api.md`, "Job Logs"
//! and "Streams".

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::curve::NodeCurve;
use crate::id::ExecutionId;
use crate::time::Timestamp;
use crate::usage::ExecutionUsage;

/// The most output that one frame carries, in bytes; an agent splits longer output.
pub const MAX_FRAME_OUTPUT_BYTES: usize = 64 << 10;

/// The most output of a failed execution that its last report carries, of both streams together.
pub const MAX_TAIL_BYTES: usize = 64 << 10;

/// Longest interval between two frames of an agent's response.
pub const FRAME_KEEP_ALIVE_SECONDS: u64 = 10;

/// One of the two streams of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// The origin of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    Stdout,
    Stderr,
    /// A remark of the service about the output.
    Service,
}

/// One object of `GET …/jobs/:jobID/logs` with `Accept: application/x-ndjson`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// Of the slot that the execution fills; releases before 0.2 leave it out.
    #[serde(rename = "Index", default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    #[serde(rename = "Stream")]
    pub source: LogSource,
    /// RFC 3339; when the line began.
    #[serde(rename = "Time")]
    pub time: String,
    /// Without its line ending; bytes that are not UTF-8 are replaced.
    #[serde(rename = "Line")]
    pub line: String,
    /// The line is too long for one object and continues in the next one of its stream.
    #[serde(rename = "Partial", default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Bytes of its stream up to the end of the line: where `from` resumes. Remarks of the service
    /// have none.
    #[serde(rename = "Offset", default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// A line of the assignments stream that requests output; the agent sends it to
/// `POST …/nodes/:nodeID/streams/:streamID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct StreamRequest {
    #[serde(rename = "StreamID")]
    pub stream_id: Uuid,
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// Continue until the execution is over.
    #[serde(default)]
    pub follow: bool,
    /// Number of existing lines to begin with; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// Both when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<LogStream>,
    /// The position up to which a broken stream was received; overrides `tail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<LogPosition>,
    /// Requests the archive that the execution published on its node, instead of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveRequest>,
}

/// Which bytes of a published archive are requested.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ArchiveRequest {
    /// One file of the archive, unpacked; the whole archive when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first byte; beyond the end everything is sent.
    #[serde(default)]
    pub start: u64,
    /// The last byte; the end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// The `Tag` of an interrupted download: if it is another now, everything is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// What follows of an archive, or of one of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ArchiveHead {
    /// Bytes in all.
    pub size: u64,
    /// The first byte that follows.
    pub start: u64,
    /// Bytes that follow.
    pub length: u64,
    /// Changes with the content.
    pub tag: String,
}

/// Offset in bytes from the beginning of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct LogPosition {
    pub stdout: u64,
    pub stderr: u64,
}

/// One line of an agent's response to a [`StreamRequest`] or a
/// `UsageRequest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "Type")]
pub enum LogFrame {
    /// The position in each stream at which the following output begins.
    Begin(LogPosition),
    Output(LogOutput),
    /// Bytes of an archive follow.
    Archive(ArchiveHead),
    /// Bytes of an archive, at most [`MAX_FRAME_OUTPUT_BYTES`].
    Content {
        #[serde(rename = "Base64")]
        base64: String,
    },
    /// What some executions use; an agent sends at most 256 in one frame.
    Usage {
        #[serde(rename = "Executions")]
        executions: Vec<ExecutionUsage>,
    },
    /// What the executions of the node used, in the last hour and in the last day.
    NodeUsage {
        #[serde(rename = "Hour")]
        hour: NodeCurve,
        #[serde(rename = "Day")]
        day: NodeCurve,
    },
    KeepAlive,
    /// What was requested is complete.
    End,
    /// The node has no output of this execution, or no longer has it.
    Absent,
    /// The output cannot be read now; the message is for the user.
    Failed {
        #[serde(rename = "Message")]
        message: String,
    },
    /// From a newer release; readers skip it.
    #[serde(other)]
    Unknown,
}

/// A chunk of task output. Chunk boundaries and line boundaries are unrelated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogOutput {
    #[serde(rename = "Stream")]
    pub stream: LogStream,
    #[serde(rename = "Time")]
    pub time: Timestamp,
    #[serde(flatten)]
    pub data: LogData,
}

/// The end of the output of a failed execution, at most [`MAX_TAIL_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct OutputTail {
    pub stdout: StreamTail,
    pub stderr: StreamTail,
}

/// The last bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StreamTail {
    /// Bytes of the stream before them.
    #[serde(rename = "Offset")]
    pub offset: u64,
    #[serde(flatten)]
    pub data: LogData,
}

/// Raw bytes: text when they are UTF-8, Base64 otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogData {
    Text(String),
    Base64(String),
}

/// An object with either field, because others include it, and generators of clients merge only
/// objects.
#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for LogData {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        crate::openapi::schema::schema(serde_json::json!({
            "type": "object",
            "description": "Raw bytes: `Text` when they are UTF-8, `Base64` otherwise.",
            "properties": { "Text": { "type": "string" }, "Base64": { "type": "string" } },
        }))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for LogData {}

// === impl LogPosition ===

impl LogPosition {
    pub fn offset(&self, stream: LogStream) -> u64 {
        match stream {
            LogStream::Stdout => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }

    pub fn offset_mut(&mut self, stream: LogStream) -> &mut u64 {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        }
    }
}

// === impl LogData ===

impl From<&[u8]> for LogData {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

impl LogData {
    /// The bytes; `None` when the text is not Base64.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

// === impl LogSource ===

impl From<LogStream> for LogSource {
    fn from(stream: LogStream) -> Self {
        match stream {
            LogStream::Stdout => Self::Stdout,
            LogStream::Stderr => Self::Stderr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: &[u8]) -> LogFrame {
        LogFrame::Output(LogOutput {
            stream: LogStream::Stderr,
            time: Timestamp(7),
            data: bytes.into(),
        })
    }

    #[test]
    fn bytes_survive_a_round_trip_over_the_wire() {
        for (bytes, json) in [
            (&b"a\n"[..], r#"{"Type":"Output","Stream":"stderr","Time":7,"Text":"a\n"}"#),
            (&b"\xff\0"[..], r#"{"Type":"Output","Stream":"stderr","Time":7,"Base64":"/wA="}"#),
        ] {
            assert_eq!(serde_json::to_string(&output(bytes)).unwrap(), json);
            let LogFrame::Output(read) = serde_json::from_str(json).unwrap() else {
                panic!("{json} is output")
            };
            assert_eq!(read.data.into_bytes().unwrap(), bytes);
        }
        assert_eq!(LogData::Base64("?".to_owned()).into_bytes(), None);
    }

    #[test]
    fn a_frame_of_a_newer_release_is_skipped() {
        let read: LogFrame = serde_json::from_str(r#"{"Type":"Colour","Red":1}"#).unwrap();
        assert_eq!(read, LogFrame::Unknown);
        let begin = LogFrame::Begin(LogPosition { stdout: 1, stderr: 2 });
        let json = r#"{"Type":"Begin","Stdout":1,"Stderr":2}"#;
        assert_eq!(serde_json::to_string(&begin).unwrap(), json);
    }
}
