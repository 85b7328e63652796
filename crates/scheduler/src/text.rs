//! Messages for users.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// A text that many records may share: a constant, or a string that was built once.
///
/// A million jobs that wait for the same reason share one copy.
#[derive(Clone)]
pub enum Text {
    Constant(&'static str),
    Made(Arc<str>),
}

// === impl Text ===

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Constant(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Constant(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from(Arc::from(text))
    }
}

impl From<Text> for Arc<str> {
    fn from(text: Text) -> Self {
        match text {
            Text::Constant(text) => text.into(),
            Text::Made(text) => text,
        }
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        if text.is_empty() { Self::Constant("") } else { Self::Made(text) }
    }
}

pub(crate) fn or_else(text: Text, default: &'static str) -> Text {
    if text.is_empty() { Text::Constant(default) } else { text }
}

pub(crate) fn with_reason(what: &str, reason: &str) -> String {
    match reason.trim() {
        "" => what.to_owned(),
        reason => format!("{what}: {reason}"),
    }
}
