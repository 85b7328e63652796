//! `jobctl login`, `jobctl token …` and `jobctl namespace …`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api_client::NodesQuery;
use api_types::access::{CreateToken, Identity, Permissions, PutNamespace, Token};
use api_types::node::nodes_requirements;
use api_types::quota::Quota;

use super::{context, sign_in};
use crate::cli::{
    Global, LoginArgs, NamespaceCommand, NamespacePutArgs, TokenCommand, TokenCreateArgs,
    TokenRevokeArgs,
};
use crate::config::{
    CredentialsFile, Environment, Target, config_path, credentials_path, read_token,
};
use crate::exit::{Exit, UsageError};
use crate::output::{Format, Layout, Out, local_text};
use crate::pages::collect;
use crate::prompt::{self, hidden_line};
use crate::session::{Session, each};
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
        Some(path) => (target.next_to(path)?, read_token(path)?),
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
            session.out.list(output.format, &Layout::for_format(output.format), &tokens)?;
            Ok(Exit::Done)
        }
        TokenCommand::Create(args) => create(session, args).await,
        TokenCommand::Revoke(args) => revoke(session, args).await,
    }
}

async fn revoke(session: &Session, args: &TokenRevokeArgs) -> Result<Exit> {
    let revoked = |token: &Token| {
        session.out.line(&format!("token {} of '{}' is revoked", token.id, token.name))
    };
    if let Some(subject) = &args.subject {
        let tokens = session.client.revoke_tokens_of(subject).await?;
        tokens.iter().try_for_each(revoked)?;
        return Ok(Exit::Done);
    }
    each(&args.tokens, async |id| {
        let answer = session.client.revoke_token(id, args.descendants).await?;
        revoked(&answer.token)?;
        if answer.descendants_revoked {
            answer.descendants.iter().try_for_each(revoked)?;
        } else if !answer.descendants.is_empty() {
            let made = answer.descendants.iter().map(|it| format!("{} of '{}'", it.id, it.name));
            session.out.line(&format!(
                "tokens that it made stay valid: {}; --descendants revokes them with it",
                made.collect::<Vec<_>>().join(", ")
            ))?;
        }
        Ok(Exit::Done)
    })
    .await
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
            session.out.list(output.format, &Layout::for_format(output.format), &namespaces)?;
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
            if !namespace.nodes.is_empty() {
                session.out.line(&matching(session, &namespace.nodes).await?)?;
            }
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

/// Which nodes a namespace uses now, in words.
async fn matching(session: &Session, nodes: &str) -> Result<String> {
    let requirements = nodes_requirements(nodes).context("read the selector of the namespace")?;
    let labels: Vec<_> = requirements.iter().map(ToString::to_string).collect();
    let query = NodesQuery { labels: vec![labels.join(",")], ..NodesQuery::default() };
    let matching = collect(None, async |rows, token| {
        let query = NodesQuery { limit: Some(rows), next_token: token, ..query.clone() };
        session.client.list_nodes(&query).await.map(|page| (page.nodes, page.next_token))
    })
    .await?;
    let ids: Vec<_> = matching.items.iter().map(|node| node.peer_info.id.to_string()).collect();
    Ok(match ids.as_slice() {
        [] => {
            "no node has labels of an admin that match: its jobs wait until an admin gives a node \
               such labels, with `jobctl node label` or in a join token"
                .to_owned()
        }
        [one] => format!("1 node matches: {one}"),
        ids => format!("{} nodes match: {}", ids.len(), ids.join(", ")),
    })
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
        registries: list(&args.registries),
        capabilities: args.no_capabilities.then_some(false),
    };
    PutNamespace {
        description: args.description.clone(),
        permissions,
        nodes: args.nodes.clone(),
        max_priority: args.max_priority,
        quota: Quota {
            cpu: args.quota.cpu.clone(),
            memory: args.quota.memory.clone(),
            gpu: args.quota.gpu.clone(),
            executions: args.quota.executions,
            queued_executions: args.quota.queued,
        },
        weight: args.weight,
    }
}

fn described(identity: &Identity) -> String {
    let Identity { name, role, namespaces, expire_time, .. } = identity;
    let namespaces = match namespaces.as_slice() {
        [all] if all == api_types::access::ALL_NAMESPACES => "all namespaces".to_owned(),
        names => names.join(", "),
    };
    let end = match expire_time.as_str() {
        "" => String::new(),
        time => format!(", until {}", local_text(time)),
    };
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
