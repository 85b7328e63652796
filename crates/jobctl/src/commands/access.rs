//! `jobctl login`, `jobctl token …` and `jobctl namespace …`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api_types::access::{CreateToken, Identity, Permissions, PutNamespace};

use super::{Exit, Session, context, each, sign_in};
use crate::cli::{
    Global, LoginArgs, NamespaceCommand, NamespacePutArgs, TokenCommand, TokenCreateArgs,
};
use crate::config::{
    CredentialsFile, Environment, Target, config_path, credentials_path, read_token,
};
use crate::exit::UsageError;
use crate::output::{Format, Layout, Out};
use crate::prompt::{self, hidden_line};
use crate::view::namespace_fields;

/// Verifies a token with the service, or gets one for an ID token, and keeps both for later commands.
pub(super) async fn login(out: Out, global: &Global, args: &LoginArgs) -> Result<Exit> {
    let environment = Environment::read();
    let target = Target::choose(global, &environment)?;
    let names_the_ca = global.ca.is_some() || environment.ca.is_some();
    let (target, token) = match &args.token_file {
        None if args.oidc => {
            let token = sign_in::with_browser(&target).await?;
            (target, token)
        }
        None if let Some(path) = &args.id_token_file => {
            let token = sign_in::with_id_token(&target, path).await?;
            (target, token)
        }
        Some(path) if path.as_os_str() == "-" => (target, token_of(prompt::line()?)?),
        Some(path) if names_the_ca => (target, read_token(path)?),
        Some(path) => (target.beside(path)?, read_token(path)?),
        None => {
            let token = asked(&target.url)?;
            (target, token)
        }
    };
    let target = Target { token: Some(token.clone()), ..target };
    let identity = target.client()?.identity().await?;
    let path = credentials_file(global)?;
    let mut credentials = load(&path)?;
    credentials.set(&target.url, token);
    credentials.save(&path)?;
    out.line(&format!("signed in to {} as {}", target.url, described(&identity)))?;
    if let Some(note) = context::keep(global, &target)? {
        out.line(&note)?;
    }
    Ok(Exit::Done)
}

/// Forgets the token; it stays valid until it is revoked.
pub(super) fn logout(out: Out, global: &Global) -> Result<Exit> {
    let target = Target::choose(global, &Environment::read())?;
    let path = credentials_file(global)?;
    let mut credentials = load(&path)?;
    if !credentials.remove(&target.url) {
        return Err(UsageError::new(format!("no token is kept for {}", target.url)).into());
    }
    credentials.save(&path)?;
    out.line(&format!("the token for {} is forgotten", target.url))?;
    Ok(Exit::Done)
}

/// As whom the service knows this program.
pub(super) async fn whoami(session: &Session, format: Format) -> Result<Exit> {
    let identity = session.client.identity().await?;
    let text = || format!("{}\n", described(&identity));
    session.out.record(format, &identity, &identity.name, text)?;
    Ok(Exit::Done)
}

pub(super) async fn token(session: &Session, command: &TokenCommand) -> Result<Exit> {
    match command {
        TokenCommand::List(output) => {
            let tokens = session.client.list_tokens().await?.tokens;
            session.out.list(output.format, &Layout::of(output.format), &tokens)?;
            Ok(Exit::Done)
        }
        TokenCommand::Create(args) => create(session, args).await,
        TokenCommand::Revoke { tokens } => {
            each(tokens, async |id| {
                let token = session.client.revoke_token(id).await?;
                session.out.line(&format!("token {id} of '{}' is revoked", token.name))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}

/// Prints the token alone, so that a script can take it.
async fn create(session: &Session, args: &TokenCreateArgs) -> Result<Exit> {
    let namespaces = match (&session.namespace, args.namespace.is_empty()) {
        (Some(of_context), true) if !args.role.is_of_the_cluster() => vec![of_context.clone()],
        _ => args.namespace.clone(),
    };
    let created = session
        .client
        .create_token(&CreateToken {
            name: args.name.clone(),
            role: args.role.word().to_owned(),
            namespaces,
            ttl_seconds: args.ttl.map_or(0, |ttl| ttl.as_secs()),
        })
        .await?;
    let text = || format!("{}\n", created.secret);
    session.out.record(args.output.format, &created, &created.token.id, text)?;
    Ok(Exit::Done)
}

pub(super) async fn namespace(session: &Session, command: &NamespaceCommand) -> Result<Exit> {
    match command {
        NamespaceCommand::List(output) => {
            let namespaces = session.client.list_namespaces().await?.namespaces;
            session.out.list(output.format, &Layout::of(output.format), &namespaces)?;
            Ok(Exit::Done)
        }
        NamespaceCommand::Describe { name, output } => {
            let namespace = session.client.describe_namespace(name).await?;
            let text = || namespace_fields(&namespace).render(session.out.colours());
            session.out.record(output.format, &namespace, &namespace.name, text)?;
            Ok(Exit::Done)
        }
        NamespaceCommand::Put(args) => {
            let namespace = session.client.put_namespace(&args.name, &put(args)).await?;
            session.out.line(&format!("namespace {} is set", namespace.name))?;
            Ok(Exit::Done)
        }
        NamespaceCommand::Delete { names } => {
            each(names, async |name| {
                session.client.delete_namespace(name).await?;
                session.out.line(&format!("namespace {name} is deleted"))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}

fn put(args: &NamespacePutArgs) -> PutNamespace {
    let list = |text: &Option<String>| {
        let words = text.as_ref()?.split(',').map(str::trim).filter(|word| !word.is_empty());
        Some(words.map(str::to_owned).collect())
    };
    let permissions = Permissions {
        engines: list(&args.engines),
        networks: list(&args.networks),
        sources: list(&args.sources),
        publishers: list(&args.publishers),
    };
    PutNamespace { description: args.description.clone(), permissions, nodes: args.nodes.clone() }
}

fn described(identity: &Identity) -> String {
    let Identity { name, role, namespaces, expire_time, .. } = identity;
    let namespaces = match namespaces.as_slice() {
        [all] if all == api_types::access::ALL_NAMESPACES => "all namespaces".to_owned(),
        names => names.join(", "),
    };
    let end = if expire_time.is_empty() { String::new() } else { format!(", until {expire_time}") };
    format!("{name} ({role} of {namespaces}{end})")
}

fn credentials_file(global: &Global) -> Result<PathBuf> {
    let (config, _) =
        config_path(global, &Environment::read()).ok_or_else(context::no_configuration)?;
    Ok(credentials_path(&config))
}

fn load(path: &Path) -> Result<CredentialsFile> {
    CredentialsFile::load(path).with_context(|| format!("read the credentials {}", path.display()))
}

/// Asks on the terminal, without showing what is typed.
fn asked(url: &str) -> Result<String> {
    if !std::io::stdin().is_terminal() {
        return Err(UsageError::new("there is no terminal to ask for the token on")
            .with_hint("give it with --token-file FILE, or --token-file - for standard input")
            .into());
    }
    token_of(hidden_line(&format!("Token for {url}"))?)
}

fn token_of(line: String) -> Result<String> {
    match line.trim() {
        "" => Err(UsageError::new("no token was given").into()),
        token => Ok(token.to_owned()),
    }
}
