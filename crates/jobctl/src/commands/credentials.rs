//! `jobctl credential …`: what jobs sign in with at registries, buckets, repositories and servers.

use std::path::Path;

use anyhow::Result;
use api_types::credential::{CredentialType, Login, PutCredential};

use super::secrets::{named, place, value};
use crate::cli::{CredentialCommand, CredentialSetArgs};
use crate::exit::{Exit, UsageError};
use crate::output::Layout;
use crate::session::{Session, each};
use crate::view::credential_fields;

pub(super) async fn run(session: &Session, command: &CredentialCommand) -> Result<Exit> {
    match command {
        CredentialCommand::List { namespace, output } => {
            let namespace = named(session, namespace);
            let found = session.client.list_credentials(namespace.as_deref()).await?.credentials;
            session.out.list(output.format, &Layout::for_format(output.format), &found)?;
            Ok(Exit::Done)
        }
        CredentialCommand::Set(args) => set(session, args).await,
        CredentialCommand::Describe { name, namespace, output } => {
            let (namespace, name) = place(session, namespace, name)?;
            let found = session.client.describe_credential(namespace.as_deref(), name).await?;
            let text = || credential_fields(&found).render(session.out.colours());
            session.out.record(output.format, &found, &found.name, text)?;
            Ok(Exit::Done)
        }
        CredentialCommand::Delete { names, namespace } => {
            each(names, async |name| {
                let (of, name) = place(session, namespace, name)?;
                let gone = session.client.delete_credential(of.as_deref(), name).await?;
                session
                    .out
                    .line(&format!("credentials {}/{} are deleted", gone.namespace, gone.name))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}

async fn set(session: &Session, args: &CredentialSetArgs) -> Result<Exit> {
    let (namespace, name) = place(session, &args.namespace, &args.name)?;
    let body = PutCredential {
        credential_type: args.credential_type.to_string(),
        hosts: args.hosts.clone(),
        buckets: args.buckets.clone(),
        login: login(args, name)?,
    };
    let set = session.client.put_credential(namespace.as_deref(), name, &body).await?;
    let (namespace, name, version) = (set.namespace, set.name, set.version);
    session.out.line(&format!("credentials {namespace}/{name} are set (version {version})"))?;
    Ok(Exit::Done)
}

fn login(args: &CredentialSetArgs, name: &str) -> Result<Login> {
    let CredentialSetArgs { credential_type, username, access_key_id, session_token_file, .. } =
        args;
    let needs = |what: &str| UsageError::new(format!("type {credential_type} needs {what}"));
    let secret = |what: &str| line(args.file.as_deref(), &format!("{what} of {name}"));
    let mut login = Login {
        username: username.clone().unwrap_or_default(),
        access_key_id: access_key_id.clone().unwrap_or_default(),
        ..Login::default()
    };
    if let Some(file) = session_token_file {
        login.session_token = line(Some(file), "Session token")?;
    }
    match (credential_type, username, access_key_id) {
        (CredentialType::Registry | CredentialType::Git, None, _) => {
            return Err(needs("--username").into());
        }
        (CredentialType::S3, _, None) => return Err(needs("--access-key-id").into()),
        (CredentialType::S3, _, Some(_)) => login.secret_access_key = secret("Secret access key")?,
        (CredentialType::Http, None, _) => login.token = secret("Token")?,
        (CredentialType::Registry | CredentialType::Git | CredentialType::Http, Some(_), _) => {
            login.password = secret("Password")?;
        }
    }
    Ok(login)
}

/// One line; editors and `echo` end it with a newline, which belongs to no password.
fn line(file: Option<&Path>, what: &str) -> Result<String> {
    let bytes = value(file, what)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| UsageError::new(format!("{what} is not text: it must be UTF-8")))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
