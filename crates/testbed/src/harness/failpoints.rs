//! The failpoints of one daemon, armed and observed from outside.

use std::fs;
use std::path::{Path, PathBuf};

use super::wait::eventually;

/// Reaches a daemon's failpoints through the directory that it was given.
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

    /// Has the action happen once, the next time that the daemon comes to the place; answers when
    /// that is in force.
    pub async fn arm(&self, place: &str, action: &str) {
        let path = self.directory.join("arm");
        // Moved into place, so that it is read whole.
        let beside = self.directory.join("arm.new");
        fs::write(&beside, format!("{place}=1*return({action})"))
            .and_then(|()| fs::rename(&beside, &path))
            .unwrap_or_else(|error| panic!("cannot arm {place}: {error}"));
        eventually(&format!("{place} is armed"), async || match path.exists() {
            false => Ok(()),
            true => Err("the daemon has not looked; was it built with failpoints?".to_owned()),
        })
        .await;
    }

    /// How often the action has happened at the place.
    pub fn hits(&self, place: &str, action: &str) -> usize {
        let hits = fs::read_to_string(self.directory.join("hits")).unwrap_or_default();
        let wanted = format!("{place} {action}");
        hits.lines().filter(|line| *line == wanted).count()
    }
}
