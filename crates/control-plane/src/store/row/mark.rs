//! The seconds under which a sparse index of events keeps its marks.

use api_types::Timestamp;

pub(in crate::store) const NANOS_PER_SECOND: i64 = 1_000_000_000;

pub(in crate::store) const fn second(time: Timestamp) -> i64 {
    time.0.div_euclid(NANOS_PER_SECOND)
}
