//! A digest of all that the scheduler decides in a run.
//!
//! A change of the scheduler that only moves code leaves the digest of every seed as it was, since
//! each change, effect and fact is part of it, with the time and in the order of its commit.
//!
//! It reads the values as `{:?}` prints them, so a renamed field or variant changes it as well.
//! The hash is FNV-1a: unlike the hash of the standard library it is the same with every compiler.

use std::fmt;

use control_plane::batch::{Content, NumberedCommit};
use scheduler::change::Effect;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// The digest of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

// === impl Digest ===

impl Digest {
    pub(super) const EMPTY: Self = Self(OFFSET);

    /// Adds what a process wants to store, whether or not it succeeds.
    pub(super) fn add_commit(&mut self, commit: &NumberedCommit) {
        let Content::Batch(batch) = &commit.content else { return };
        self.add(&(commit.stamp.moment, &batch.output));
    }

    /// Adds what a process sends.
    pub(super) fn add_effect(&mut self, effect: &Effect) {
        self.add(effect);
    }

    fn add(&mut self, what: &impl fmt::Debug) {
        fmt::write(self, format_args!("{what:?}")).expect("a digest takes every text");
    }
}

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}
