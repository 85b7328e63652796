//! Compact JSON, indented for people, and back.

/// Indents compact, valid JSON by two spaces; ends with a newline.
///
/// Works on the text, so that a rendered value need not be rendered again. Costs one pass.
pub(super) fn indent(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    let mut bytes = compact.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                in_text = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                match bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    Some(close) => out.push(close),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
    }
    out.push(b'\n');
    out
}

/// Removes the space around tokens of valid JSON.
pub(super) fn compact(indented: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(indented.len());
    let mut in_text = false;
    let mut escaped = false;
    for byte in indented.iter().copied() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_text = byte == b'"';
        }
        out.push(byte);
    }
    out
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_as_the_json_library_would() {
        let value = serde_json::json!({
            "a": [1, 2.5, {"b": "x,{\"}[:]\\"}], "empty": {}, "none": [], "deep": [[[null, true]]],
        });
        let expected = format!("{}\n", serde_json::to_string_pretty(&value).unwrap());
        let compact = serde_json::to_vec(&value).unwrap();
        assert_eq!(String::from_utf8(indent(&compact)).unwrap(), expected);
        assert_eq!(super::compact(expected.as_bytes()), compact);
    }
}
