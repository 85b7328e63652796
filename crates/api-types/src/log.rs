//! What tasks print: lines as readers get them, frames as agents send them; `docs/api.md`, "Job
//! Logs" and "Streams".

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::ExecutionId;
use crate::time::Timestamp;

/// The longest piece of output that one frame carries; an agent splits what is longer.
pub const MAX_FRAME_OUTPUT_BYTES: usize = 64 << 10;

/// How often an agent's answer carries a frame, at least.
pub const FRAME_KEEP_ALIVE_SECONDS: u64 = 10;

/// One of the two streams of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    Stdout,
    Stderr,
    /// The service itself, which has something to say about the output.
    Service,
}

/// One object of `GET …/jobs/:jobID/logs` with `Accept: application/x-ndjson`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    #[serde(rename = "Stream")]
    pub source: LogSource,
    /// RFC 3339, when the line began.
    #[serde(rename = "Time")]
    pub time: String,
    /// Without its end; bytes that are no UTF-8 are replaced.
    #[serde(rename = "Line")]
    pub line: String,
    /// The line was too long for one object and goes on in the next one of its stream.
    #[serde(rename = "Partial", default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// A line of the assignments stream that asks for output; answered on
/// `POST …/nodes/:nodeID/streams/:streamID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct StreamRequest {
    #[serde(rename = "StreamID")]
    pub stream_id: Uuid,
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// Go on until the execution is over.
    #[serde(default)]
    pub follow: bool,
    /// Of what was printed until now, only so many lines at the end; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// Both when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<LogStream>,
    /// What was received before the stream broke off; `tail` is not looked at then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<LogPosition>,
}

/// Bytes of each stream, from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct LogPosition {
    pub stdout: u64,
    pub stderr: u64,
}

/// One line of an agent's answer to a [`StreamRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "Type")]
pub enum LogFrame {
    /// Where in each stream the output begins that follows.
    Begin(LogPosition),
    Output(LogOutput),
    KeepAlive,
    /// All that was asked for was sent.
    End,
    /// The node has nothing of this execution, or nothing any more.
    Absent,
    /// It cannot be read now, in words for the user.
    Failed {
        #[serde(rename = "Message")]
        message: String,
    },
    /// Of a newer release; passed over.
    #[serde(other)]
    Unknown,
}

/// A piece of what a task printed, however it is cut: neither a whole line nor only one.
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

/// Bytes as they are: text where they are UTF-8, which they mostly are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LogData {
    Text(String),
    Base64(String),
}

// === impl LogPosition ===

impl LogPosition {
    pub fn of(&self, stream: LogStream) -> u64 {
        match stream {
            LogStream::Stdout => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }

    pub fn of_mut(&mut self, stream: LogStream) -> &mut u64 {
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
    /// The bytes; none when the text is no Base64.
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
    fn bytes_cross_the_wire_as_they_are() {
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
    fn a_frame_of_a_newer_release_is_passed_over() {
        let read: LogFrame = serde_json::from_str(r#"{"Type":"Colour","Red":1}"#).unwrap();
        assert_eq!(read, LogFrame::Unknown);
        let begin = LogFrame::Begin(LogPosition { stdout: 1, stderr: 2 });
        let json = r#"{"Type":"Begin","Stdout":1,"Stderr":2}"#;
        assert_eq!(serde_json::to_string(&begin).unwrap(), json);
    }
}
