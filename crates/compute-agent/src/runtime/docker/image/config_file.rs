//! The configuration of docker's command line: what `docker login` stored, and credential helpers.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use tracing::debug;

use super::helper;
use super::login::Login;
use super::reference::registry_of_key;
use crate::host::settings::Secret;

/// None where the path is empty.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
}

/// The part of the file that matters here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Contents {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: String,
}

/// The entry of one registry.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    /// Base64 of `username:password`.
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

// === impl ConfigFile ===

impl ConfigFile {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The login for this registry, if known; or why it cannot be determined.
    pub(super) async fn login(&self, registry: &str) -> Result<Option<Login>, String> {
        let contents = self.read().await?;
        let written = contents.login(registry).map_err(|reason| self.trouble(&reason));
        let Some(program) = contents.helper(registry) else { return written };
        match helper::get(Path::new(&program), registry).await {
            Ok(Some(login)) => Ok(Some(login)),
            Ok(None) => written,
            Err(reason) => match written {
                Ok(Some(login)) => {
                    debug!(
                        registry,
                        reason, "using the credentials in docker's configuration file"
                    );
                    Ok(Some(login))
                }
                _ => Err(reason),
            },
        }
    }

    /// A missing file is an empty one.
    async fn read(&self) -> Result<Contents, String> {
        if self.path.as_os_str().is_empty() {
            return Ok(Contents::default());
        }
        match tokio::fs::read(&self.path).await {
            // serde's own message would repeat the content.
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                self.trouble(&format!("line {} is not in docker's format", error.line()))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Contents::default()),
            Err(error) => Err(self.trouble(&error.to_string())),
        }
    }

    fn trouble(&self, reason: &str) -> String {
        format!("cannot read docker's configuration {}: {reason}", self.path.display())
    }
}

// === impl Contents ===

impl Contents {
    /// The helper to ask.
    fn helper(&self, registry: &str) -> Option<String> {
        let own = of_registry(&self.cred_helpers, registry);
        let name = own.unwrap_or(&self.creds_store);
        (!name.is_empty()).then(|| format!("docker-credential-{name}"))
    }

    fn login(&self, registry: &str) -> Result<Option<Login>, String> {
        let Some(auth) = of_registry(&self.auths, registry) else { return Ok(None) };
        if !auth.identitytoken.is_empty() {
            return Ok(Some(Login::IdentityToken(Secret::new(&auth.identitytoken))));
        }
        let broken = || format!("'auth' of {registry} is not base64 of username:password");
        let (username, password) = match auth.auth.is_empty() {
            true => (auth.username.clone(), auth.password.clone()),
            false => {
                let bytes = BASE64_STANDARD.decode(&auth.auth).map_err(|_| broken())?;
                let text = String::from_utf8(bytes).map_err(|_| broken())?;
                let (username, password) = text.split_once(':').ok_or_else(broken)?;
                // Docker itself once wrote such zeros.
                (username.to_owned(), password.trim_end_matches('\0').to_owned())
            }
        };
        // Where a helper stores the credentials, docker leaves an empty entry.
        if username.is_empty() {
            return Ok(None);
        }
        Ok(Some(Login::Password { username, password: Secret::new(password) }))
    }
}

/// The value whose key means this registry.
fn of_registry<'a, T>(map: &'a BTreeMap<String, T>, registry: &str) -> Option<&'a T> {
    map.iter().find(|(key, _)| registry_of_key(key) == registry).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn login(text: &str, registry: &str) -> Result<Option<Login>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        ConfigFile::new(&path).login(registry).await
    }

    fn password(username: &str, password: &str) -> Login {
        Login::Password { username: username.to_owned(), password: Secret::new(password) }
    }

    #[tokio::test]
    async fn what_docker_login_wrote_is_read() {
        let text = r#"{
            "auths": {
                "https://index.docker.io/v1/": { "auth": "YWRhOmh1c2g6aHVzaA==" },
                "host:5000": { "username": "bob", "password": "p" },
                "token.example.com": { "auth": "MDA6", "identitytoken": "t" },
                "kept.example.com": {}
            },
            "HttpHeaders": { "User-Agent": "x" }
        }"#;
        assert_eq!(login(text, "docker.io").await, Ok(Some(password("ada", "hush:hush"))));
        assert_eq!(login(text, "host:5000").await, Ok(Some(password("bob", "p"))));
        let token = Login::IdentityToken(Secret::new("t"));
        assert_eq!(login(text, "token.example.com").await, Ok(Some(token)));
        assert_eq!(login(text, "kept.example.com").await, Ok(None));
        assert_eq!(login(text, "other.example.com").await, Ok(None));
    }

    #[tokio::test]
    async fn an_unreadable_file_is_reported_without_its_content() {
        for text in [
            "{\"auths\": {\"host\": \"hush\"}}",
            "{\"auths\": {\"host\": {\"auth\": \"aHVzaA==\"}}}",
            "{\"auths\": {\"host\": {\"auth\": \"hush!\"}}}",
            "hush",
        ] {
            let trouble = login(text, "host").await.unwrap_err();
            assert!(trouble.contains("cannot read docker's configuration "), "{trouble}");
            assert!(!trouble.contains("hush") && !trouble.contains("aHVzaA"), "{trouble}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(ConfigFile::new(dir.path()).login("host").await.is_err());
        let missing = ConfigFile::new(&dir.path().join("config.json"));
        assert_eq!(missing.login("host").await, Ok(None));
        assert_eq!(ConfigFile::new(Path::new("")).login("host").await, Ok(None));
    }

    #[tokio::test]
    async fn a_registrys_helper_precedes_the_store_and_the_file_comes_last() {
        let text = r#"{
            "auths": { "host": { "auth": "YWRhOmh1c2g=" } },
            "credHelpers": { "https://host/v1/": "absent-own" },
            "credsStore": "absent-store"
        }"#;
        let contents: Contents = serde_json::from_str(text).unwrap();
        assert_eq!(contents.helper("host").unwrap(), "docker-credential-absent-own");
        assert_eq!(contents.helper("other").unwrap(), "docker-credential-absent-store");
        assert_eq!(login(text, "host").await, Ok(Some(password("ada", "hush"))));
        let trouble = login(text, "other").await.unwrap_err();
        assert!(trouble.contains("'docker-credential-absent-store'"), "{trouble}");
    }
}
