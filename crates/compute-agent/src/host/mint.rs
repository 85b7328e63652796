//! The only source of this daemon's randomness: its node id, and the jitter of its retries.

use api_types::NodeId;
use uuid::Uuid;

/// A fresh node id.
#[expect(clippy::disallowed_methods, reason = "this is the one place that mints ids")]
pub(crate) fn node_id() -> NodeId {
    NodeId::from_uuid(Uuid::new_v4())
}

/// A fresh id for a request that came without one.
#[expect(clippy::disallowed_methods, reason = "this is the one place that mints ids")]
pub(crate) fn request_id() -> String {
    Uuid::new_v4().simple().to_string()
}

/// A uniform random number in 0..1; not for secrets.
#[expect(clippy::disallowed_methods, reason = "this is the one place that draws random numbers")]
pub(crate) fn fraction() -> f64 {
    // The last 32 bits of a version 4 UUID are all random.
    let [.., a, b, c, d] = Uuid::new_v4().into_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}
