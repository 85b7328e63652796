//! One style sheet made of all: a browser fetches six files of a server in parallel, and the first
//! view waits for every sheet.

use std::collections::BTreeMap;

use bytes::Bytes;

/// What `index.html` names.
pub(crate) const SHEET: &str = "style.css";

/// The sheets in the order in which they count.
pub(crate) const PARTS: [&str; 10] = [
    "tokens.css",
    "shell.css",
    "controls.css",
    "parts.css",
    "notes.css",
    "pages.css",
    "graph.css",
    "logs.css",
    "submit.css",
    "access.css",
];

/// Puts the one sheet in the place of its parts.
pub(crate) fn join(files: &mut BTreeMap<&str, Bytes>) {
    let parts: Vec<Bytes> = PARTS.iter().filter_map(|part| files.remove(part)).collect();
    files.insert(SHEET, parts.concat().into());
}
