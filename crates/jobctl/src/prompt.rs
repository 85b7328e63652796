//! Asks for something secret on the terminal.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, Result};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::exit::UsageError;

/// A line that the terminal does not show while it is typed, without its end.
pub(crate) fn hidden_line(question: &str) -> Result<String> {
    let mut terminal = std::io::stderr();
    // First, because a user may type as soon as the question appears.
    let hidden = Hidden::begin()?;
    write!(terminal, "{question}: ").context("write to the terminal")?;
    let line = line();
    drop(hidden);
    writeln!(terminal).context("write to the terminal")?;
    line
}

/// Whether the user agrees. Where there is no terminal to ask on, `--yes` is required.
pub(crate) fn confirm(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(UsageError::new("there is no terminal to ask on, so nothing was done")
            .with_hint("--yes agrees in advance")
            .into());
    }
    write!(std::io::stderr(), "{question} [y/N] ").context("write to the terminal")?;
    Ok(is_yes(&line()?))
}

/// Whether an answer agrees: only an explicit yes does.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// The next line of standard input, without its end.
pub(crate) fn line() -> Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("read standard input")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// The terminal does not show what is typed until this is dropped.
struct Hidden(Termios);

// === impl Hidden ===

impl Hidden {
    fn begin() -> Result<Self> {
        let before = tcgetattr(std::io::stdin()).context("read the terminal's settings")?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden)
            .context("hide what is typed")?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_yes_agrees() {
        assert!(is_yes("y\n") && is_yes("YES\n"));
        assert!(!is_yes("\n") && !is_yes("") && !is_yes("n\n") && !is_yes("yellow\n"));
    }
}
