//! The agent's registry credentials, from its settings or docker's own configuration.
//!
//! Both are read before every pull, so that a `docker login` or a new password file takes effect
//! immediately. Unavailable credentials do not block a public image: the pull continues without
//! them, and the error mentions the problem if the registry then refuses.

use std::collections::BTreeMap;

use api_types::credential::CredentialValue;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE;
use http::HeaderValue;
use serde_json::json;
use tracing::warn;

use super::config_file::ConfigFile;
use super::login::{ADDRESS_OF_THE_HUB, Login};
use super::reference::{DOCKER_HUB, registry_of_key};
use crate::host::settings::{DockerSettings, RegistryCredentials, Secret};

#[derive(Debug)]
pub(super) struct Credentials {
    /// By registry, as image names write it.
    settings: BTreeMap<String, RegistryCredentials>,
    config_file: ConfigFile,
}

/// What is known about a registry: its login, or why the login is unknown.
#[derive(Debug, Default, Clone)]
pub(super) struct RegistryLogin {
    pub(super) login: Option<Login>,
    pub(super) trouble: Option<String>,
    /// The credentials of the job's namespace that the login is from.
    pub(super) named: Option<String>,
}

// === impl RegistryLogin ===

impl RegistryLogin {
    /// The login of credentials that a job names, for their registry.
    pub(super) fn named(value: &CredentialValue) -> Self {
        let login = Login::Password {
            username: value.login.username.clone(),
            password: Secret::new(&value.login.password),
        };
        Self { login: Some(login), trouble: None, named: Some(value.name.clone()) }
    }
}

// === impl Credentials ===

impl Credentials {
    pub(super) fn new(settings: &DockerSettings) -> Self {
        let by_registry =
            |(key, value): (&String, &RegistryCredentials)| (registry_of_key(key), value.clone());
        Self {
            settings: settings.credentials.iter().map(by_registry).collect(),
            config_file: ConfigFile::new(&settings.config_file),
        }
    }

    pub(super) async fn for_registry(&self, registry: &str) -> RegistryLogin {
        let found = match self.settings.get(registry) {
            Some(credentials) => of_settings(credentials).await.map(Some),
            None => self.config_file.login(registry).await,
        };
        match found {
            Ok(login) => RegistryLogin { login, ..RegistryLogin::default() },
            Err(trouble) => {
                warn!(registry, trouble, "cannot get the credentials of a registry");
                RegistryLogin { trouble: Some(trouble), ..RegistryLogin::default() }
            }
        }
    }
}

async fn of_settings(credentials: &RegistryCredentials) -> Result<Login, String> {
    if let Some(token) = &credentials.identity_token {
        return Ok(Login::IdentityToken(token.clone()));
    }
    let password = match (&credentials.password, &credentials.password_file) {
        (Some(password), _) => password.clone(),
        (None, Some(path)) => {
            let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                format!("cannot read the password file {}: {error}", path.display())
            })?;
            Secret::new(text.trim_end_matches(['\r', '\n']))
        }
        (None, None) => return Err("the settings give no password".to_owned()),
    };
    Ok(Login::Password { username: credentials.username.clone(), password })
}

// === impl Login ===

impl Login {
    /// The value of `X-Registry-Auth` that the Engine expects.
    pub(super) fn header(&self, registry: &str) -> HeaderValue {
        let address = if registry == DOCKER_HUB { ADDRESS_OF_THE_HUB } else { registry };
        let body = match self {
            Self::Password { username, password } => json!({
                "username": username, "password": password.reveal(), "serveraddress": address,
            }),
            Self::IdentityToken(token) => {
                json!({ "identitytoken": token.reveal(), "serveraddress": address })
            }
        };
        let mut value = HeaderValue::from_str(&BASE64_URL_SAFE.encode(body.to_string()))
            .expect("base64 is made of letters that headers may have");
        value.set_sensitive(true);
        value
    }

    /// The text without the secret, in case its author repeats it.
    pub(super) fn hide(&self, text: &str) -> String {
        let (Self::Password { password: secret, .. } | Self::IdentityToken(secret)) = self;
        match secret.reveal() {
            "" => text.to_owned(),
            secret => text.replace(secret, "(secret)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(password: &str) -> Login {
        Login::Password { username: "ada".to_owned(), password: Secret::new(password) }
    }

    #[test]
    fn the_engine_is_handed_url_safe_base64() {
        // `?` and `>` distinguish the two alphabets.
        for secret in ["a?>~b", "?a>~b", "??a>~", "pässwörd"] {
            let header = password(secret).header("host:5000");
            assert!(header.is_sensitive());
            let text = BASE64_URL_SAFE.decode(header.as_bytes()).unwrap();
            let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let wanted =
                json!({ "username": "ada", "password": secret, "serveraddress": "host:5000" });
            assert_eq!(read, wanted);
        }
        let token = Login::IdentityToken(Secret::new("t")).header(DOCKER_HUB);
        let text = BASE64_URL_SAFE.decode(token.as_bytes()).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, json!({ "identitytoken": "t", "serveraddress": ADDRESS_OF_THE_HUB }));
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_appears() {
        assert_eq!(password("hush").hide("no hush for ada"), "no (secret) for ada");
        assert_eq!(password("").hide("as it was"), "as it was");
        assert!(!format!("{:?}", password("hush")).contains("hush"));
    }

    #[tokio::test]
    async fn a_password_file_is_read_at_every_pull() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let credentials = RegistryCredentials {
            username: "ada".to_owned(),
            password_file: Some(file.clone()),
            ..RegistryCredentials::default()
        };
        let settings = DockerSettings {
            credentials: BTreeMap::from([("https://host:5000/v2/".to_owned(), credentials)]),
            config_file: std::path::PathBuf::new(),
            ..DockerSettings::default()
        };
        let credentials = Credentials::new(&settings);
        let trouble = credentials.for_registry("host:5000").await.trouble.unwrap();
        assert!(trouble.contains(&file.display().to_string()), "{trouble}");
        for secret in ["one", "two"] {
            std::fs::write(&file, format!("{secret}\n")).unwrap();
            assert_eq!(credentials.for_registry("host:5000").await.login, Some(password(secret)));
        }
        let other = credentials.for_registry("host:5001").await;
        assert!(other.login.is_none() && other.trouble.is_none(), "{other:?}");
    }
}
