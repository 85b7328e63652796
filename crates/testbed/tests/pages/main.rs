//! The pages, in a real browser.

mod access;
mod accessibility;
mod administration;
mod answers;
mod arrays;
mod browser;
mod budget;
mod copies;
mod failed;
mod following;
mod foreign;
mod graphs;
mod guarded;
mod hostile;
mod issuer;
mod jobs;
mod keyboard;
mod large_logs;
mod limits;
mod lists;
mod load;
mod long_names;
mod long_open;
mod nodes;
mod pictures;
mod reference;
mod scale;
mod secrets;
mod sessions;
mod tabs;
mod takeover;
mod terminal;
mod vocabulary;
mod waiting;

use std::time::Duration;

use serde_json::{Value, json};

/// How soon a change on the server shows on a page: a message a second, and a request after it.
const SHOWN_WITHIN: Duration = Duration::from_secs(15);

/// A job that nothing runs, on the engine that needs nothing.
fn named(name: &str) -> Value {
    json!({
        "Name": name, "Type": "batch",
        "Tasks": [{ "Name": "main", "Engine": { "Type": "noop", "Params": {} } }],
    })
}
