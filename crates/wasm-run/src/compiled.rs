//! What the compiler reports about a module in addition to its code.
//!
//! `compile` has the module as stdin, the file for the code as stdout and a pipe to the agent as
//! stderr. It writes one [`Verdict`] to the pipe as JSON and ends; where it writes none, the
//! compiler failed. When the agent is gone, the pipe is closed and the compiler ends.

use serde::{Deserialize, Serialize};

/// The kernel refuses a compiling process more memory than this. Cranelift needs about twenty
/// times the size of a typical module.
pub const MAX_MEMORY_BYTES: u64 = 280 << 20;

/// The kernel ends a compiling process after this much CPU time: a typical module of several
/// megabytes takes a few seconds.
pub const MAX_CPU_SECONDS: u64 = 60;

/// Limits on the exported functions listed for one module, and on the bytes of their names and
/// types together; the rest is only counted. They serve messages and the check of entry points.
pub const MAX_EXPORTS: usize = 10_000;

/// The properties of a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// A runner can load only code that was compiled under the same value.
    pub compatibility: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Compiled(Compiled),
    /// Why the module cannot be compiled.
    Refused(String),
}

/// A module that was compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// The exported functions, at most [`MAX_EXPORTS`].
    pub functions: Vec<Function>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    pub name: String,
    /// The type as text.
    pub signature: String,
    /// Whether it takes no parameters and returns nothing, or an exit code.
    pub is_entry: bool,
}
