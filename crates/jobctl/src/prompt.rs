//! Asks for something secret on the terminal.

use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A line that the terminal does not show while it is typed, without its end.
pub(crate) fn hidden_line(question: &str) -> Result<String> {
    let mut terminal = std::io::stderr();
    // First, since who sees the question may type at once.
    let hidden = Hidden::begin()?;
    write!(terminal, "{question}: ").context("write to the terminal")?;
    let line = line();
    drop(hidden);
    writeln!(terminal).context("write to the terminal")?;
    line
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
