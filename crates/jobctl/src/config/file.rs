//! The configuration file: named contexts in YAML, and the name of the current one.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use api_client::base_urls;
use serde::{Deserialize, Serialize};

use crate::exit::UsageError;

/// It has no secrets; the umask takes what it takes.
const FILE_MODE: u32 = 0o666;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfigFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    pub(crate) contexts: BTreeMap<String, NamedContext>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedContext {
    pub(crate) url: String,
    /// Default namespace of commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// A file in PEM, or `sha256:` and the digest of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
}

impl ConfigFile {
    /// Loads the file; an absent one is empty unless the user `named` it.
    pub(crate) fn load(path: &Path, named: bool) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !named => {
                return Ok(Self::default());
            }
            Err(error) => return Err(UsageError::new(error.to_string()).into()),
        };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        yaml_serde::from_str(&text).map_err(|error| UsageError::new(error.to_string()).into())
    }

    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = yaml_serde::to_string(self).context("write YAML")?;
        replace(path, &text, FILE_MODE)
            .with_context(|| format!("write the configuration {}", path.display()))
    }

    pub(crate) fn context(&self, name: &str) -> Result<&NamedContext> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            UsageError::new(format!("there is no context '{name}'"))
                .with_hint(match known.as_slice() {
                    [] => "create one with 'jobctl context set NAME --url URL'".to_owned(),
                    known => format!("known: {}", known.join(", ")),
                })
                .into()
        })
    }

    /// The CA that is saved for a URL: in this context, or else in any.
    pub(crate) fn ca_of(&self, url: &str, first: Option<&NamedContext>) -> Option<&str> {
        let of = |context: &&NamedContext| is_same(&context.url, url) && context.ca.is_some();
        let context = self
            .contexts
            .values()
            .find(|context| of(context) && first.is_some_and(|first| first == *context));
        let context = context.or_else(|| self.contexts.values().find(of))?;
        context.ca.as_deref()
    }

    /// The name of the context for this URL, the current one first.
    pub(crate) fn name_of(&self, url: &str) -> Option<&str> {
        let mut names = self.contexts.iter().filter(|(_, context)| is_same(&context.url, url));
        let current = self.current.as_ref();
        let (first, _) = names.clone().find(|(name, _)| current == Some(name)).or(names.next())?;
        Some(first)
    }

    pub(crate) fn current(&self) -> Result<Option<&NamedContext>> {
        self.current.as_deref().map(|name| self.context(name)).transpose()
    }
}

/// Whether two base URLs, or lists of them, are of one service: a list is of one service, so one
/// URL in common is enough.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    base_urls(one).any(|url| base_urls(other).any(|other| url.eq_ignore_ascii_case(other)))
}

/// Whether the first list has all URLs of the other.
pub(crate) fn covers(one: &str, other: &str) -> bool {
    base_urls(other).all(|url| is_same(one, url))
}

/// Replaces a file atomically, and creates its directory: a crash leaves the old one or the new one.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let fresh = path.with_extension("yaml.new");
    // One that a crash left may have another mode.
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_survives_a_round_trip() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/config.yaml");
        let lab = NamedContext { url: "http://lab:1234".to_owned(), namespace: None, ca: None };
        let config = ConfigFile {
            current: Some("lab".to_owned()),
            contexts: BTreeMap::from([("lab".to_owned(), lab)]),
        };
        config.save(&path).unwrap();
        assert_eq!(ConfigFile::load(&path, true).unwrap(), config);
    }

    #[test]
    fn an_unknown_key_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, "contexts:\n  lab:\n    url: http://lab\n    namspace: a\n").unwrap();
        let error = ConfigFile::load(&path, true).unwrap_err().to_string();
        assert!(error.contains("namspace"), "{error}");
    }

    #[test]
    fn an_unknown_context_is_refused() {
        let config: ConfigFile =
            yaml_serde::from_str("current: x\ncontexts: {lab: {url: 'http://lab'}}").unwrap();
        let error = config.current().unwrap_err();
        assert_eq!(error.to_string(), "there is no context 'x'");
    }

    #[test]
    fn lists_that_share_a_url_are_of_one_service() {
        let pair = "http://a:1, http://b:2/";
        for (other, same, covered) in [
            ("http://B:2", true, true),
            ("http://b:2,http://a:1", true, true),
            ("http://b:2,http://c:3", true, false),
            ("http://c:3", false, false),
        ] {
            assert_eq!((is_same(pair, other), covers(pair, other)), (same, covered), "{other}");
        }
    }
}
