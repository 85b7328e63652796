//! What remains of an execution's output once its node no longer has it: `RunOutput`.

use api_types::execution::RUN_OUTPUT_BYTES;
use api_types::log::{LogPosition, LogStream};
use control_plane::store::StoredExecution;

use super::source::{Item, LogOptions, Piece};

/// What the record holds, after what the reader already got from the node; `why` the node has no
/// more.
pub(super) fn left_behind(
    stored: &StoredExecution,
    options: LogOptions,
    position: Option<LogPosition>,
    why: &str,
) -> Vec<Item> {
    let Some(output) = &stored.run_output else {
        if stored.row.started_at.is_none() {
            return Vec::new();
        }
        return vec![Item::Remark(format!("its output is not available: {why}"))];
    };
    let streams = [
        (LogStream::Stdout, "stdout", &output.stdout, output.stdout_truncated),
        (LogStream::Stderr, "stderr", &output.stderr, output.stderr_truncated),
    ];
    let (mut pieces, mut remarks) = (Vec::new(), Vec::new());
    for (stream, word, text, is_truncated) in streams {
        if options.stream.is_some_and(|wanted| wanted != stream) {
            continue;
        }
        let got = position.map_or(0, |position| position.of(stream));
        let rest = usize::try_from(got).ok().and_then(|got| text.get(got..));
        // Where bytes were replaced, positions differ from those of the stream.
        let rest = rest.filter(|_| got == 0 || !text.contains('\u{FFFD}')).unwrap_or_default();
        if !rest.is_empty() {
            let bytes = rest.as_bytes().to_vec();
            pieces.push(Piece { stream, time: stored.row.modify_time, offset: got, bytes });
        }
        if is_truncated {
            let kept = RUN_OUTPUT_BYTES;
            remarks.push(Item::Remark(format!(
                "only the first {kept} bytes of {word} are in its record: {why}"
            )));
        }
    }
    if let (Some(tail), None) = (options.tail, position) {
        keep_last_lines(&mut pieces, tail);
    }
    let output = (!pieces.is_empty()).then_some(Item::Output(pieces));
    output.into_iter().chain(remarks).collect()
}

/// Counts lines over all pieces together, each of which begins a line.
fn keep_last_lines(pieces: &mut Vec<Piece>, count: u64) {
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    for piece in pieces.iter_mut().rev() {
        let begins: Vec<usize> = std::iter::once(0)
            .chain(
                piece
                    .bytes
                    .iter()
                    .enumerate()
                    .filter(|(_, byte)| **byte == b'\n')
                    .map(|(at, _)| at + 1),
            )
            .filter(|begin| *begin < piece.bytes.len())
            .collect();
        let kept = begins.len().min(left);
        left -= kept;
        let cut = begins.get(begins.len() - kept).copied().unwrap_or(piece.bytes.len());
        piece.bytes.drain(..cut);
        piece.offset += cut as u64;
    }
    pieces.retain(|piece| !piece.bytes.is_empty());
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;

    use super::*;

    fn last(stdout: &str, stderr: &str, count: u64) -> Vec<String> {
        let piece = |stream, text: &str| Piece {
            stream,
            time: Timestamp(1),
            offset: 0,
            bytes: text.as_bytes().to_vec(),
        };
        let mut pieces = vec![piece(LogStream::Stdout, stdout), piece(LogStream::Stderr, stderr)];
        keep_last_lines(&mut pieces, count);
        pieces.into_iter().map(|piece| String::from_utf8(piece.bytes).unwrap()).collect()
    }

    #[test]
    fn the_last_lines_are_those_at_the_end_of_both_streams() {
        assert_eq!(last("a\nb\n", "c\nd", 3), ["b\n", "c\nd"]);
        assert_eq!(last("a\nb\n", "c\nd", 1), ["d"]);
        assert_eq!(last("a\nb\n", "", 9), ["a\nb\n"]);
        assert_eq!(last("a\nb\n", "c\n", 0), Vec::<String>::new());
    }
}
