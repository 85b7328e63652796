//! The choice of the service: by flag, environment, configuration file, or default.

mod file;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cli::Global;
use crate::exit::UsageError;

pub(crate) use file::{ConfigFile, NamedContext};

/// The environment variable with the base URL.
pub(crate) const URL_VARIABLE: &str = "JOBCTL_URL";

/// The environment variable with the path of the configuration file.
pub(crate) const CONFIG_VARIABLE: &str = "JOBCTL_CONFIG";

/// The default address of an orchestrator.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:1234";

/// The service, and the default namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) namespace: Option<String>,
}

/// Variables of the environment; empty ones count as absent.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) url: Option<String>,
    pub(crate) config: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, or `.config` in the home directory.
    pub(crate) config_home: Option<PathBuf>,
}

// === impl Environment ===

impl Environment {
    pub(crate) fn read() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            url: variable(URL_VARIABLE).map(|url| url.to_string_lossy().into_owned()),
            config: variable(CONFIG_VARIABLE).map(PathBuf::from),
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
        let config = match config_path(global, environment) {
            Some((path, named)) => ConfigFile::load(&path, named)
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
        Ok(Self { url, namespace: context.and_then(|context| context.namespace.clone()) })
    }

    pub(crate) fn client(&self) -> Result<api_client::Client> {
        api_client::Client::new(&self.url).map_err(|error| {
            UsageError::new(error.to_string())
                .with_hint("a base URL looks like http://127.0.0.1:1234")
                .into()
        })
    }
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
        Target { url: url.to_owned(), namespace: namespace.map(str::to_owned) }
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
