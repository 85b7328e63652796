//! Aligned columns without borders, readable for people and `awk`.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::characters::on_one_line;
use super::local::offset;
use super::style::Tone;
use crate::clock;

/// Spaces between two columns.
const GAP: usize = 2;

/// Columns that are cut where a table does not fit the terminal: the others are short, or a part of
/// them means something else.
const CUT: [&str; 9] =
    ["NAME", "NODE", "JOB", "ENGINES", "MESSAGE", "COMMENT", "REASON", "DESCRIPTION", "URL"];

/// A column of local times; its title is `TIME` and the offset, like `TIME+01:00`.
pub(crate) const LOCAL_TIME: &str = "TIME±";

/// No column becomes narrower than this.
const LEAST: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
    /// The text changes with time alone; a watch ignores such changes.
    ages: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<Cow<'static, str>>,
    rows: Vec<Vec<Cell>>,
    /// Minimum widths of the columns; a watch keeps those of earlier rows.
    widths: Vec<usize>,
}

// === impl Cell ===

impl Cell {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: one_line(&text.into()), tone, ages: false }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    pub(crate) fn age(text: impl Into<String>) -> Self {
        Self { ages: true, ..Self::plain(text) }
    }

    /// The text that a watch compares.
    pub(super) fn fingerprint(&self) -> &str {
        if self.ages { "" } else { &self.text }
    }
}

/// Replaces control characters, which could break the table or control the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(on_one_line).collect()
}

// === impl Table ===

impl Table {
    pub(crate) fn new(columns: Vec<&'static str>) -> Self {
        let title = |column| match column {
            LOCAL_TIME => Cow::Owned(format!("TIME{}", offset(clock::now()))),
            column => Cow::Borrowed(column),
        };
        let columns: Vec<_> = columns.into_iter().map(title).collect();
        let widths = columns.iter().map(|column| column.width()).collect();
        Self { columns, rows: Vec::new(), widths }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for every column");
        for (width, cell) in self.widths.iter_mut().zip(&row) {
            *width = (*width).max(cell.text.width());
        }
        self.rows.push(row);
    }

    /// Sets minimum widths for rows that are not known yet.
    pub(super) fn reserve(&mut self, widths: &[usize]) {
        for (width, least) in self.widths.iter_mut().zip(widths) {
            *width = (*width).max(*least);
        }
    }

    /// The header and all rows; they fit `room`, the columns of a terminal.
    pub(crate) fn render(&self, colours: bool, room: Option<usize>) -> String {
        let header: Vec<_> =
            self.columns.iter().map(|column| Cell::plain(column.as_ref())).collect();
        let mut text = Self::line(&header, false, &self.fitting(room));
        text.push_str(&self.render_rows(colours, room));
        text
    }

    /// The rows alone.
    pub(super) fn render_rows(&self, colours: bool, room: Option<usize>) -> String {
        let widths = self.fitting(room);
        self.rows.iter().map(|row| Self::line(row, colours, &widths)).collect()
    }

    /// The widths with which a line fits, as far as columns may be cut: the widest first.
    fn fitting(&self, room: Option<usize>) -> Vec<usize> {
        let mut widths = self.widths.clone();
        let Some(room) = room else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > room {
            let least = |at: usize| self.columns[at].width().max(LEAST);
            let can_be_cut =
                |at: &usize| CUT.contains(&&*self.columns[*at]) && widths[*at] > least(*at);
            match (0..widths.len()).filter(can_be_cut).max_by_key(|at| widths[*at]) {
                Some(widest) => widths[widest] -= 1,
                None => break,
            }
        }
        widths
    }

    /// Removes the rows and keeps the widths.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    fn line(row: &[Cell], colours: bool, widths: &[usize]) -> String {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let text = cut(&cell.text, widths[at]);
            line.push_str(&cell.tone.paint(&text, colours));
            if at + 1 < row.len() {
                let padding = widths[at].saturating_sub(text.width()) + GAP;
                line.extend(std::iter::repeat_n(' ', padding));
            }
        }
        format!("{}\n", line.trim_end())
    }
}

/// The text, or as much of its beginning as fits with an ellipsis.
fn cut(text: &str, room: usize) -> Cow<'_, str> {
    if text.width() <= room {
        return Cow::Borrowed(text);
    }
    let mut left = room.saturating_sub(1);
    let fits = |character: &char| {
        let width = character.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let beginning: String = text.chars().take_while(fits).collect();
    Cow::Owned(format!("{beginning}…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(vec!["ID", "NAME", "MESSAGE"]);
        table.push(vec![Cell::plain("j-1"), Cell::plain("名前"), Cell::plain("long message here")]);
        table.push(vec![Cell::plain("j-22"), Cell::plain(""), Cell::plain("")]);
        assert_eq!(
            table.render(false, None),
            "ID    NAME  MESSAGE\nj-1   名前  long message here\nj-22\n"
        );
    }

    #[test]
    fn names_and_messages_are_cut_to_fit_a_terminal() {
        let mut table = Table::new(vec!["ID", "NAME", "AGE", "MESSAGE"]);
        table.push(
            ["j-12ab34cd", "a name of many words", "3m", "exit code 3: no such file or directory"]
                .map(Cell::plain)
                .to_vec(),
        );
        table.push(
            ["j-22", "名前名前名前名前", "3m", "名前名前名前名前名前名前"]
                .map(Cell::plain)
                .to_vec(),
        );
        let fitting = table.render(false, Some(50));
        let expected = "\
ID          NAME              AGE  MESSAGE
j-12ab34cd  a name of many …  3m   exit code 3: n…
j-22        名前名前名前名前  3m   名前名前名前名…
";
        assert_eq!(fitting, expected);
        assert!(fitting.lines().all(|line| line.width() <= 50));
        // What cannot be cut stays complete, however narrow the terminal is.
        assert!(table.render(false, Some(10)).contains("j-12ab34cd  a name …  3m   exit co…"));
        let whole = table.render(false, None);
        assert!(whole.contains("a name of many words") && whole.contains("directory"), "{whole}");
    }

    #[test]
    fn colours_do_not_count_toward_the_width() {
        let mut table = Table::new(vec!["STATE", "AGE"]);
        table.push(vec![Cell::new("Failed", Tone::Bad), Cell::age("3m")]);
        assert_eq!(table.render(true, None), "STATE   AGE\n\x1b[31mFailed\x1b[0m  3m\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = Table::new(vec!["NAME"]);
        table.push(vec![Cell::plain("a\x1b[2J\nb")]);
        assert_eq!(table.render(false, None), "NAME\na [2J b\n");
    }
}
