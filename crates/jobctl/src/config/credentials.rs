//! Tokens, by the URL of their service; a separate file, so that contexts can be shared.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api_client::base_urls;
use serde::{Deserialize, Serialize};

use super::file::replace;
use crate::exit::UsageError;

const FILE_MODE: u32 = 0o600;

/// What others may do with a file.
const FOR_OTHERS: u32 = 0o077;

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CredentialsFile {
    /// By base URL.
    tokens: BTreeMap<String, String>,
}

/// Next to the configuration file.
pub(crate) fn credentials_path(config: &Path) -> PathBuf {
    config.with_file_name("credentials.yaml")
}

/// The token in a file: the first line.
pub(crate) fn read_token(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError::new(format!("read {}: {error}", path.display())))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(UsageError::new(format!("{} has no token", path.display())).into());
    }
    Ok(token.to_owned())
}

// === impl CredentialsFile ===

impl CredentialsFile {
    /// An absent file is empty; one that others can read is refused, since it has secrets.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(UsageError::new(error.to_string()).into()),
        };
        let mode = std::fs::metadata(path)
            .context("check the permissions of the file")?
            .permissions()
            .mode();
        if mode & FOR_OTHERS != 0 {
            let message = format!("{} can be read by others", path.display());
            let hint = format!("chmod 600 {}", path.display());
            return Err(UsageError::new(message).with_hint(hint).into());
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        yaml_serde::from_str(&text).map_err(|error| UsageError::new(error.to_string()).into())
    }

    /// The token that was kept for this URL or list, or else for one that has a URL in common with
    /// it: a list is of one service.
    pub(crate) fn token(&self, url: &str) -> Option<&str> {
        let same = || self.tokens.iter().find(|(kept, _)| is_shared(kept, url));
        let found = self.tokens.get_key_value(&key(url)).or_else(same);
        found.map(|(_, token)| token.as_str())
    }

    /// Replaces what was kept for any of the URLs.
    pub(crate) fn set(&mut self, url: &str, token: String) {
        self.remove(url);
        self.tokens.insert(key(url), token);
    }

    pub(crate) fn remove(&mut self, url: &str) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|kept, _| !is_shared(kept, url));
        self.tokens.len() < before
    }

    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = yaml_serde::to_string(self).context("write YAML")?;
        replace(path, &text, FILE_MODE)
            .with_context(|| format!("write the credentials {}", path.display()))
    }
}

fn key(url: &str) -> String {
    base_urls(url).collect::<Vec<_>>().join(",")
}

/// Unlike other comparisons of URLs, with regard to case: paths of two services may differ in it.
fn is_shared(one: &str, other: &str) -> bool {
    base_urls(one).any(|url| base_urls(other).any(|other| url == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_kept_by_url_in_a_private_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/credentials.yaml");
        let mut file = CredentialsFile::default();
        file.set("https://lab:1234/", "secret".to_owned());
        file.save(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut file = CredentialsFile::load(&path).unwrap();
        assert_eq!(file.token("https://lab:1234"), Some("secret"));
        assert_eq!(file.token("https://other:1234"), None);
        assert!(file.remove("https://lab:1234") && !file.remove("https://lab:1234"));

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = CredentialsFile::load(&path).err().unwrap().to_string();
        assert!(error.contains("can be read by others"), "{error}");
    }
    #[test]
    fn a_token_is_for_all_urls_of_its_service() {
        let mut file = CredentialsFile::default();
        file.set("https://a:1", "old".to_owned());
        file.set("https://a:1/, https://b:2", "new".to_owned());
        for url in
            ["https://a:1", "https://b:2/", "https://b:2,https://a:1", "https://b:2,https://c:3"]
        {
            assert_eq!(file.token(url), Some("new"), "{url}");
        }
        assert_eq!(file.token("https://c:3"), None);
        assert!(file.remove("https://b:2"));
        assert_eq!(file.token("https://a:1"), None);
    }
}
