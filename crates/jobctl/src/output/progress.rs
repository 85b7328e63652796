//! What is happening now, on stderr: a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::note;

/// Often enough to look alive, seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(120);

/// Tells a person where a job stands while they wait.
#[derive(Debug)]
pub(crate) enum Progress {
    /// `--quiet`.
    Silent,
    /// Every change is a line of its own.
    Lines {
        last: String,
    },
    Spinner(ProgressBar),
}

/// Takes the spinner away when something else is to be shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curtain(Option<ProgressBar>);

impl Curtain {
    pub(crate) fn close(&mut self) {
        if let Some(spinner) = self.0.take() {
            spinner.disable_steady_tick();
            // What is finished shows nothing any more, whatever it is told.
            spinner.finish_and_clear();
        }
    }
}

impl Progress {
    pub(crate) fn curtain(&self) -> Curtain {
        match self {
            Self::Silent | Self::Lines { .. } => Curtain(None),
            Self::Spinner(spinner) => Curtain(Some(spinner.clone())),
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
            .expect("the template is written here");
        spinner.set_style(style);
        spinner.enable_steady_tick(TICK);
        Self::Spinner(spinner)
    }

    pub(crate) fn say(&mut self, text: &str) {
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

    /// Takes the spinner away until the next word.
    pub(crate) fn pause(&self) {
        match self {
            Self::Silent | Self::Lines { .. } => {}
            Self::Spinner(spinner) => {
                spinner.disable_steady_tick();
                spinner.finish_and_clear();
            }
        }
    }

    /// Goes on after a pause.
    pub(crate) fn resume(&mut self) {
        if let Self::Spinner(_) = self {
            *self = Self::new(false);
        }
    }
}

/// How much of a download is there, on a terminal.
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
                .expect("the template is written here");
        bar.set_style(style);
        bar.set_message(what.to_owned());
        Self(Some(bar))
    }

    /// So much is there, of so much in all where that is known.
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
