//! JSON as people write it becomes typed values, and every mistake in it is told at once.
//!
//! Keys of structs are matched without regard to case, keys of maps keep theirs; `null` means
//! absent. A wrong type does not end the reading: it is noted with its path, an empty value takes
//! its place, and the reading goes on, so that one answer can list everything that is wrong.
//! Rejected: reading again after each error, which costs a whole pass over up to 10 MB for each.

mod indent;
mod lenient;
mod tree;

use api_types::error::FieldError;
use serde::de::DeserializeOwned;

pub(crate) use indent::indent;
use lenient::{Context, Lenient};
use tree::Tree;

/// Problems that one answer lists; what is beyond is left for the next try.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// Whether texts may hold NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    Any,
    /// They end up as arguments, variables and paths of a process, where NUL cannot stand.
    WithoutNul,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Reading<T> {
    /// Places listed in `problems` hold something empty.
    pub value: T,
    pub problems: Vec<FieldError>,
    /// Paths of fields that the type does not have.
    pub unknown: Vec<String>,
}

/// Why nothing could be read.
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
    texts: Texts,
) -> Result<Reading<T>, Unreadable> {
    let tree = parse(body)?;
    let context = Context::new(texts);
    let mut unknown = Vec::new();
    let lenient = Lenient::new(&tree, &context);
    let value = serde_ignored::deserialize(lenient, |path| {
        if unknown.len() < MAX_PROBLEMS {
            unknown.push(lenient::render(&path));
        }
    });
    match value {
        Ok(value) => Ok(Reading { value, problems: context.take_problems(), unknown }),
        Err(error) => {
            let path = context.path();
            let mut problems = context.take_problems();
            problems.push(FieldError { path, reason: error.to_string() });
            Err(Unreadable::Shape(problems))
        }
    }
}

/// Reads a body in which nothing may be wrong; fields that the type does not have are passed over.
pub(crate) fn read_strictly<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    let reading = read(body, Texts::Any)?;
    match reading.problems.is_empty() {
        true => Ok(reading.value),
        false => Err(Unreadable::Shape(reading.problems)),
    }
}

/// Cuts a text that repeats what came down to so many characters.
pub(crate) fn shorten(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn parse(body: &[u8]) -> Result<Tree, Unreadable> {
    let malformed = |reason: String| Unreadable::Malformed(reason);
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(malformed("the body is empty".to_owned()));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        malformed(format!("the body is not UTF-8 at byte {}", error.valid_up_to() + 1))
    })?;
    Tree::parse(text).map_err(|error| malformed(format!("the body is not JSON: {error}")))
}

#[cfg(test)]
mod tests;
