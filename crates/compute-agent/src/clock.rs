//! The wall clock, read here and nowhere else.

use std::time::{SystemTime, UNIX_EPOCH};

use api_types::Timestamp;

/// Now, in Unix nanoseconds; zero on a machine whose clock stands before 1970.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}
