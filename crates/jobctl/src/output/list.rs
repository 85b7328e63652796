//! Lists of records in every format, once or as they change.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api_client::ClientError;
use api_types::Timestamp;
use serde::Serialize;

use super::table::{Cell, Table};
use super::{Format, Out, format};
use crate::cli::WatchArgs;
use crate::clock;
use crate::reconnect::Reconnect;

/// Polling interval of `--watch`. Lists have no subscription, and a user sees no difference.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_secs(1);

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
    fn columns(layout: &Layout) -> Vec<&'static str>;
    fn cells(&self, layout: &Layout) -> Vec<Cell>;
    /// Unique name within the list, shown by `-o name`.
    fn name(&self) -> String;
}

impl Layout {
    pub(crate) fn of(format: Format) -> Self {
        Self { wide: format == Format::Wide, namespaces: false, now: clock::now() }
    }
}

impl Out {
    pub(crate) fn list<T: Listed>(
        self,
        format: Format,
        layout: &Layout,
        items: &[T],
    ) -> Result<()> {
        match format {
            Format::Table | Format::Wide => {
                let mut table = Table::new(T::columns(layout));
                for item in items {
                    table.push(item.cells(layout));
                }
                self.table(&table)
            }
            Format::Json => self.json(&items),
            Format::Yaml => self.yaml(&items),
            Format::Name => self
                .text(&items.iter().map(|item| format!("{}\n", item.name())).collect::<String>()),
        }
    }
}

/// Shows the list once, or with `--watch` continues with every change.
pub(crate) async fn show<T: Listed>(
    out: Out,
    args: &WatchArgs,
    mut fetch: impl AsyncFnMut() -> Result<Vec<T>, ClientError>,
) -> Result<()> {
    let format = args.output.format;
    let layout = Layout::of(format);
    if args.watch {
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
            Format::Table | Format::Wide if first => out.table(&table)?,
            Format::Table | Format::Wide => out.text(&table.render_rows(out.colours()))?,
            Format::Json | Format::Yaml | Format::Name => out.text(&lines)?,
        }
        first = false;
        seen.retain(|name, _| items.iter().any(|item| item.name() == *name));
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}
