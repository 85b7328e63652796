//! `jobctl secret …`: values that jobs name and do not contain.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, Result};
use api_types::secret::{MAX_SECRET_BYTES, PutSecret};

use crate::cli::{NamespaceArgs, SecretCommand, SecretSetArgs};
use crate::exit::{Exit, UsageError};
use crate::output::Layout;
use crate::prompt::hidden_line;
use crate::session::{Session, each};
use crate::view::secret_fields;

pub(super) async fn run(session: &Session, command: &SecretCommand) -> Result<Exit> {
    match command {
        SecretCommand::List { namespace, output } => {
            let namespace = named(session, namespace);
            let secrets = session.client.list_secrets(namespace.as_deref()).await?.secrets;
            session.out.list(output.format, &Layout::for_format(output.format), &secrets)?;
            Ok(Exit::Done)
        }
        SecretCommand::Set(args) => set(session, args).await,
        SecretCommand::Describe { name, namespace, output } => {
            let (namespace, name) = place(session, namespace, name)?;
            let secret = session.client.describe_secret(namespace.as_deref(), name).await?;
            let text = || secret_fields(&secret).render(session.out.colours());
            session.out.record(output.format, &secret, &secret.name, text)?;
            Ok(Exit::Done)
        }
        SecretCommand::Delete { names, namespace } => {
            each(names, async |name| {
                let (of, name) = place(session, namespace, name)?;
                let secret = session.client.delete_secret(of.as_deref(), name).await?;
                let (namespace, name) = (secret.namespace, secret.name);
                session.out.line(&format!("secret {namespace}/{name} is deleted"))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}

async fn set(session: &Session, args: &SecretSetArgs) -> Result<Exit> {
    let (namespace, name) = place(session, &args.namespace, &args.name)?;
    let value = value(args.file.as_deref(), &format!("Value of {name}"))?;
    let body = PutSecret::of_bytes(&value);
    let secret = session.client.put_secret(namespace.as_deref(), name, &body).await?;
    let (namespace, name, version) = (secret.namespace, secret.name, secret.version);
    session.out.line(&format!("secret {namespace}/{name} is set (version {version})"))?;
    Ok(Exit::Done)
}

/// Namespace and name, the namespace from the name, the argument or the context.
pub(super) fn place<'a>(
    session: &Session,
    args: &NamespaceArgs,
    name: &'a str,
) -> Result<(Option<String>, &'a str)> {
    match (name.rsplit_once('/'), &args.namespace) {
        (Some(_), Some(_)) => {
            let problem = format!("'{name}' names a namespace, and --namespace another");
            Err(UsageError::new(problem).into())
        }
        (Some((namespace, name)), None) => Ok((Some(namespace.to_owned()), name)),
        (None, _) => Ok((named(session, args), name)),
    }
}

pub(super) fn named(session: &Session, args: &NamespaceArgs) -> Option<String> {
    args.namespace.clone().or_else(|| session.namespace.clone())
}

/// What is in the file or on standard input; a terminal is asked for it in one line.
pub(super) fn value(file: Option<&Path>, what: &str) -> Result<Vec<u8>> {
    match file {
        Some(path) if path.as_os_str() != "-" => {
            let file = File::open(path).with_context(|| format!("read {}", path.display()))?;
            bounded(file).with_context(|| format!("read {}", path.display()))
        }
        None if std::io::stdin().is_terminal() => Ok(hidden_line(what)?.into_bytes()),
        Some(_) | None => bounded(std::io::stdin().lock()).context("read standard input"),
    }
}

/// One byte more than is permitted is enough for the service to refuse it.
fn bounded(source: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_SECRET_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
