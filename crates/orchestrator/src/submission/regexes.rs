//! Regular expressions of a job; a malicious one can take arbitrarily long to compile.
//!
//! A body of 50 KB can hold expressions that take minutes to compile. So they are collected while
//! the rest of the job is checked, and compiled last, not on a thread that serves connections, with
//! a bound on the size of each and on the time for all.

use std::time::{Duration, Instant};

use regex::RegexBuilder;

use super::findings::Findings;

/// Characters of one expression: far more than a filter of object keys needs.
const MAX_CHARS: usize = 1024;

/// Bytes that one compiled expression may take, which also bounds the time to compile it: some
/// milliseconds.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Time for all expressions of a job.
const MAX_TIME: Duration = Duration::from_millis(250);

/// Whether this thread may compile regular expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Regexes {
    Compile,
    /// A job that has any is [`super::Rejected::HasRegexes`].
    Leave,
}

// === impl Findings ===

impl Findings {
    /// Notes an expression to compile.
    pub(super) fn note_regex(&mut self, text: &str, path: &str) {
        if text.chars().count() > MAX_CHARS {
            self.refuse(path, format!("must be at most {MAX_CHARS} characters"));
        } else {
            self.regexes.push((path.to_owned(), text.to_owned()));
        }
    }

    pub(super) fn compile_regexes(&mut self) {
        let begin = Instant::now();
        for (path, text) in std::mem::take(&mut self.regexes) {
            if begin.elapsed() > MAX_TIME {
                self.refuse(path, "the regular expressions of this job take too long to compile");
                return;
            }
            if let Err(error) = RegexBuilder::new(&text).size_limit(MAX_COMPILED_BYTES).build() {
                // The last line states the problem; those before point to it.
                let error = error.to_string();
                let reason = error.lines().next_back().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ");
                self.refuse(path, format!("is not a regular expression: {reason}"));
            }
        }
    }
}
