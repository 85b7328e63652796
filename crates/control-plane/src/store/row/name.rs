//! Names of jobs in their columns: as given, or the stem of a name that the service made.

use api_types::JobId;
use api_types::job::generated_stem;

use super::Columns;
use crate::store::StoreError;

/// What the columns `name` and `stem` hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct NameColumns<'a> {
    pub(in crate::store) name: Option<&'a str>,
    pub(in crate::store) stem: Option<&'a str>,
}

// === impl NameColumns ===

impl<'a> NameColumns<'a> {
    pub(in crate::store) fn new(name: &'a str, id: JobId) -> Self {
        let stem = generated_stem(name, id);
        let name = (stem.is_none() && name != id.to_string()).then_some(name);
        Self { name, stem }
    }
}

/// The name in a column that has that of a name or of a stem with the digits.
pub(in crate::store) fn get(
    row: &impl Columns,
    column: usize,
    id: JobId,
) -> Result<String, StoreError> {
    Ok(row.value::<Option<String>>(column)?.unwrap_or_else(|| id.to_string()))
}
