//! The configuration file: named contexts in YAML, and the name of the current one.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::exit::UsageError;

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

    /// Replaces the file atomically: a crash leaves the old or the new one.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("create the directory {}", folder.display()))?;
        }
        let text = yaml_serde::to_string(self).context("write YAML")?;
        let fresh = path.with_extension("yaml.new");
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&fresh, path)
        };
        write().with_context(|| format!("write the configuration {}", path.display()))
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

    pub(crate) fn current(&self) -> Result<Option<&NamedContext>> {
        self.current.as_deref().map(|name| self.context(name)).transpose()
    }
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
}
