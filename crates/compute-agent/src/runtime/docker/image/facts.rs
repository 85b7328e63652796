//! What an image says of itself that matters to its tasks.

use std::collections::BTreeSet;

use api_types::version::VersionRecord;
use bollard::models::ImageInspect;

use crate::runtime::environment::THREADS;

/// Platforms whose programs run on another one as they are.
const COMPATIBLE: [(&str, &str); 2] = [("386", "amd64"), ("arm", "arm64")];

/// Of an image that the Engine has; nothing if the Engine does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Facts {
    /// Its system and architecture, unless programs for it run on this machine.
    foreign: Option<String>,
    /// Which of [`THREADS`] it sets.
    sets: BTreeSet<&'static str>,
}

/// An image that the Engine has. Its ID is empty where the Engine does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) id: String,
    pub(super) facts: Facts,
}

// === impl Facts ===

impl Facts {
    pub(super) fn from_inspect(image: &ImageInspect) -> Self {
        let config = image.config.as_ref();
        let env = config.and_then(|config| config.env.as_deref()).unwrap_or_default();
        let sets = |name: &&str| {
            env.iter().any(|it| it.split_once('=').is_some_and(|(other, _)| other == *name))
        };
        let system = image.os.as_deref().unwrap_or_default();
        let architecture = image.architecture.as_deref().unwrap_or_default();
        Self {
            foreign: foreign(system, architecture, &own()),
            sets: THREADS.into_iter().filter(sets).collect(),
        }
    }

    pub(in super::super) fn sets(&self, variable: &str) -> bool {
        self.sets.contains(variable)
    }

    /// What a user should know before the start of its task. It may run nevertheless: nodes can have
    /// emulators.
    pub(in super::super) fn remark(&self) -> Option<String> {
        let (system, architecture) = own();
        let foreign = self.foreign.as_ref()?;
        Some(format!(
            "its image is for {foreign}, and this node is {system}/{architecture}: without an \
             emulator its programs do not start"
        ))
    }
}

/// The system and architecture of this machine.
fn own() -> (String, String) {
    let VersionRecord { goos, goarch, .. } = VersionRecord::current();
    (goos, goarch)
}

/// An image that does not say what it is for counts as one for this machine.
fn foreign(system: &str, architecture: &str, own: &(String, String)) -> Option<String> {
    let is_known = !system.is_empty() && !architecture.is_empty();
    let runs = architecture == own.1 || COMPATIBLE.contains(&(architecture, own.1.as_str()));
    let is_own = system == own.0 && runs;
    (is_known && !is_own).then(|| format!("{system}/{architecture}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_platform_is_foreign() {
        let of = |image: (&str, &str), own: (&str, &str)| {
            foreign(image.0, image.1, &(own.0.to_owned(), own.1.to_owned()))
        };
        let amd64 = ("linux", "amd64");
        for image in [amd64, ("linux", "386"), ("", ""), ("linux", "")] {
            assert_eq!(of(image, amd64), None, "{image:?}");
        }
        assert_eq!(of(("linux", "arm64"), amd64).as_deref(), Some("linux/arm64"));
        assert_eq!(of(("windows", "amd64"), amd64).as_deref(), Some("windows/amd64"));
        assert_eq!(of(amd64, ("linux", "arm64")).as_deref(), Some("linux/amd64"));
    }
}
