//! Arms and observes the failpoints of one daemon.

use std::fs;
use std::path::{Path, PathBuf};

use super::wait::eventually;

/// The failpoints of a daemon, controlled through its directory.
#[derive(Debug)]
pub struct Failpoints {
    directory: PathBuf,
}

// === impl Failpoints ===

impl Failpoints {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Arms a failpoint for one execution of the action; returns when the daemon has confirmed it.
    pub async fn arm(&self, place: &str, action: &str) {
        self.request(place, &format!("1*return({action})")).await;
    }

    /// Arms a failpoint until it is disarmed.
    pub async fn arm_always(&self, place: &str, action: &str) {
        self.request(place, &format!("return({action})")).await;
    }

    pub async fn disarm(&self, place: &str) {
        self.request(place, "off").await;
    }

    async fn request(&self, place: &str, actions: &str) {
        let path = self.directory.join("arm");
        // Renamed, so that the daemon never reads an incomplete file.
        let temporary = self.directory.join("arm.new");
        fs::write(&temporary, format!("{place}={actions}"))
            .and_then(|()| fs::rename(&temporary, &path))
            .unwrap_or_else(|error| panic!("cannot set {place}: {error}"));
        eventually(&format!("{place} is set"), async || match path.exists() {
            false => Ok(()),
            true => {
                Err("the daemon has not read the request; was it built with failpoints?".to_owned())
            }
        })
        .await;
    }

    /// Number of times that the action fired at the failpoint.
    pub fn hits(&self, place: &str, action: &str) -> usize {
        let hits = fs::read_to_string(self.directory.join("hits")).unwrap_or_default();
        let expected = format!("{place} {action}");
        hits.lines().filter(|line| *line == expected).count()
    }
}
