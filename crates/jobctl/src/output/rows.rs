//! Records that arrive one by one.

use std::marker::PhantomData;

use anyhow::Result;

use super::format;
use super::list::{Layout, Listed};
use super::out::{Format, Out};
use super::table::Table;

/// Shows each record as soon as it arrives.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    out: Out,
    format: Format,
    layout: Layout,
    table: Table,
    begun: bool,
    records: PhantomData<fn(&T)>,
}

impl<T: Listed> Rows<T> {
    /// Columns are at least as wide as `widths`.
    pub(crate) fn new(out: Out, format: Format, widths: &[usize]) -> Self {
        let layout = Layout::for_format(format);
        let mut table = Table::new(T::columns(&layout));
        table.reserve(widths);
        Self { out, format, layout, table, begun: false, records: PhantomData }
    }

    pub(crate) fn show(&mut self, record: &T) -> Result<()> {
        match self.format {
            Format::Table | Format::Wide => {
                self.table.clear();
                self.table.push(record.cells(&self.layout));
                let (colours, room) = (self.out.colours(), self.layout.room(self.out));
                let text = if self.begun {
                    self.table.render_rows(colours, room)
                } else {
                    self.table.render(colours, room)
                };
                self.begun = true;
                self.out.text(&text)
            }
            Format::Json => self.out.text(&format::json_line(record)?),
            Format::Yaml => self.out.text(&format!("---\n{}", format::yaml(record)?)),
            Format::Name => self.out.line(&record.name()),
        }
    }
}
