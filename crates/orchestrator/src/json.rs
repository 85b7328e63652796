//! Deserializes JSON and reports all its mistakes together.
//!
//! In what people write, struct keys match regardless of case, and `null` means absent; what
//! programs write is read to the letter. Map keys stay as they are. A wrong type does not end the
//! parse: it is recorded with its path, an empty value takes its place, and parsing continues, so
//! one response lists every mistake.
//!
//! Rejected: `serde_json` for all that programs write, which accepts an array for a struct where the
//! OpenAPI document says object; parsing again after each error, which costs a full pass over up to
//! 10 MB each time.

mod lenient;
mod seen;
mod tree;
pub(crate) mod yaml;

use api_types::error::FieldError;
use serde::de::DeserializeOwned;

use lenient::{Context, Lenient};
use tree::Tree;

/// Problems that one response lists; the rest waits for the next attempt.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// Who wrote a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// Keys match regardless of case, and `null` means absent.
    Person,
    /// Keys match exactly, and `null` is a value.
    Program,
}

/// Whether strings may contain NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    Any,
    /// They become arguments, variables and paths of a process, which cannot contain NUL.
    WithoutNul,
}

/// The result of reading a body.
#[derive(Debug)]
pub(crate) struct Reading<T> {
    /// Every location listed in `problems` holds an empty value.
    pub value: T,
    pub problems: Vec<FieldError>,
    /// Paths of unknown fields.
    pub unknown: Vec<String>,
}

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Not JSON, nested too deeply, or too large once unpacked.
    Malformed(String),
    /// JSON, but not of the expected shape.
    Shape(Vec<FieldError>),
}

/// Reads a body.
pub(crate) fn read<T: DeserializeOwned>(
    body: &[u8],
    author: Author,
    texts: Texts,
) -> Result<Reading<T>, Unreadable> {
    let tree = parse(body)?;
    let context = Context::new(author, texts);
    match T::deserialize(Lenient::new(&tree, &context)) {
        Ok(value) => {
            let (problems, unknown) = (context.take_problems(), context.take_unknown());
            Ok(Reading { value, problems, unknown })
        }
        Err(error) => {
            let path = context.path();
            let mut problems = context.take_problems();
            problems.push(FieldError { path, reason: error.to_string() });
            Err(Unreadable::Shape(problems))
        }
    }
}

/// Reads a body that must be free of mistakes; unknown fields are ignored.
pub(crate) fn read_strictly<T: DeserializeOwned>(
    body: &[u8],
    author: Author,
) -> Result<T, Unreadable> {
    // Without an array, nothing can stand in for an object, so `serde_json` is strict enough. It
    // takes half the time, which counts for the heartbeats of a thousand agents.
    if author == Author::Program
        && !body.contains(&b'[')
        && let Ok(text) = std::str::from_utf8(body)
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    let reading = read(body, author, Texts::Any)?;
    match reading.problems.is_empty() {
        true => Ok(reading.value),
        false => Err(Unreadable::Shape(reading.problems)),
    }
}

/// Truncates an echoed text to this many characters.
pub(crate) fn shorten(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn parse(body: &[u8]) -> Result<Tree<'_>, Unreadable> {
    let malformed = |reason: String| Unreadable::Malformed(reason);
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(malformed("the body is empty".to_owned()));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        malformed(format!("the body is not UTF-8 at byte {}", error.valid_up_to() + 1))
    })?;
    // RFC 8259, section 8.1: no program adds a byte order mark, and a reader may ignore one.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Tree::parse(text).map_err(|error| malformed(format!("the body is not JSON: {error}")))
}

#[cfg(test)]
mod tests;
