//! The text, and the job that counts its words.

use api_client::Client;
use api_types::job::CreateJob;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::engine::DemoEngine;
use super::error::DemoError;

/// The beginning of "Alice's Adventures in Wonderland" by Lewis Carroll, 1865; public domain.
const TEXT: &str = include_str!("text.txt");

pub(super) const TITLE: &str = "Down the Rabbit-Hole";

/// Number of executions that share the text.
pub(super) const COUNT: usize = 4;

/// Lines, words and bytes, as `wc` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) lines: usize,
    pub(super) words: usize,
    pub(super) bytes: usize,
}

// === impl Counts ===

impl Counts {
    /// The counts of the whole text.
    pub(super) fn of_text() -> Self {
        Self {
            lines: TEXT.lines().count(),
            words: TEXT.split_ascii_whitespace().count(),
            bytes: TEXT.len(),
        }
    }

    /// Parses the task's output `LINES WORDS BYTES PATH`.
    pub(super) fn parse(stdout: &str) -> Option<Self> {
        let mut numbers = stdout.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { lines: next()?, words: next()?, bytes: next()? })
    }

    /// Lines, words and bytes as text.
    pub(super) fn texts(self) -> [String; 3] {
        [self.lines, self.words, self.bytes].map(|number| number.to_string())
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            words: self.words + other.words,
            bytes: self.bytes + other.bytes,
        }
    }
}

pub(super) async fn create(client: &Client, engine: &DemoEngine) -> Result<CreateJob, DemoError> {
    let body = json!({ "Job": job(&engine.word_count()) }).to_string();
    Ok(client.create_job_raw(body.into(), None).await?)
}

/// The job; small enough for two agents on any machine.
fn job(engine: &Value) -> Value {
    json!({
        "Name": "word-count",
        "Type": "batch",
        "Count": COUNT,
        "Labels": { "purpose": "demo" },
        "Tasks": [{
            "Name": "main",
            "Engine": engine,
            "ResourcesConfig": { "CPU": "0.1", "Memory": "64MB" },
            "InputSources": [{
                "Target": "/inputs/text.txt",
                "Source": {
                    "Type": "inline",
                    "Params": { "URL": format!("data:text/plain;base64,{}", STANDARD.encode(TEXT)) },
                },
            }],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_task_is_parsed() {
        let counts = Counts::parse("3 14 62 /inputs/text.txt\n");
        assert_eq!(counts, Some(Counts { lines: 3, words: 14, bytes: 62 }));
        assert_eq!(Counts::parse("3 14"), None);
        assert_eq!(Counts::parse("task: cannot read"), None);
    }
}
