//! Colours: they draw attention, and never carry meaning on their own.

use std::ffi::OsStr;

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Waiting,
    Active,
    Faint,
}

const RESET: &str = "\x1b[0m";

/// Colours need a capable terminal and an empty or absent `NO_COLOR` (no-color.org).
pub(super) fn enabled(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    terminal
        && no_color.is_none_or(OsStr::is_empty)
        && term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

impl Tone {
    pub(super) fn paint(self, text: &str, colours: bool) -> String {
        match self.code() {
            Some(code) if colours && !text.is_empty() => format!("{code}{text}{RESET}"),
            _ => text.to_owned(),
        }
    }

    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("\x1b[32m"),
            Self::Bad => Some("\x1b[31m"),
            Self::Waiting => Some("\x1b[33m"),
            Self::Active => Some("\x1b[36m"),
            Self::Faint => Some("\x1b[2m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_and_no_objection() {
        let term = Some(OsStr::new("xterm"));
        assert!(enabled(true, None, term));
        assert!(enabled(true, Some(OsStr::new("")), term));
        assert!(!enabled(true, Some(OsStr::new("1")), term));
        assert!(!enabled(false, None, term));
        assert!(!enabled(true, None, Some(OsStr::new("dumb"))));
        assert!(!enabled(true, None, None));
    }

    #[test]
    fn a_text_without_colours_is_unchanged() {
        assert_eq!(Tone::Bad.paint("Failed", false), "Failed");
        assert_eq!(Tone::Bad.paint("Failed", true), "\x1b[31mFailed\x1b[0m");
        assert_eq!(Tone::Plain.paint("x", true), "x");
    }
}
