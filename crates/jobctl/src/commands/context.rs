//! `jobctl context …`: the named contexts of the configuration file.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

use super::Exit;
use crate::cli::{ContextCommand, Global};
use crate::config::{ConfigFile, Environment, NamedContext, Target, config_path, is_digest, trust};
use crate::exit::UsageError;
use crate::output::{Cell, Layout, Listed, Out};

#[derive(Debug, Serialize)]
struct Row<'a> {
    name: &'a str,
    current: bool,
    #[serde(flatten)]
    context: &'a NamedContext,
}

pub(super) fn run(out: Out, global: &Global, command: &ContextCommand) -> Result<Exit> {
    let (path, mut config) = load(global, command)?;
    match command {
        ContextCommand::List(output) => {
            let rows: Vec<_> = config
                .contexts
                .iter()
                .map(|(name, context)| Row {
                    name,
                    current: config.current.as_ref() == Some(name),
                    context,
                })
                .collect();
            out.list(output.format, &Layout::of(output.format), &rows)?;
        }
        ContextCommand::Use { name } => {
            config.context(name)?;
            config.current = Some(name.clone());
            config.save(&path)?;
            out.line(&format!("current context: {name}"))?;
        }
        ContextCommand::Set { name, namespace } => {
            set(&mut config, name, global, namespace.as_deref())?;
            config.save(&path)?;
            out.line(&format!("context {name} is set"))?;
        }
        ContextCommand::Delete { name } => {
            config.context(name)?;
            config.contexts.remove(name);
            if config.current.as_ref() == Some(name) {
                config.current = None;
            }
            config.save(&path)?;
            out.line(&format!("context {name} is deleted"))?;
        }
    }
    Ok(Exit::Done)
}

/// Keeps the service of a login in a context, unless later commands find it without; says so.
pub(super) fn keep(global: &Global, target: &Target) -> Result<Option<String>> {
    let environment = Environment::read();
    let given = Global {
        context: global.context.clone(),
        config: global.config.clone(),
        ..Global::default()
    };
    let later = Target::choose(&given, &environment)?;
    if later.url == target.url && later.ca == target.ca {
        return Ok(None);
    }
    let (path, named) = config_path(global, &environment).ok_or_else(no_configuration)?;
    let mut config = ConfigFile::load(&path, named && path.exists())
        .with_context(|| format!("read the configuration {}", path.display()))?;
    let host = target.url.rsplit('/').find(|part| !part.is_empty());
    let name = global.context.as_deref().or(host).unwrap_or(&target.url);
    let kept = config.contexts.get(name).and_then(|context| context.namespace.clone());
    let ca = target.ca.as_deref().map(lasting).transpose()?;
    let context = NamedContext { url: target.url.clone(), namespace: kept, ca };
    config.contexts.insert(name.to_owned(), context);
    let is_current = config.current.get_or_insert_with(|| name.to_owned()) == name;
    config.save(&path)?;
    Ok(Some(match is_current && environment.url.is_none() {
        true => format!("context {name} is set, and later commands use it"),
        false => format!("context {name} is set; use it with --context {name}"),
    }))
}

/// A CA that means the same in every directory.
fn lasting(ca: &str) -> Result<String> {
    if is_digest(ca) {
        return Ok(ca.to_owned());
    }
    let path = std::path::absolute(ca).context("find the working directory")?;
    Ok(path.to_string_lossy().into_owned())
}

pub(super) fn no_configuration() -> UsageError {
    UsageError::new("neither HOME nor XDG_CONFIG_HOME is set")
        .with_hint("specify the configuration file with --config or JOBCTL_CONFIG")
}

/// The file may be absent before `set` creates it.
fn load(global: &Global, command: &ContextCommand) -> Result<(PathBuf, ConfigFile)> {
    let (path, named) = config_path(global, &Environment::read()).ok_or_else(no_configuration)?;
    let needed = named && !matches!(command, ContextCommand::Set { .. });
    let config = ConfigFile::load(&path, needed)
        .with_context(|| format!("read the configuration {}", path.display()))?;
    Ok((path, config))
}

/// Adds or changes a context. The only context of a file becomes the current one.
fn set(
    config: &mut ConfigFile,
    name: &str,
    global: &Global,
    namespace: Option<&str>,
) -> Result<()> {
    let url = global.url.as_deref();
    if let Some(url) = url {
        api_client::Client::new(url).map_err(|error| UsageError::new(error.to_string()))?;
    }
    let ca = global.ca.as_deref().map(|ca| trust(ca).and_then(|_| lasting(ca))).transpose()?;
    match (config.contexts.get_mut(name), url) {
        (Some(context), url) => {
            if let Some(url) = url {
                url.clone_into(&mut context.url);
            }
            if let Some(namespace) = namespace {
                context.namespace = Some(namespace.to_owned());
            }
            if ca.is_some() {
                context.ca = ca;
            }
        }
        (None, Some(url)) => {
            let context =
                NamedContext { url: url.to_owned(), namespace: namespace.map(str::to_owned), ca };
            config.contexts.insert(name.to_owned(), context);
        }
        (None, None) => {
            return Err(UsageError::new(format!("context {name} is new and needs --url")).into());
        }
    }
    if config.contexts.len() == 1 {
        config.current = Some(name.to_owned());
    }
    Ok(())
}

impl Listed for Row<'_> {
    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["CURRENT", "NAME", "URL", "NAMESPACE"]
    }

    fn cells(&self, _: &Layout) -> Vec<Cell> {
        vec![
            Cell::plain(if self.current { "*" } else { "" }),
            Cell::plain(self.name),
            Cell::plain(&self.context.url),
            Cell::plain(self.context.namespace.as_deref().unwrap_or("-")),
        ]
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }
}
