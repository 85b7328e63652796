//! Aligned columns without borders, readable for people and `awk`.

use unicode_width::UnicodeWidthStr;

use super::style::Tone;

/// Spaces between two columns.
const GAP: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
    /// The text changes with time alone; a watch ignores such changes.
    ages: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<&'static str>,
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
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

// === impl Table ===

impl Table {
    pub(crate) fn new(columns: Vec<&'static str>) -> Self {
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

    /// The header and all rows.
    pub(crate) fn render(&self, colours: bool) -> String {
        let header: Vec<_> = self.columns.iter().map(|column| Cell::plain(*column)).collect();
        let mut text = self.line(&header, false);
        text.push_str(&self.render_rows(colours));
        text
    }

    /// The rows alone.
    pub(super) fn render_rows(&self, colours: bool) -> String {
        self.rows.iter().map(|row| self.line(row, colours)).collect()
    }

    /// Removes the rows and keeps the widths.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    fn line(&self, row: &[Cell], colours: bool) -> String {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            line.push_str(&cell.tone.paint(&cell.text, colours));
            if at + 1 < row.len() {
                let padding = self.widths[at].saturating_sub(cell.text.width()) + GAP;
                line.extend(std::iter::repeat_n(' ', padding));
            }
        }
        format!("{}\n", line.trim_end())
    }
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
            table.render(false),
            "ID    NAME  MESSAGE\nj-1   名前  long message here\nj-22\n"
        );
    }

    #[test]
    fn colours_do_not_count_toward_the_width() {
        let mut table = Table::new(vec!["STATE", "AGE"]);
        table.push(vec![Cell::new("Failed", Tone::Bad), Cell::age("3m")]);
        assert_eq!(table.render(true), "STATE   AGE\n\x1b[31mFailed\x1b[0m  3m\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = Table::new(vec!["NAME"]);
        table.push(vec![Cell::plain("a\x1b[2J\nb")]);
        assert_eq!(table.render(false), "NAME\na [2J b\n");
    }
}
