//! The only module that reads the wall clock or generates unique values.

use std::time::UNIX_EPOCH;

use api_types::Timestamp;

/// The current time.
pub(crate) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the module that reads the clock")]
    let now = std::time::SystemTime::now();
    let nanos = now.duration_since(UNIX_EPOCH).map_or(0, |duration| duration.as_nanos());
    Timestamp(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// A unique idempotency key.
pub(crate) fn fresh_key() -> String {
    #[expect(clippy::disallowed_methods, reason = "the module that generates unique values")]
    let uuid = uuid::Uuid::new_v4();
    format!("jobctl-{uuid}")
}
