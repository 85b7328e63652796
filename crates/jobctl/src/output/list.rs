//! Lists of records in every format, once or as they change.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api_client::ClientError;
use api_types::Timestamp;
use serde::Serialize;

use super::format;
use super::out::{Format, Out, columns_of, note};
use super::table::{Cell, Table};
use crate::clock;
use crate::reconnect::Reconnect;

/// Polling interval of `--watch`. Lists have no subscription, and a user sees no difference.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Rows of a preview: what a user reads before they decide.
const PREVIEWED: usize = 30;

/// Parameters of the columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) wide: bool,
    /// The list contains several namespaces.
    pub(crate) namespaces: bool,
    pub(crate) now: Timestamp,
}

/// A record that can be listed.
pub(crate) trait Listed: Serialize {
    /// What there is none of in an empty list, like `jobs`.
    const NOUN: &'static str;

    fn columns(layout: &Layout) -> Vec<&'static str>;
    fn cells(&self, layout: &Layout) -> Vec<Cell>;
    /// Unique name within the list, shown by `-o name`.
    fn name(&self) -> String;
}

impl Layout {
    pub(crate) fn for_format(format: Format) -> Self {
        Self { wide: format == Format::Wide, namespaces: false, now: clock::now() }
    }

    /// How wide a table may be.
    pub(super) fn room(&self, out: Out) -> Option<usize> {
        if self.wide { None } else { out.room() }
    }
}

impl Out {
    /// The table of these items, as wide as it may be.
    pub(crate) fn table_of<T: Listed>(self, layout: &Layout, items: &[T]) -> String {
        let mut table = Table::new(T::columns(layout));
        for item in items {
            table.push(item.cells(layout));
        }
        table.render(self.colours(), layout.room(self))
    }

    pub(crate) fn list<T: Listed>(
        self,
        format: Format,
        layout: &Layout,
        items: &[T],
    ) -> Result<()> {
        match format {
            Format::Table | Format::Wide | Format::Name if items.is_empty() => {
                note(&format!("no {}", T::NOUN));
                Ok(())
            }
            Format::Table | Format::Wide => self.text(&self.table_of(layout, items)),
            Format::Json => self.json(&items),
            Format::Yaml => self.yaml(&items),
            Format::Name => self
                .text(&items.iter().map(|item| format!("{}\n", item.name())).collect::<String>()),
        }
    }
}

/// Shows on standard error what a command is about to act on.
pub(crate) fn preview<T: Listed>(items: &[T]) {
    let layout = Layout::for_format(Format::Table);
    let mut table = Table::new(T::columns(&layout));
    items.iter().take(PREVIEWED).for_each(|item| table.push(item.cells(&layout)));
    note(table.render(false, columns_of(std::io::stderr())).trim_end());
    if items.len() > PREVIEWED {
        note(&format!("… and {} more", items.len() - PREVIEWED));
    }
}

/// Shows the list once, or with `--watch` continues with every change.
pub(crate) async fn show<T: Listed>(
    out: Out,
    format: Format,
    is_watched: bool,
    mut fetch: impl AsyncFnMut() -> Result<Vec<T>, ClientError>,
) -> Result<()> {
    let layout = Layout::for_format(format);
    if is_watched {
        watch(out, format, layout, fetch).await
    } else {
        out.list(format, &layout, &fetch().await?)
    }
}

/// Shows the list, then every new or changed record, until the program is ended.
pub(crate) async fn watch<T: Listed>(
    out: Out,
    output: Format,
    mut layout: Layout,
    mut fetch: impl AsyncFnMut() -> Result<Vec<T>, ClientError>,
) -> Result<()> {
    let mut table = Table::new(T::columns(&layout));
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut reconnect = Reconnect::default();
    let mut first = true;
    loop {
        let items = match fetch().await {
            Ok(items) => items,
            Err(error) => {
                tokio::time::sleep(reconnect.retry_delay(error)?).await;
                continue;
            }
        };
        reconnect.succeeded();
        layout.now = clock::now();
        table.clear();
        let mut lines = String::new();
        for item in &items {
            let cells = item.cells(&layout);
            let fingerprint = cells.iter().map(|cell| cell.fingerprint().to_owned()).collect();
            if seen.get(&item.name()) == Some(&fingerprint) {
                continue;
            }
            seen.insert(item.name(), fingerprint);
            match output {
                Format::Table | Format::Wide => table.push(cells),
                Format::Json => lines.push_str(&format::json_line(item)?),
                Format::Yaml => lines.push_str(&format!("---\n{}", format::yaml(item)?)),
                Format::Name => lines.push_str(&format!("{}\n", item.name())),
            }
        }
        match output {
            Format::Table | Format::Wide if first => {
                out.text(&table.render(out.colours(), layout.room(out)))?;
            }
            Format::Table | Format::Wide => {
                out.text(&table.render_rows(out.colours(), layout.room(out)))?;
            }
            Format::Json | Format::Yaml | Format::Name => out.text(&lines)?,
        }
        first = false;
        seen.retain(|name, _| items.iter().any(|item| item.name() == *name));
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}
