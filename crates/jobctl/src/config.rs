//! The choice of the service: by flag, environment, configuration file, or default.

mod credentials;
mod file;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api_client::{Credentials, Options, Trust};
use api_types::trust::InvalidDigest;

use crate::cli::Global;
use crate::exit::UsageError;

pub(crate) use credentials::{CredentialsFile, credentials_path, read_token};
pub(crate) use file::{ConfigFile, NamedContext, covers, is_same};

/// The environment variable with the base URL.
pub(crate) const URL_VARIABLE: &str = "JOBCTL_URL";

/// The environment variable with the path of the configuration file.
pub(crate) const CONFIG_VARIABLE: &str = "JOBCTL_CONFIG";

/// The environment variable with the path of a file that has a token.
pub(crate) const TOKEN_FILE_VARIABLE: &str = "JOBCTL_TOKEN_FILE";

/// The environment variable with the CA, in the form of `--ca`.
pub(crate) const CA_VARIABLE: &str = "JOBCTL_CA";

/// Begins the digest of a CA's key.
const SHA256: &str = "sha256:";

/// The default address of an orchestrator.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:1234";

/// The same with TLS.
const DEFAULT_TLS_URL: &str = "https://127.0.0.1:1234";

/// The CA of an orchestrator, in its data directory, next to the first token.
const CA_FILE: &str = "ca.crt";

/// The service, what proves who each side is, and the default namespace.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) namespace: Option<String>,
    /// A file in PEM, or `sha256:` and the digest of a key.
    pub(crate) ca: Option<String>,
    pub(crate) token: Option<String>,
}

/// Variables of the environment; empty ones count as absent.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) url: Option<String>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca: Option<String>,
    /// `XDG_CONFIG_HOME`, or `.config` in the home directory.
    pub(crate) config_home: Option<PathBuf>,
}

// === impl Environment ===

impl Environment {
    pub(crate) fn read() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            url: variable(URL_VARIABLE).map(|url| url.to_string_lossy().into_owned()),
            ca: variable(CA_VARIABLE).map(|ca| ca.to_string_lossy().into_owned()),
            config: variable(CONFIG_VARIABLE).map(PathBuf::from),
            token_file: variable(TOKEN_FILE_VARIABLE).map(PathBuf::from),
            config_home: variable("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config"))),
        }
    }
}

/// The path of the configuration file, and whether the user named it: a named file must exist.
pub(crate) fn config_path(global: &Global, environment: &Environment) -> Option<(PathBuf, bool)> {
    let named = global.config.as_ref().or(environment.config.as_ref());
    let default = || environment.config_home.as_ref().map(|home| home.join("jobctl/config.yaml"));
    named.map(|path| (path.clone(), true)).or_else(|| default().map(|path| (path, false)))
}

impl Target {
    /// `--url`, then the context of `--context`, then `JOBCTL_URL`, then the current context.
    pub(crate) fn choose(global: &Global, environment: &Environment) -> Result<Self> {
        let path = config_path(global, environment);
        let config = match &path {
            Some((path, named)) => ConfigFile::load(path, *named)
                .with_context(|| format!("read the configuration {}", path.display()))?,
            None => ConfigFile::default(),
        };
        let context = match &global.context {
            Some(name) => Some(config.context(name)?),
            None => config.current()?,
        };
        let of_context = context.map(|context| context.url.clone());
        let named_context = of_context.clone().filter(|_| global.context.is_some());
        let url = global
            .url
            .clone()
            .or(named_context)
            .or_else(|| environment.url.clone())
            .or(of_context)
            .unwrap_or_else(|| DEFAULT_URL.to_owned());
        let of_context = |field: fn(&NamedContext) -> &Option<String>| {
            context.and_then(|context| field(context).clone())
        };
        // A CA belongs to the URL that it was saved with, as the token does.
        let of_named = of_context(|context| &context.ca)
            .filter(|_| global.context.is_some())
            .filter(|_| context.is_some_and(|context| is_same(&context.url, &url)));
        let of_environment = environment
            .ca
            .clone()
            .filter(|_| environment.url.as_ref().is_none_or(|of| is_same(of, &url)));
        let ca = global.ca.clone().or(of_named).or(of_environment);
        let ca = ca.or_else(|| config.ca_of(&url, context).map(str::to_owned));
        let namespace = of_context(|context| &context.namespace);
        let token = match (&environment.token_file, path) {
            (Some(file), _) => Some(read_token(file)?),
            (None, Some((path, _))) => {
                let path = credentials_path(&path);
                let credentials = CredentialsFile::load(&path)
                    .with_context(|| format!("read the credentials {}", path.display()))?;
                credentials.token(&url).map(str::to_owned)
            }
            (None, None) => None,
        };
        Ok(Self { url, namespace, ca, token })
    }

    /// The service whose CA lies next to this token file, as in the data directory of an
    /// orchestrator. That is later news than a context has: the service may have been made anew.
    pub(crate) fn next_to(self, token_file: &Path) -> Result<Self> {
        let is_default = self.url == DEFAULT_URL;
        let path = token_file.with_file_name(CA_FILE);
        if !(is_default || self.url.starts_with("https://")) || !path.exists() {
            return Ok(self);
        }
        let pem = std::fs::read_to_string(&path)
            .map_err(|error| UsageError::new(format!("read {}: {error}", path.display())))?;
        let key = api_client::authority_key(&pem)
            .ok_or_else(|| UsageError::new(format!("{} is not a CA in PEM", path.display())))?;
        let url = if is_default { DEFAULT_TLS_URL.to_owned() } else { self.url };
        Ok(Self { url, ca: Some(format!("{SHA256}{key}")), ..self })
    }

    pub(crate) fn client(&self) -> Result<api_client::Client> {
        let credentials = match &self.token {
            Some(token) => Credentials::Bearer(token.clone()),
            None => Credentials::None,
        };
        let trust = self.ca.as_deref().map(trust).transpose()?.unwrap_or_default();
        let options =
            Options { base_url: self.url.clone(), trust, credentials, ..Options::default() };
        api_client::Client::with(options).map_err(|error| {
            UsageError::new(error.to_string())
                .with_hint(
                    "a base URL looks like http://127.0.0.1:1234; several are separated by commas",
                )
                .into()
        })
    }
}

/// Whether `--ca` has the digest of a key; it is a file otherwise.
pub(crate) fn is_digest(ca: &str) -> bool {
    ca.starts_with(SHA256)
}

/// What `--ca` names.
pub(crate) fn trust(ca: &str) -> Result<Trust> {
    if let Some(digest) = ca.strip_prefix(SHA256) {
        let digest =
            digest.parse().map_err(|error: InvalidDigest| UsageError::new(error.to_string()))?;
        return Ok(Trust::AuthorityKey(digest));
    }
    let text = std::fs::read_to_string(ca)
        .map_err(|error| UsageError::new(format!("read the CA {ca}: {error}")))?;
    Ok(Trust::Authority(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
current: lab
contexts:
  lab:
    url: http://lab:1234
    namespace: research
  home:
    url: http://home:1234
";

    fn chosen(global: Global, url: Option<&str>) -> Target {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, CONFIG).unwrap();
        let environment = Environment {
            url: url.map(str::to_owned),
            config: Some(path),
            ..Environment::default()
        };
        Target::choose(&global, &environment).unwrap()
    }

    fn target(url: &str, namespace: Option<&str>) -> Target {
        let namespace = namespace.map(str::to_owned);
        Target { url: url.to_owned(), namespace, ca: None, token: None }
    }

    #[test]
    fn a_flag_overrides_the_environment_which_overrides_the_file() {
        let flag = Global { url: Some("http://flag:1".to_owned()), ..Global::default() };
        let home = Global { context: Some("home".to_owned()), ..Global::default() };
        let both = Global { url: flag.url.clone(), ..home.clone() };
        let env = Some("http://env:1");
        assert_eq!(chosen(flag, env), target("http://flag:1", Some("research")));
        assert_eq!(chosen(both, env), target("http://flag:1", None));
        assert_eq!(chosen(home, env), target("http://home:1234", None));
        assert_eq!(chosen(Global::default(), env), target("http://env:1", Some("research")));
        assert_eq!(chosen(Global::default(), None), target("http://lab:1234", Some("research")));
    }

    #[test]
    fn the_default_is_the_address_of_a_local_orchestrator() {
        let target = Target::choose(&Global::default(), &Environment::default()).unwrap();
        assert_eq!(target.url, DEFAULT_URL);
    }

    #[test]
    fn a_ca_belongs_to_the_url_it_was_saved_with() {
        const CONTEXTS: [&str; 3] = [
            "  one: {url: 'https://one:1', ca: 'sha256:11'}\n",
            "  two: {url: 'https://two:1/', ca: 'sha256:22'}\n",
            "  plain: {url: 'http://plain:1'}\n",
        ];
        let services = [
            ("one", "https://one:1", Some("sha256:11")),
            ("two", "https://two:1", Some("sha256:22")),
            ("plain", "http://plain:1", None),
        ];
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let contexts: String = order.map(|at| CONTEXTS[at]).concat();
            for (current, ..) in services {
                std::fs::write(&path, format!("current: {current}\ncontexts:\n{contexts}"))
                    .unwrap();
                for (name, url, ca) in services {
                    let environment =
                        Environment { config: Some(path.clone()), ..Environment::default() };
                    let of_context = Global { context: Some(name.to_owned()), ..Global::default() };
                    let of_flag = Global { url: Some(url.to_owned()), ..Global::default() };
                    let of_variable =
                        Environment { url: Some(url.to_owned()), ..Environment::default() };
                    let of_variable = Environment { config: Some(path.clone()), ..of_variable };
                    for (global, environment) in [
                        (&of_context, &environment),
                        (&of_flag, &environment),
                        (&Global::default(), &of_variable),
                    ] {
                        let target = Target::choose(global, environment).unwrap();
                        assert!(is_same(&target.url, url), "{current}: {}", target.url);
                        assert_eq!(target.ca.as_deref(), ca, "{current}: {url}");
                    }
                    let other = Environment {
                        ca: Some("sha256:33".to_owned()),
                        url: Some("https://third:1".to_owned()),
                        ..environment
                    };
                    let target = Target::choose(&of_flag, &other).unwrap();
                    assert_eq!(target.ca.as_deref(), ca, "the variables belong together");
                }
            }
        }
    }

    #[test]
    fn a_named_file_must_exist() {
        let directory = tempfile::tempdir().unwrap();
        let absent = directory.path().join("absent.yaml");
        let environment = Environment { config: Some(absent), ..Environment::default() };
        assert!(Target::choose(&Global::default(), &environment).is_err());
        let usual = Environment {
            config_home: Some(directory.path().to_owned()),
            ..Environment::default()
        };
        assert!(Target::choose(&Global::default(), &usual).is_ok());
    }
}
