//! `jobctl context …`: the named contexts of the configuration file.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

use super::Exit;
use crate::cli::{ContextCommand, Global};
use crate::config::{ConfigFile, Environment, NamedContext, config_path, trust};
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

/// The file may be absent before `set` creates it.
fn load(global: &Global, command: &ContextCommand) -> Result<(PathBuf, ConfigFile)> {
    let (path, named) = config_path(global, &Environment::read()).ok_or_else(|| {
        UsageError::new("neither HOME nor XDG_CONFIG_HOME is set")
            .with_hint("specify the configuration file with --config or JOBCTL_CONFIG")
    })?;
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
    if let Some(ca) = &global.ca {
        trust(ca)?;
    }
    match (config.contexts.get_mut(name), url) {
        (Some(context), url) => {
            if let Some(url) = url {
                url.clone_into(&mut context.url);
            }
            if let Some(namespace) = namespace {
                context.namespace = Some(namespace.to_owned());
            }
            if global.ca.is_some() {
                context.ca.clone_from(&global.ca);
            }
        }
        (None, Some(url)) => {
            let context = NamedContext {
                url: url.to_owned(),
                namespace: namespace.map(str::to_owned),
                ca: global.ca.clone(),
            };
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
