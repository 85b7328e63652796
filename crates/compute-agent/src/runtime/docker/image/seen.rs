//! Images seen a moment ago: in a burst of tasks, not every one asks the Engine.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::Timestamp;

use super::facts::Present;

/// How long an image counts as present. A removed image is noticed when its container is created;
/// a replaced one is used in its new version, and only its last use is recorded wrongly, for at
/// most this long.
const STILL_THERE: Duration = Duration::from_secs(60);

/// By name, as tasks write it: the image, and when it was seen.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<HashMap<String, (Present, Timestamp)>>);

// === impl Seen ===

impl Seen {
    pub(super) fn note(&self, image: &str, found: Present, now: Timestamp) {
        let mut images = self.images();
        images.retain(|_, (_, seen_at)| now.since(*seen_at) < STILL_THERE);
        images.insert(image.to_owned(), (found, now));
    }

    /// The image, if it was seen a moment ago.
    pub(super) fn get(&self, image: &str, now: Timestamp) -> Option<Present> {
        let images = self.images();
        let (found, seen_at) = images.get(image)?;
        (now.since(*seen_at) < STILL_THERE).then(|| found.clone())
    }

    pub(super) fn forget(&self, image: &str) {
        self.images().remove(image);
    }

    fn images(&self) -> MutexGuard<'_, HashMap<String, (Present, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::*;

    #[test]
    fn an_image_counts_as_present_for_a_while_or_until_it_is_missed() {
        let seen = Seen::default();
        let seen_at = Timestamp::ZERO + Duration::from_secs(1000);
        let (soon, late) = (seen_at + STILL_THERE / 2, seen_at + STILL_THERE);
        let present = |id: &str| Present { id: id.to_owned(), facts: Facts::default() };
        seen.note("a:1", present("sha256:a"), seen_at);
        seen.note("b:1", present("sha256:b"), seen_at);
        assert_eq!(seen.get("a:1", soon), Some(present("sha256:a")));
        assert_eq!(seen.get("a:1", late), None);
        seen.forget("a:1");
        assert_eq!(seen.get("a:1", soon), None);
        assert_eq!(seen.get("b:1", soon), Some(present("sha256:b")));
        seen.note("c:1", present("sha256:c"), late);
        assert_eq!(seen.images().len(), 1, "what is too old is not kept");
    }
}
