//! Tables of the texts of an enum, with at least one row for each variant.

/// A pattern, and a value that it matches.
pub type Rows<T> = Vec<(&'static str, T)>;

/// Values for each pattern. The patterns are those of a `match`, so a variant without a row does not
/// compile.
#[macro_export]
macro_rules! rows {
    ($type:ty { $($pattern:pat => [$($value:expr),+ $(,)?]),+ $(,)? }) => {{
        let name = |value: &$type| match value { $($pattern => stringify!($pattern)),+ };
        let mut rows = $crate::testing::Rows::<$type>::new();
        $($(
            let value: $type = $value;
            assert_eq!(name(&value), stringify!($pattern), "the row has a value of another pattern");
            rows.push((stringify!($pattern), value));
        )+)+
        rows
    }};
}
