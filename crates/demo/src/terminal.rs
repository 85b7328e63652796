//! Output of the demo: headings, aligned columns, and optional colours.

use std::io::{self, IsTerminal, Write};

/// The output of the demo.
pub struct Terminal {
    out: Box<dyn Write + Send>,
    colour: bool,
}

/// The meaning of a text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Heading,
    Faint,
    Good,
    Bad,
    Busy,
}

// === impl Terminal ===

impl Terminal {
    /// Standard output; coloured on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub fn stdout() -> Self {
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = io::stdout().is_terminal() && !forbidden;
        Self { out: Box::new(io::stdout()), colour }
    }

    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        let text = self.painted(Tone::Heading, text);
        writeln!(self.out, "\n{text}")?;
        self.out.flush()
    }

    /// Writes a line of cells, each except the last padded to its width.
    pub(super) fn row(&mut self, cells: &[(usize, Tone, &str)]) -> io::Result<()> {
        let mut line = String::from(" ");
        for (at, (width, tone, text)) in cells.iter().enumerate() {
            let last = at + 1 == cells.len();
            let padding = if last { 0 } else { width.saturating_sub(text.chars().count()) };
            line.push(' ');
            line.push_str(&self.painted(*tone, text));
            line.extend(std::iter::repeat_n(' ', padding));
        }
        writeln!(self.out, "{}", line.trim_end())?;
        self.out.flush()
    }

    pub fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Writes an indented line.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.row(&[(0, Tone::Plain, text)])
    }

    fn painted(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Heading => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Busy => "33",
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(colour: bool) -> String {
        let sink = Written::default();
        let mut terminal = Terminal { out: Box::new(sink.clone()), colour };
        terminal.row(&[(5, Tone::Good, "ab"), (9, Tone::Plain, "c")]).unwrap();
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn columns_are_aligned_with_and_without_colour() {
        assert_eq!(written(false), "  ab    c\n");
        assert_eq!(written(true), "  \x1b[32mab\x1b[0m    c\n");
    }
}
