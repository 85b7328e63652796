//! The orchestrators of a cluster, in a list.

use api_types::member::Member;

use super::node::words;
use crate::output::{Cell, Layout, Listed, age_of_text};

impl Listed for Member {
    const NOUN: &'static str = "orchestrators";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        let mut columns = vec!["ID", "ADDRESS", "STATE", "SEEN", "RELEASE"];
        if layout.wide {
            columns.extend(["EXPOSURE", "FORMAT", "KEYS", "SETTINGS", "NAMES"]);
        }
        columns.push("DIFFERS");
        columns
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let state = match (self.leads, self.ready) {
            (true, _) => "leads",
            (false, true) => "ready",
            (false, false) => "not ready",
        };
        let mut cells = vec![
            Cell::plain(self.id.to_string()),
            Cell::plain(&self.address),
            Cell::plain(state),
            Cell::age(age_of_text(layout.now, &self.last_seen)),
            Cell::plain(&self.release),
        ];
        if layout.wide {
            cells.extend([
                Cell::plain(self.exposure.as_str()),
                Cell::plain(self.format.to_string()),
                Cell::plain(words(&self.cluster_keys, ",")),
                Cell::plain(&self.settings),
                Cell::plain(words(&self.names, ",")),
            ]);
        }
        cells.push(Cell::plain(words(&self.different_settings, ",")));
        cells
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}
