//! Output: tables, JSON, YAML, names. No other module writes to stdout.

mod age;
mod fields;
mod format;
mod list;
mod progress;
mod rows;
mod style;
mod table;

use std::io::{IsTerminal, Write};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

pub(crate) use age::{age, age_of_text};
pub(crate) use fields::Fields;
pub(crate) use list::{Layout, Listed, show, watch};
pub(crate) use progress::{Progress, SpinnerHandle, Transfer};
pub(crate) use rows::Rows;
pub(crate) use style::Tone;
pub(crate) use table::{Cell, Table};

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns
    #[default]
    Table,
    /// More columns, and full IDs
    Wide,
    /// The records of the API
    Json,
    /// The records of the API in YAML
    Yaml,
    /// Only the IDs, one per line
    Name,
}

/// Standard output, and whether it is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    colours: bool,
}

impl Out {
    pub(crate) fn new() -> Self {
        let colours = style::enabled(
            std::io::stdout().is_terminal(),
            std::env::var_os("NO_COLOR").as_deref(),
            std::env::var_os("TERM").as_deref(),
        );
        Self { colours }
    }

    pub(crate) fn text(self, text: &str) -> Result<()> {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn line(self, line: &str) -> Result<()> {
        self.text(&format!("{line}\n"))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    pub(crate) fn table(self, table: &Table) -> Result<()> {
        self.text(&table.render(self.colours))
    }

    pub(crate) fn fields(self, fields: &Fields) -> Result<()> {
        self.text(&fields.render(self.colours))
    }

    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<()> {
        self.text(&format::json(value)?)
    }

    pub(crate) fn yaml<T: Serialize>(self, value: &T) -> Result<()> {
        self.text(&format::yaml(value)?)
    }

    /// Writes one record: its fields for people, or the record itself for programs.
    pub(crate) fn record<T: Serialize>(
        self,
        format: Format,
        value: &T,
        name: &str,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        match format {
            Format::Table | Format::Wide => self.text(&text()),
            Format::Json => self.json(value),
            Format::Yaml => self.yaml(value),
            Format::Name => self.line(name),
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        std::io::stdout().is_terminal()
    }

    /// Empties the terminal, for what takes the place of everything shown.
    pub(crate) fn clear(self) -> Result<()> {
        self.text("\x1b[H\x1b[2J\x1b[3J")
    }

    pub(crate) const fn colours(self) -> bool {
        self.colours
    }
}

/// Writes a message for the user to stderr.
pub(crate) fn note(text: &str) {
    // Nothing can be done when stderr is closed.
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// A text as a terminal may get it: a message may quote what a node, a task or an archive says,
/// and a control character in it would move the cursor or write to the clipboard.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            control if control.is_control() => safe.extend(control.escape_default()),
            character => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_control_the_terminal() {
        assert_eq!(
            printable("a\tb\n\u{1b}]52;c;x\u{7}\r\u{9b}2J"),
            "a\tb\n\\u{1b}]52;c;x\\u{7}\\r\\u{9b}2J"
        );
        assert_eq!(printable("größer"), "größer");
    }
}
