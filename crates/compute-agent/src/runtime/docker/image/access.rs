//! Who may use an image that is on the node because a namespace had it pulled with its credentials.
//!
//! Such an image may be used by everyone to whom its registry has granted it. For a task with other
//! credentials, or with none, the agent pulls it again: this transfers nothing, but lets the
//! registry decide.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api_types::credential::CredentialValue;
use ring::digest::{SHA256, digest};
use tracing::warn;

use super::record::write;

/// The most who are remembered for one image; beyond it, all but the last ask again.
const MAX_ALLOWED: usize = 256;

/// What a pull signs in with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ImageAccess {
    /// The node's own login, or none.
    Node,
    /// Credentials of a namespace, in one of their versions: a digest of these, not of the login.
    Namespace(String),
}

/// Names of images that are being pulled with credentials of a namespace, on disk before the pull
/// begins: an agent that crashes before it has recorded the image knows afterwards that it is not
/// everybody's.
pub(super) struct PrivatePulls {
    path: PathBuf,
    /// With the pulls that are under way.
    names: Mutex<BTreeMap<String, usize>>,
}

// === impl ImageAccess ===

impl ImageAccess {
    pub(super) fn from_credential(namespace: &str, credential: Option<&CredentialValue>) -> Self {
        let Some(value) = credential else { return Self::Node };
        // A namespace may have a '/', a name has none.
        let text = format!("{namespace}/{}/{}", value.name, value.version);
        let digest = digest(&SHA256, text.as_bytes());
        Self::Namespace(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Who may use an image after a pull with this access, if not everybody.
    pub(super) fn adds_to(
        &self,
        before: Option<Option<BTreeSet<String>>>,
    ) -> Option<BTreeSet<String>> {
        match (self, before) {
            // The registry gives it to everyone on this node, or did.
            (Self::Node, _) | (_, Some(None)) => None,
            (Self::Namespace(digest), before) => {
                let mut allowed = before.flatten().unwrap_or_default();
                if allowed.len() >= MAX_ALLOWED {
                    allowed.clear();
                }
                allowed.insert(digest.clone());
                Some(allowed)
            }
        }
    }

    pub(super) fn is_among(&self, allowed: Option<&BTreeSet<String>>) -> bool {
        match (self, allowed) {
            (_, None) => true,
            (Self::Node, Some(_)) => false,
            (Self::Namespace(digest), Some(allowed)) => allowed.contains(digest),
        }
    }
}

// === impl PrivatePulls ===

impl PrivatePulls {
    pub(super) fn open(path: PathBuf) -> Self {
        let names = read(&path).unwrap_or_else(|error| {
            warn!(path = %path.display(), %error,
                "cannot read which images were being pulled with credentials");
            BTreeSet::new()
        });
        let names = names.into_iter().map(|name| (name, 0)).collect();
        Self { path, names: Mutex::new(names) }
    }

    /// Whether an image of this name may have come by a pull whose end was not recorded.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().contains_key(name)
    }

    /// Durable when this returns.
    pub(super) fn begin(&self, name: &str) -> io::Result<()> {
        let mut names = self.names();
        let is_new = !names.contains_key(name);
        *names.entry(name.to_owned()).or_default() += 1;
        if is_new { self.save(&names) } else { Ok(()) }
    }

    /// The pull has failed, or its image is recorded.
    pub(super) fn end(&self, name: &str) {
        let mut names = self.names();
        let Some(count) = names.get_mut(name) else { return };
        *count = count.saturating_sub(1);
        if *count > 0 {
            return;
        }
        names.remove(name);
        if let Err(error) = self.save(&names) {
            // The registry is asked once more than it would have to be.
            warn!(path = %self.path.display(), %error, "cannot write which images are being pulled");
        }
    }

    fn save(&self, names: &BTreeMap<String, usize>) -> io::Result<()> {
        write(&self.path, &names.keys().collect::<Vec<_>>())
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> io::Result<BTreeSet<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use api_types::credential::{CredentialType, Login};

    use super::*;

    fn credential(version: u64) -> CredentialValue {
        CredentialValue {
            name: "hub".to_owned(),
            credential_type: CredentialType::Registry,
            hosts: Vec::new(),
            buckets: Vec::new(),
            version,
            login: Login::default(),
        }
    }

    #[test]
    fn an_image_is_for_those_whom_its_registry_gave_it_to() {
        let of = |namespace, version| {
            ImageAccess::from_credential(namespace, Some(&credential(version)))
        };
        let allowed = of("a", 1).adds_to(None);
        assert!(of("a", 1).is_among(allowed.as_ref()));
        for other in [of("b", 1), of("a", 2), ImageAccess::from_credential("a", None)] {
            assert!(!other.is_among(allowed.as_ref()), "{other:?}");
        }
        let both = of("b", 1).adds_to(Some(allowed));
        assert!(of("a", 1).is_among(both.as_ref()) && of("b", 1).is_among(both.as_ref()));
        let open = ImageAccess::Node.adds_to(Some(both));
        assert!(of("c", 1).is_among(open.as_ref()));
        assert_eq!(of("c", 1).adds_to(Some(open)), None, "what was everybody's stays everybody's");
    }

    #[test]
    fn a_pull_that_a_crash_cut_off_is_known_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("private.json");
        let pulls = PrivatePulls::open(path.clone());
        pulls.begin("h/a:1").unwrap();
        pulls.begin("h/a:1").unwrap();
        pulls.end("h/a:1");
        assert!(PrivatePulls::open(path.clone()).has("h/a:1"));
        pulls.end("h/a:1");
        assert!(!PrivatePulls::open(path).has("h/a:1"));
    }
}
