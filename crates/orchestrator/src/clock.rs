//! The one place that reads the wall clock.

use std::time::UNIX_EPOCH;

use api_types::Timestamp;

/// Now, in Unix nanoseconds.
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the module that reads the clock")]
    let now = std::time::SystemTime::now();
    let nanos = now.duration_since(UNIX_EPOCH).map_or(0, |duration| duration.as_nanos());
    Timestamp(i64::try_from(nanos).unwrap_or(i64::MAX))
}
