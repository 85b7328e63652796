//! The standard streams of this program.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use super::characters::printable;
use super::fields::Fields;
use super::table::Table;
use super::{format, style};

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns
    #[default]
    Table,
    /// More columns, full IDs, and nothing cut to fit the terminal
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
        self.text(&table.render(self.colours, self.room()))
    }

    /// How wide a table may be: a terminal's columns, or whatever it needs for a program.
    pub(crate) fn room(self) -> Option<usize> {
        if !self.is_terminal() {
            return None;
        }
        columns_of(std::io::stdout())
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

    pub(crate) const fn colours(self) -> bool {
        self.colours
    }
}

/// The columns of a terminal that knows them.
pub(super) fn columns_of(terminal: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes a message for the user to stderr.
pub(crate) fn note(text: &str) {
    // Nothing can be done when stderr is closed.
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}
