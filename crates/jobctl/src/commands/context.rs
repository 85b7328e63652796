//! `jobctl context …`: the named contexts of the configuration file.

use std::path::PathBuf;

use anyhow::{Context, Result};
use api_client::base_urls;
use api_types::job::DEFAULT_NAMESPACE;
use serde::Serialize;

use crate::cli::{ContextCommand, ContextShowArgs, Global};
use crate::config::{
    ConfigFile, Environment, NamedContext, Target, URL_VARIABLE, config_path, covers, is_digest,
    is_same, trust,
};
use crate::exit::{Exit, UsageError};
use crate::output::{Cell, Fields, Layout, Listed, Out};

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
            out.list(output.format, &Layout::for_format(output.format), &rows)?;
        }
        ContextCommand::Show(args) => show(out, global, &config, args)?,
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

/// Makes the context of the service that a login was for the current one; says so, unless later
/// commands find the service anyway.
pub(super) fn keep(global: &Global, target: &Target) -> Result<Option<String>> {
    let environment = Environment::read();
    let given = Global { config: global.config.clone(), ..Global::default() };
    let later = Target::choose(&given, &environment)?;
    if covers(&later.url, &target.url) && later.ca == target.ca {
        return Ok(None);
    }
    let (path, named) = config_path(global, &environment).ok_or_else(no_configuration)?;
    let mut config = ConfigFile::load(&path, named && path.exists())
        .with_context(|| format!("read the configuration {}", path.display()))?;
    let name = match &global.context {
        Some(name) => name.clone(),
        None => name_for(&config, &target.url),
    };
    let kept = config.contexts.get(&name).and_then(|context| context.namespace.clone());
    let ca = target.ca.as_deref().map(lasting).transpose()?;
    let context = NamedContext { url: target.url.clone(), namespace: kept, ca };
    config.contexts.insert(name.clone(), context);
    config.current = Some(name.clone());
    config.save(&path)?;
    Ok(Some(match &environment.url {
        None => format!("context {name} is the current one now: later commands use it"),
        Some(url) => format!(
            "context {name} is the current one now, but JOBCTL_URL ({url}) takes precedence"
        ),
    }))
}

/// The context that has this URL; otherwise a new one with the name of its host, unless that is
/// taken.
fn name_for(config: &ConfigFile, url: &str) -> String {
    if let Some(name) = config.name_of(url) {
        return name.to_owned();
    }
    let first = base_urls(url).next().unwrap_or(url);
    let host = first.rsplit('/').find(|part| !part.is_empty());
    let free = host.filter(|host| !config.contexts.contains_key(*host));
    free.unwrap_or(url).to_owned()
}

/// What commands use, and where it comes from.
#[derive(Debug, Serialize)]
struct Shown {
    context: Option<String>,
    url: String,
    source: &'static str,
    ca: Option<String>,
    namespace: Option<String>,
    signed_in: bool,
}

fn show(out: Out, global: &Global, config: &ConfigFile, args: &ContextShowArgs) -> Result<()> {
    let context = args.name.clone().or_else(|| global.context.clone());
    let global = Global { context, ..global.clone() };
    let environment = Environment::read();
    let target = Target::choose(&global, &environment)?;
    let source = match (&global.url, &global.context, &environment.url, &config.current) {
        (Some(_), ..) => "--url",
        (None, Some(_), ..) => "the context",
        (None, None, Some(_), _) => URL_VARIABLE,
        (None, None, None, Some(_)) => "the current context",
        (None, None, None, None) => "the default",
    };
    let name = global.context.or_else(|| config.current.clone());
    let is_of_context = |name: &String| {
        config.contexts.get(name).is_some_and(|context| is_same(&context.url, &target.url))
    };
    let shown = Shown {
        context: name.filter(is_of_context),
        url: target.url,
        source,
        ca: target.ca,
        namespace: target.namespace,
        signed_in: target.token.is_some(),
    };
    let text = || {
        let mut fields = Fields::default();
        fields
            .add("Context", shown.context.as_deref().unwrap_or("-"))
            .add("URL", format!("{} (from {source})", shown.url))
            .add("CA", shown.ca.as_deref().unwrap_or("those of the system"))
            .add("Namespace", shown.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE))
            .add("Token", if shown.signed_in { "kept" } else { "none" });
        fields.render(out.colours())
    };
    out.record(args.output.format, &shown, shown.context.as_deref().unwrap_or(&shown.url), text)
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
                if !is_same(&context.url, url) {
                    // It was saved for the former one.
                    context.ca = None;
                }
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
    const NOUN: &'static str = "contexts: 'jobctl context set NAME --url URL' makes one";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        match layout.wide {
            true => vec!["CURRENT", "NAME", "URL", "NAMESPACE", "CA"],
            false => vec!["CURRENT", "NAME", "URL", "NAMESPACE"],
        }
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let mut cells = vec![
            Cell::plain(if self.current { "*" } else { "" }),
            Cell::plain(self.name),
            Cell::plain(&self.context.url),
            Cell::plain(self.context.namespace.as_deref().unwrap_or("-")),
        ];
        if layout.wide {
            cells.push(Cell::plain(self.context.ca.as_deref().unwrap_or("-")));
        }
        cells
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }
}
