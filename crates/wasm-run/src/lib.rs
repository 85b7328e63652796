//! The contract between the compute agent and the runner of WebAssembly programs.
//!
//! The agent starts one runner for each execution and shares a directory with it, the *run
//! directory*, and nothing else: no pipe and no socket, so that a runner outlives its agent.
//!
//! ```text
//! plan.json      what to run; the agent writes it before the start (see `plan`)
//! code/<n>       compiled modules, hard links into the agent's store; never written to
//! claim.json     which process runs it; the first one to create it owns the run (see `claim`)
//! output         what the program printed so far (see `output`)
//! exit.json      how it ended; appears only when complete and synced (see `exit`)
//! runner.log     error messages of the runner itself
//! inputs/        inputs that are files, as the program sees them
//! results/       what the program wrote, as it saw it
//! ```
//!
//! Compilation is another process of the same program; see `compiled`.

pub mod claim;
pub mod compiled;
pub mod exit;
pub mod output;
pub mod plan;
pub mod process;

pub use claim::Claim;
pub use compiled::Compiled;
pub use exit::{Exit, Used};
pub use plan::Plan;

/// The first argument of the runner: `run DIRECTORY BOOT_ID` runs the plan of a run directory.
pub const RUN: &str = "run";

/// `compile` reads a module from stdin and writes its code to stdout.
pub const COMPILE: &str = "compile";

/// Follows [`COMPILE`] where the compiler may go on without Landlock.
pub const UNCONFINED: &str = "unconfined";

/// `describe` prints a [`compiled::Description`] of the runner.
pub const DESCRIBE: &str = "describe";

/// The runner's own error messages, in the run directory.
pub const LOG: &str = "runner.log";

/// The runner's exit code when another process holds the run; it implies nothing about the run.
pub const EXIT_CLAIMED: u8 = 75;
