//! Renders output for a reader: raw, as labelled lines, or as JSON.

use std::collections::HashMap;

use api_types::log::{LogLine, LogSource, LogStream};
use api_types::{ExecutionId, Timestamp};

use super::item::{Event, Item, Label, Piece};

/// The longest assembled line; a longer one is split. Each followed stream may hold this much.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The raw bytes, with no room for anything else.
    Raw,
    /// `e-12ab34cd | line`, and `e-12ab34cd ! remark`.
    Prefixed,
    /// `[2] | line`, and `[2] ! remark`.
    Indexed,
    /// One JSON object a line.
    Json,
}

pub(super) struct Render {
    form: Form,
    /// Lines that have not ended.
    open: HashMap<(ExecutionId, LogStream), OpenLine>,
    /// Of the last rendered line; remarks have no time of their own.
    time: Timestamp,
}

struct OpenLine {
    index: u32,
    begun: Timestamp,
    /// Bytes of the stream before it.
    offset: u64,
    bytes: Vec<u8>,
}

/// What ends a rendered line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    /// It continues in the next one.
    Split,
    Terminated,
    /// The output ends without a line terminator.
    OfOutput,
}

/// The output is incomplete, and in this format only breaking off can say so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BrokenOff(pub(crate) String);

// === impl Render ===

impl Render {
    pub(super) fn new(form: Form) -> Self {
        Self { form, open: HashMap::new(), time: Timestamp::ZERO }
    }

    pub(super) fn push(&mut self, event: Event, out: &mut Vec<u8>) -> Result<(), BrokenOff> {
        match (event, self.form) {
            (Event::Item(_, Item::Output(pieces)), Form::Raw) => {
                pieces.iter().for_each(|piece| out.extend_from_slice(&piece.bytes));
            }
            (
                Event::Item(label, Item::Output(pieces)),
                Form::Prefixed | Form::Indexed | Form::Json,
            ) => {
                pieces.into_iter().for_each(|piece| self.piece(label, &piece, out));
            }
            (Event::Item(_, Item::Remark(_)) | Event::Ended(_), Form::Raw) => {}
            // The bytes cannot pass for complete, and the end is worth having.
            (Event::Item(_, Item::Gap(text)), Form::Raw) => {
                out.extend_from_slice(format!("\n[{text}]\n").as_bytes());
            }
            (Event::Item(_, Item::Missing(reason)), Form::Raw) => return Err(BrokenOff(reason)),
            (
                Event::Item(label, Item::Remark(text) | Item::Missing(text)),
                Form::Prefixed | Form::Indexed | Form::Json,
            ) => self.remark(label, text, out),
            (Event::Item(label, Item::Gap(text)), Form::Prefixed | Form::Indexed | Form::Json) => {
                self.end_lines(label.id, out);
                self.remark(label, text, out);
            }
            (Event::Ended(id), Form::Prefixed | Form::Indexed | Form::Json) => {
                self.end_lines(id, out)
            }
            (Event::Interrupted(reason), _) => return Err(BrokenOff(reason.to_owned())),
        }
        Ok(())
    }

    /// Renders lines that nothing will complete.
    fn end_lines(&mut self, id: ExecutionId, out: &mut Vec<u8>) {
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            if let Some(line) = self.open.remove(&(id, stream)) {
                self.line(id, stream, &line, LineEnd::OfOutput, out);
            }
        }
    }

    /// Cuts a piece into lines; the beginning of the first may have come before.
    fn piece(&mut self, Label { id, index }: Label, piece: &Piece, out: &mut Vec<u8>) {
        let Piece { stream, time, offset, bytes } = piece;
        let mut offset = *offset;
        self.time = *time;
        let key = (id, *stream);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut line = self.open.remove(&key).unwrap_or_else(|| OpenLine {
                index,
                begun: *time,
                offset,
                bytes: Vec::new(),
            });
            offset += part.len() as u64;
            let (text, is_ended) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            line.bytes.extend_from_slice(text);
            while line.bytes.len() > MAX_LINE_BYTES {
                let rest = line.bytes.split_off(MAX_LINE_BYTES);
                self.line(id, *stream, &line, LineEnd::Split, out);
                line.offset += line.bytes.len() as u64;
                line.bytes = rest;
            }
            if is_ended {
                self.line(id, *stream, &line, LineEnd::Terminated, out);
            } else {
                self.open.insert(key, line);
            }
        }
    }

    fn line(
        &self,
        id: ExecutionId,
        stream: LogStream,
        line: &OpenLine,
        end: LineEnd,
        out: &mut Vec<u8>,
    ) {
        if let Some(prefix) = self.prefix(Label { id, index: line.index }) {
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(b" | ");
            out.extend_from_slice(&line.bytes);
            out.push(b'\n');
            return;
        }
        json(
            &LogLine {
                execution_id: id,
                index: Some(line.index),
                source: stream.into(),
                time: line.begun.rfc3339(),
                line: String::from_utf8_lossy(&line.bytes).into_owned(),
                partial: end == LineEnd::Split,
                offset: Some(line.offset + line.bytes.len() as u64 + end.bytes()),
            },
            out,
        );
    }

    fn remark(&self, label: Label, text: String, out: &mut Vec<u8>) {
        if let Some(prefix) = self.prefix(label) {
            out.extend_from_slice(format!("{prefix} ! {text}\n").as_bytes());
            return;
        }
        json(
            &LogLine {
                execution_id: label.id,
                index: Some(label.index),
                source: LogSource::Service,
                time: self.time.rfc3339(),
                line: text,
                partial: false,
                offset: None,
            },
            out,
        );
    }

    /// What a line of text begins with; none where lines are JSON.
    fn prefix(&self, label: Label) -> Option<String> {
        match self.form {
            Form::Prefixed => Some(label.id.short()),
            Form::Indexed => Some(format!("[{}]", label.index)),
            Form::Raw | Form::Json => None,
        }
    }
}

// === impl LineEnd ===

impl LineEnd {
    /// Bytes of the output that are not part of the line.
    const fn bytes(self) -> u64 {
        match self {
            Self::Terminated => 1,
            Self::Split | Self::OfOutput => 0,
        }
    }
}

fn json(line: &LogLine, out: &mut Vec<u8>) {
    serde_json::to_writer(&mut *out, line).expect("serializing plain data into memory cannot fail");
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> ExecutionId {
        ExecutionId::from_uuid(Uuid::from_u128(number << 96))
    }

    fn label(number: u128) -> Label {
        Label { id: id(number), index: u32::try_from(number).unwrap() }
    }

    fn printed(number: u128, stream: LogStream, bytes: &[u8]) -> Event {
        let piece = Piece { stream, time: Timestamp(1), offset: 0, bytes: bytes.to_vec() };
        Event::Item(label(number), Item::Output(vec![piece]))
    }

    fn render(form: Form, events: Vec<Event>) -> String {
        let (mut render, mut out) = (Render::new(form), Vec::new());
        events.into_iter().for_each(|event| render.push(event, &mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    const OUT: LogStream = LogStream::Stdout;
    const ERR: LogStream = LogStream::Stderr;

    #[test]
    fn lines_of_several_executions_are_never_mixed() {
        let events = vec![
            printed(1, OUT, b"a b"),
            printed(2, OUT, b"other\n"),
            printed(1, ERR, b"error\n"),
            printed(1, OUT, b" c\n\nd"),
            Event::Ended(id(1)),
            Event::Item(label(2), Item::Missing("gone".to_owned())),
        ];
        let by_index = |events| render(Form::Indexed, events);
        assert_eq!(by_index(vec![printed(2, OUT, b"other\n")]), "[2] | other\n");
        assert_eq!(
            render(Form::Prefixed, events),
            "e-00000002 | other\ne-00000001 | error\ne-00000001 | a b c\ne-00000001 | \n\
             e-00000001 | d\ne-00000002 ! gone\n"
        );
    }

    #[test]
    fn a_json_line_names_its_execution_and_its_time() {
        let events = vec![
            printed(1, ERR, b"x\xff"),
            Event::Ended(id(1)),
            Event::Item(label(1), Item::Remark("r".to_owned())),
        ];
        let lines: Vec<LogLine> = render(Form::Json, events)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let time = "1970-01-01T00:00:00.000000001Z".to_owned();
        let line = |source, text: &str, offset| LogLine {
            execution_id: id(1),
            index: Some(1),
            source,
            time: time.clone(),
            line: text.to_owned(),
            partial: false,
            offset,
        };
        let expected =
            [line(LogSource::Stderr, "x\u{FFFD}", Some(2)), line(LogSource::Service, "r", None)];
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_overlong_line_is_split() {
        let long = vec![b'x'; MAX_LINE_BYTES];
        let events = vec![printed(1, OUT, &long), printed(1, OUT, &long), printed(1, OUT, b"y\n")];
        let partial: Vec<_> = render(Form::Json, events)
            .lines()
            .map(|line| serde_json::from_str::<LogLine>(line).unwrap())
            .map(|line| (line.line.len(), line.partial))
            .collect();
        assert_eq!(partial, [(MAX_LINE_BYTES, true), (MAX_LINE_BYTES, true), (1, false)]);
    }

    #[test]
    fn an_offset_counts_the_bytes_up_to_the_end_of_its_line() {
        let piece = |offset, bytes: &[u8]| {
            let piece = Piece { stream: OUT, time: Timestamp(1), offset, bytes: bytes.to_vec() };
            Event::Item(label(1), Item::Output(vec![piece]))
        };
        let long = vec![b'x'; MAX_LINE_BYTES + 3];
        let events = vec![
            piece(100, b"ab\n\ncd"),
            piece(106, b"e\r\n\xff"),
            piece(110, b"\n"),
            piece(111, &long),
            Event::Ended(id(1)),
        ];
        let offsets: Vec<_> = render(Form::Json, events)
            .lines()
            .map(|line| serde_json::from_str::<LogLine>(line).unwrap().offset.unwrap())
            .collect();
        let most = MAX_LINE_BYTES as u64;
        assert_eq!(offsets, [103, 104, 109, 111, 111 + most, 114 + most]);
    }

    #[test]
    fn raw_output_is_exactly_what_the_task_printed() {
        let (mut render, mut out) = (Render::new(Form::Raw), Vec::new());
        assert_eq!(render.push(printed(1, OUT, b"\xff"), &mut out), Ok(()));
        let remark = Event::Item(label(1), Item::Remark("r".to_owned()));
        assert_eq!(render.push(remark, &mut out), Ok(()));
        assert_eq!(out, b"\xff");
        let missing = Event::Item(label(1), Item::Missing("m".to_owned()));
        assert_eq!(render.push(missing, &mut out), Err(BrokenOff("m".to_owned())));
    }
}
