//! Values for statements, encoded as they go over the wire.
//!
//! The rows of one table go to the server as one array for each column, which a statement turns into
//! rows again. They are encoded once, while the commit is at hand, because the attempt to store it
//! may outlive the call that began it.

use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::store::row::Cell;

/// What stands in a statement for its rows; see [`Rows`].
const ROWS: &str = "{rows}";

/// The header of an array of one dimension: dimensions, nulls, type, length, lower bound.
const HEADER_BYTES: usize = 20;

/// One parameter in the binary format; none for null.
#[derive(Debug, Clone)]
pub(super) struct Param(Option<Vec<u8>>);

/// A statement with its parameters.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) template: Template,
    pub(super) params: Vec<Param>,
}

/// The text of a statement, and what its rows consist of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    text: &'static str,
    /// `n` for each column of numbers, `b` for one of bytes.
    columns: &'static str,
}

/// The rows of one statement, column by column.
pub(super) struct Rows {
    template: Template,
    arrays: Vec<Vec<u8>>,
    count: u32,
}

// === impl Param ===

impl Param {
    pub(super) fn number(value: i64) -> Self {
        Self(Some(value.to_be_bytes().to_vec()))
    }

    pub(super) fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Some(bytes.into()))
    }

    pub(super) fn option(bytes: Option<impl Into<Vec<u8>>>) -> Self {
        Self(bytes.map(Into::into))
    }

    pub(super) fn numbers(values: impl IntoIterator<Item = i64>) -> Self {
        array(&Type::INT8, values, |bytes, value| push(bytes, Cell::Integer(value)))
    }

    pub(super) fn byte_strings<B: AsRef<[u8]>>(values: impl IntoIterator<Item = B>) -> Self {
        array(&Type::BYTEA, values, |bytes, value| push(bytes, Cell::Bytes(value.as_ref())))
    }

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }
}

impl ToSql for Param {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }

    /// The statements name the types of their parameters.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

// === impl Step, Template ===

impl Step {
    pub(super) fn new(text: &'static str, params: Vec<Param>) -> Self {
        Self { template: Template { text, columns: "" }, params }
    }

    pub(super) fn len(&self) -> usize {
        self.params.iter().map(Param::len).sum()
    }
}

impl Template {
    pub(super) const fn new(text: &'static str, columns: &'static str) -> Self {
        Self { text, columns }
    }

    /// What tells it from all others.
    pub(super) const fn key(self) -> &'static str {
        self.text
    }

    pub(super) fn sql(self) -> String {
        let arrays = self.columns.bytes().zip(1..).map(|(kind, place)| match kind {
            b'n' => format!("${place}::bigint[]"),
            _ => format!("${place}::bytea[]"),
        });
        let arrays: Vec<_> = arrays.collect();
        self.text.replace(ROWS, &format!("unnest({})", arrays.join(", ")))
    }
}

// === impl Rows ===

impl Rows {
    pub(super) fn new(template: Template) -> Self {
        let arrays = vec![vec![0; HEADER_BYTES]; template.columns.len()];
        Self { template, arrays, count: 0 }
    }

    pub(super) fn push<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) {
        let mut cells = cells.into_iter();
        self.count += 1;
        for array in &mut self.arrays {
            push(array, cells.next().expect("each array has a cell"));
        }
        assert!(cells.next().is_none(), "each cell has an array");
    }

    /// Nothing if there are no rows.
    pub(super) fn step(self) -> Option<Step> {
        self.step_with([])
    }

    /// The same with further parameters, which follow the arrays.
    pub(super) fn step_with(self, more: impl IntoIterator<Item = Param>) -> Option<Step> {
        if self.count == 0 {
            return None;
        }
        let kinds = self.template.columns.bytes();
        let arrays = self.arrays.into_iter().zip(kinds).map(|(mut bytes, kind)| {
            let element = if kind == b'n' { Type::INT8 } else { Type::BYTEA };
            write_header(&mut bytes, &element, self.count);
            Param(Some(bytes))
        });
        Some(Step { template: self.template, params: arrays.chain(more).collect() })
    }
}

fn array<T>(
    element: &Type,
    values: impl IntoIterator<Item = T>,
    push: impl Fn(&mut Vec<u8>, T),
) -> Param {
    let mut bytes = vec![0; HEADER_BYTES];
    let mut count = 0;
    for value in values {
        push(&mut bytes, value);
        count += 1;
    }
    write_header(&mut bytes, element, count);
    Param(Some(bytes))
}

fn push(array: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Null | Cell::Other(_) => array.extend((-1_i32).to_be_bytes()),
        Cell::Integer(value) => {
            array.extend(8_i32.to_be_bytes());
            array.extend(value.to_be_bytes());
        }
        Cell::Bytes(bytes) => {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            array.extend(length.to_be_bytes());
            array.extend(bytes);
        }
    }
}

/// The array may have nulls.
fn write_header(array: &mut [u8], element: &Type, count: u32) {
    let header = [1, 1, element.oid(), count, 1];
    for (bytes, value) in array.chunks_exact_mut(4).zip(header) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

// === impl Cell ===

macro_rules! integers {
    ($($name:ty),+) => {
        $(impl From<$name> for Cell<'_> {
            fn from(value: $name) -> Self {
                Self::Integer(value.into())
            }
        })+
    };
}

integers!(i64, i32, u32, u8, bool);

/// A counter, kept bit by bit.
impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(value.cast_signed())
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Cell<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a [u8; 16]> for Cell<'a> {
    fn from(id: &'a [u8; 16]) -> Self {
        Self::Bytes(id)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The cells of a row.
macro_rules! cells {
    ($($value:expr),+ $(,)?) => {
        [$(crate::store::row::Cell::from($value)),+]
    };
}
pub(super) use cells;
