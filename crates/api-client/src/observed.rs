//! For tests: every whole response that a client of this process gets is also shown to an observer.

use std::sync::OnceLock;

/// Gets the operation, like `GET /api/v1/orchestrator/jobs`, and the body.
pub type Observer = fn(&str, &[u8]);

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Shows every response from now on to this observer, or to the one that was set first.
pub fn observe(observer: Observer) {
    OBSERVER.get_or_init(|| observer);
}

pub(crate) fn show(operation: &str, body: &[u8]) {
    if let Some(observer) = OBSERVER.get() {
        observer(operation, body);
    }
}
