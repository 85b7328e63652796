//! The one place that reads the wall clock, and mints what has to be unique.

use std::time::UNIX_EPOCH;

use api_types::Timestamp;

/// Now, in Unix nanoseconds.
pub(crate) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the module that reads the clock")]
    let now = std::time::SystemTime::now();
    let nanos = now.duration_since(UNIX_EPOCH).map_or(0, |duration| duration.as_nanos());
    Timestamp(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// An idempotency key that no other submission has.
pub(crate) fn fresh_key() -> String {
    #[expect(clippy::disallowed_methods, reason = "this is the module that says so")]
    let uuid = uuid::Uuid::new_v4();
    format!("jobctl-{uuid}")
}
