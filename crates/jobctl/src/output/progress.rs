//! Progress on stderr: a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::out::note;

/// Interval between frames of the spinner: looks alive, costs nothing.
const TICK: Duration = Duration::from_millis(120);

/// Shows the state of a job while the user waits.
#[derive(Debug)]
pub(crate) enum Progress {
    /// `--quiet`.
    Silent,
    /// One line per change.
    Lines {
        last: String,
    },
    Spinner(ProgressBar),
}

/// Removes the spinner before other output.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpinnerHandle(Option<ProgressBar>);

impl SpinnerHandle {
    pub(crate) fn clear(&mut self) {
        if let Some(spinner) = self.0.take() {
            spinner.disable_steady_tick();
            // A finished spinner ignores later messages.
            spinner.finish_and_clear();
        }
    }
}

impl Progress {
    pub(crate) fn spinner(&self) -> SpinnerHandle {
        match self {
            Self::Silent | Self::Lines { .. } => SpinnerHandle(None),
            Self::Spinner(spinner) => SpinnerHandle(Some(spinner.clone())),
        }
    }

    pub(crate) fn new(quiet: bool) -> Self {
        if quiet {
            return Self::Silent;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines { last: String::new() };
        }
        let spinner = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}")
            .expect("the template is valid");
        spinner.set_style(style);
        spinner.enable_steady_tick(TICK);
        Self::Spinner(spinner)
    }

    /// One line per change, and nothing on a terminal.
    pub(crate) fn lines(quiet: bool) -> Self {
        match quiet || std::io::stderr().is_terminal() {
            true => Self::Silent,
            false => Self::Lines { last: String::new() },
        }
    }

    pub(crate) fn show(&mut self, text: &str) {
        match self {
            Self::Silent => {}
            Self::Lines { last } if last == text => {}
            Self::Lines { last } => {
                note(text);
                text.clone_into(last);
            }
            Self::Spinner(spinner) => spinner.set_message(text.to_owned()),
        }
    }

    /// Removes the spinner until [`Self::resume`].
    pub(crate) fn pause(&self) {
        match self {
            Self::Silent | Self::Lines { .. } => {}
            Self::Spinner(spinner) => {
                spinner.disable_steady_tick();
                spinner.finish_and_clear();
            }
        }
    }

    /// Shows the spinner again.
    pub(crate) fn resume(&mut self) {
        if let Self::Spinner(_) = self {
            *self = Self::new(false);
        }
    }
}

/// A spinner of several waits, on a terminal alone.
#[derive(Debug)]
pub(crate) struct Shared(Progress);

impl Shared {
    pub(crate) fn new(quiet: bool) -> Self {
        let is_shown = !quiet && std::io::stderr().is_terminal();
        Self(Progress::new(!is_shown))
    }

    pub(crate) fn show(&self, text: &str) {
        if let Progress::Spinner(spinner) = &self.0 {
            spinner.set_message(text.to_owned());
        }
    }
}

/// Progress of a download, on a terminal.
#[derive(Debug)]
pub(crate) struct Transfer(Option<ProgressBar>);

impl Transfer {
    pub(crate) fn new(quiet: bool, what: &str) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::no_length();
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}")
                .expect("the template is valid");
        bar.set_style(style);
        bar.set_message(what.to_owned());
        Self(Some(bar))
    }

    /// Updates the received bytes, and the total if it is known.
    pub(crate) fn at(&self, bytes: u64, total: Option<u64>) {
        if let Some(bar) = &self.0 {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(bytes);
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.pause();
    }
}
