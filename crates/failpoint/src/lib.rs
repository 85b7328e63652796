//! Places in the daemons where a test makes the process die, fail, dawdle or repeat itself.
//!
//! A daemon calls [`reach`] (or [`reach_blocking`], or [`around`] a whole step) at each such
//! place. Without the feature `failpoints` these are empty and cost nothing; with it, and with
//! [`DIRECTORY_VARIABLE`] set, a test arms one place after the other in the running process: it
//! puts a file `arm` with `place=actions` there (the grammar is the `fail` crate's, the value of
//! `return` one of [`CRASH`], [`ERROR`], [`DELAY`], [`HANG`], [`TWICE`]), which is taken away when it is in
//! force. Whatever fires is first written to `hits`, one line `place action` each, so that a test
//! that hit nothing cannot pass.

#[cfg(feature = "failpoints")]
mod armed;

use std::future::Future;

/// Names the directory through which a test arms a daemon; unset, nothing ever fires.
pub const DIRECTORY_VARIABLE: &str = "FAILPOINT_DIR";

/// The process dies here, as of `kill -9`.
pub const CRASH: &str = "crash";
/// What stands here fails.
pub const ERROR: &str = "error";
/// What stands here takes longer.
pub const DELAY: &str = "delay";
/// It takes so long that it seems stuck.
pub const HANG: &str = "hang";
/// What stands here is done a second time.
pub const TWICE: &str = "twice";

/// What the caller has to bring about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Error,
    Twice,
}

/// Lets tests arm this process from now on. For the start of a daemon's `main`.
pub fn listen() {
    #[cfg(feature = "failpoints")]
    armed::listen();
}

/// A place in code that may block.
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

/// A place in asynchronous code.
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

/// The places before and after a step that can fail.
#[derive(Debug, Clone, Copy)]
pub struct Places<E> {
    pub before: &'static str,
    pub after: &'static str,
    /// The step was refused.
    pub refused: fn() -> E,
    /// The step was done, but its answer was lost.
    pub lost: fn() -> E,
}

/// Carries a step out between its two places.
#[inline]
pub async fn around<T, E, F: Future<Output = Result<T, E>>>(
    places: Places<E>,
    step: impl Fn() -> F,
) -> Result<T, E> {
    match reach(places.before).await {
        None => {}
        Some(Fault::Error) => return Err((places.refused)()),
        // The first answer is of no interest to anyone: the second one counts.
        Some(Fault::Twice) => drop(step().await),
    }
    let outcome = step().await;
    match reach(places.after).await {
        Some(Fault::Error) => Err((places.lost)()),
        None | Some(Fault::Twice) => outcome,
    }
}
