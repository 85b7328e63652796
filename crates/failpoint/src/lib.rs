//! Failpoints of the daemons: tests make a process crash, fail, delay or repeat a step.
//!
//! A daemon calls [`reach`] or [`reach_blocking`] at a failpoint, or wraps a whole step in
//! [`around`]. Without the feature `failpoints` these functions are empty and cost nothing. With
//! the feature and [`DIRECTORY_VARIABLE`] set, a test arms failpoints in the running process: it
//! writes `place=actions` to a file `arm` in that directory (in the grammar of the `fail` crate;
//! the value of `return` is [`CRASH`], [`ERROR`], [`DELAY`], [`HANG`], [`STUCK`]
//! or [`TWICE`]). The process
//! removes the file once the failpoint is armed. Before an action fires, the process appends a
//! line `place action` to the file `hits`, so that a test can assert that its failpoint was hit.

#[cfg(feature = "failpoints")]
mod armed;

use std::future::Future;
use std::time::Duration;

/// The environment variable that names the directory; without it no failpoint ever fires.
pub const DIRECTORY_VARIABLE: &str = "FAILPOINT_DIR";

/// The environment variable that sets the wall clock of a daemon apart from the machine's, by a
/// number of seconds that may be negative.
pub const WALL_CLOCK_OFFSET_VARIABLE: &str = "FAILPOINT_WALL_CLOCK_OFFSET_SECONDS";

/// The environment variable that sets the boot clock of a daemon ahead of the machine's, by a number
/// of seconds: a daemon that starts again with a larger number finds that this much time has passed.
pub const BOOT_CLOCK_OFFSET_VARIABLE: &str = "FAILPOINT_BOOT_CLOCK_OFFSET_SECONDS";

/// The place at which a process's boot clock stands still: armed with [`STUCK`], it stands until
/// `off`, and goes on from there. So does the clock of a virtual machine that was paused.
pub const BOOT_CLOCK: &str = "clock.boot";

/// The environment variable that replaces the machine's boot ID: a daemon that starts with another
/// value finds the machine rebooted.
pub const BOOT_ID_VARIABLE: &str = "FAILPOINT_BOOT_ID";

/// The environment variable that makes the process end as by `kill -9` whenever it handles one
/// particular job: `step=job name`.
pub const POISON_VARIABLE: &str = "FAILPOINT_POISON";

/// The environment variable that makes a daemon stand for the release after this one: it raises the
/// format of its data by one. `compatible=SECONDS` says that this release may still use such data,
/// `incompatible=SECONDS` that it may not; the migration takes this long.
pub const NEXT_FORMAT_VARIABLE: &str = "FAILPOINT_NEXT_FORMAT";

/// The process ends as by `kill -9`.
pub const CRASH: &str = "crash";
/// The step fails.
pub const ERROR: &str = "error";
/// The step takes longer.
pub const DELAY: &str = "delay";
/// The step takes so long that it appears stuck.
pub const HANG: &str = "hang";
/// The step never ends.
pub const STUCK: &str = "stuck";
/// The step is executed twice.
pub const TWICE: &str = "twice";

/// A fault that the caller must carry out itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Error,
    Twice,
}

/// How the data of the release after this one differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextFormat {
    /// Whether this release may use them.
    pub is_compatible: bool,
    /// How long the migration takes.
    pub migration: Duration,
}

/// Begins to accept requests from tests. A daemon's `main` calls it first.
pub fn listen() {
    #[cfg(feature = "failpoints")]
    armed::listen();
}

/// A step of a job begins, which may be the one that ends the process ([`POISON_VARIABLE`]).
#[inline]
pub fn handle(step: &'static str, job_name: &str) {
    #[cfg(feature = "failpoints")]
    armed::handle(step, job_name);
    #[cfg(not(feature = "failpoints"))]
    let _ = (step, job_name);
}

/// How far the wall clock of this process is set ahead of the machine's.
#[inline]
pub fn wall_clock_offset_nanos() -> i64 {
    #[cfg(feature = "failpoints")]
    return armed::wall_clock_offset_nanos();
    #[cfg(not(feature = "failpoints"))]
    0
}

/// How far the boot clock of this process is set ahead of the machine's.
#[inline]
pub fn boot_clock_offset_nanos() -> u64 {
    #[cfg(feature = "failpoints")]
    return armed::boot_clock_offset_nanos();
    #[cfg(not(feature = "failpoints"))]
    0
}

/// The boot clock of this process: what `read` finds on the machine, unless a test sets it apart or
/// has it stand still.
#[inline]
pub fn boot_clock_nanos(read: impl FnOnce() -> u64) -> u64 {
    #[cfg(feature = "failpoints")]
    return armed::boot_clock_nanos(read) + armed::boot_clock_offset_nanos();
    #[cfg(not(feature = "failpoints"))]
    read()
}

/// The boot ID that replaces the machine's, if a test sets one.
#[inline]
pub fn boot_id() -> Option<String> {
    #[cfg(feature = "failpoints")]
    return armed::boot_id();
    #[cfg(not(feature = "failpoints"))]
    None
}

/// The format for which this process stands, if not for its own.
#[inline]
pub fn next_format() -> Option<NextFormat> {
    #[cfg(feature = "failpoints")]
    return armed::next_format();
    #[cfg(not(feature = "failpoints"))]
    None
}

/// A failpoint in blocking code.
#[inline]
pub fn reach_blocking(place: &'static str) -> Option<Fault> {
    #[cfg(feature = "failpoints")]
    return armed::reach_blocking(place);
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = place;
        None
    }
}

/// A failpoint in asynchronous code.
#[inline]
pub async fn reach(place: &'static str) -> Option<Fault> {
    #[cfg(feature = "failpoints")]
    return armed::reach(place).await;
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = place;
        None
    }
}

/// The failpoints before and after a fallible step.
#[derive(Debug, Clone, Copy)]
pub struct StepFailpoints<E> {
    pub before: &'static str,
    pub after: &'static str,
    /// The error when the step was not executed.
    pub refused: fn() -> E,
    /// The error when the step was executed, but its outcome was lost.
    pub lost: fn() -> E,
}

/// Executes a step between its two failpoints.
#[inline]
pub async fn around<T, E, F: Future<Output = Result<T, E>>>(
    points: StepFailpoints<E>,
    step: impl Fn() -> F,
) -> Result<T, E> {
    match reach(points.before).await {
        None => {}
        Some(Fault::Error) => return Err((points.refused)()),
        // Only the outcome of the second execution counts.
        Some(Fault::Twice) => drop(step().await),
    }
    let outcome = step().await;
    match reach(points.after).await {
        Some(Fault::Error) => Err((points.lost)()),
        None | Some(Fault::Twice) => outcome,
    }
}
