//! Tables of both databases, and their rows as `COPY` carries them.

use crate::store::StoreError;
use crate::store::row::{Cell, Columns, bad_record, of};

/// The beginning of what `COPY` carries in its binary format: a signature, flags, and the length of
/// an extension.
pub(super) const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The end, in place of a row's number of columns.
pub(super) const TRAILER: [u8; 2] = (-1_i16).to_be_bytes();

/// Tables that are split in PostgreSQL: each part, and where it comes from.
const SPLIT: [(&str, &str); 2] = [("job_run", "job"), ("job_plan", "job_spec")];

/// A table of PostgreSQL.
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) key: Vec<String>,
}

// === impl Table ===

impl Table {
    /// The table of SQLite that has these rows.
    pub(super) fn source(&self) -> &str {
        let part = SPLIT.into_iter().find(|(part, _)| *part == self.name);
        part.map_or(self.name.as_str(), |(_, whole)| whole)
    }

    /// Names that both databases read as such: `user` is a word of the language as well.
    pub(super) fn columns(&self) -> String {
        quoted(&self.columns)
    }

    pub(super) fn key(&self) -> String {
        quoted(&self.key)
    }

    /// A row with these columns.
    pub(super) fn encode(&self, row: &impl Columns) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        let count = i16::try_from(self.columns.len()).unwrap_or(i16::MAX);
        bytes.extend(count.to_be_bytes());
        for column in 0..self.columns.len() {
            match row.cell(column)? {
                Cell::Null => bytes.extend((-1_i32).to_be_bytes()),
                Cell::Integer(value) => push(&mut bytes, &value.to_be_bytes()),
                Cell::Bytes(value) => push(&mut bytes, value),
                Cell::Other(kind) => {
                    let key = self.key.iter().filter_map(|key| {
                        let at = self.columns.iter().position(|name| name == key)?;
                        Some(format!("{key} {}", row.cell(at).ok()?.kind()))
                    });
                    let what = format!("{} {}", self.name, key.collect::<Vec<_>>().join(", "));
                    return of(what, Err(bad_record(format!("{} is {kind}", row.name(column)))));
                }
            }
        }
        Ok(bytes)
    }
}

fn push(bytes: &mut Vec<u8>, value: &[u8]) {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(value);
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(", ")
}
