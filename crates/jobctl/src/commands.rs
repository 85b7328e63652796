//! The commands, one file per group; each returns the exit code.

mod access;
mod audit;
mod cluster;
mod context;
mod credentials;
mod events;
mod explain;
mod get;
mod jobs;
mod keys;
mod logs;
mod node_tokens;
mod nodes;
mod run;
mod secrets;
mod shell;
mod sign_in;
mod stop;
mod submit;
mod top;
mod validate;
mod version;
mod wait;

use std::collections::BTreeMap;

use anyhow::Result;
use api_client::{Client, NodesQuery};
use api_types::NodeId;

use crate::cli::{Cli, Command, Global};
use crate::config::{Environment, Target};
use crate::exit::Exit;
use crate::output::Out;
use crate::pages::collect;

/// The service and the terminal.
#[derive(Debug)]
struct Session {
    client: Client,
    /// Default namespace, from the context.
    namespace: Option<String>,
    out: Out,
}

pub(crate) async fn run(cli: Cli) -> Result<Exit> {
    let out = Out::new();
    let global = cli.global;
    match cli.command {
        Command::Context(command) => context::run(out, &global, &command),
        Command::Login(args) => access::login(out, &global, &args).await,
        Command::Logout => access::logout(out, &global),
        Command::Whoami(output) => {
            access::whoami(&Session::open(out, &global)?, output.format).await
        }
        Command::Token(command) => access::token(&Session::open(out, &global)?, &command).await,
        Command::Namespace(command) => {
            access::namespace(&Session::open(out, &global)?, &command).await
        }
        Command::Credential(command) => {
            credentials::run(&Session::open(out, &global)?, &command).await
        }
        Command::Secret(command) => secrets::run(&Session::open(out, &global)?, &command).await,
        Command::Key(command) => keys::run(&Session::open(out, &global)?, &command).await,
        Command::Audit(command) => audit::run(&Session::open(out, &global)?, &command).await,
        Command::Completions { shell } => shell::completions(out, shell),
        Command::Man { directory } => shell::man(out, directory.as_deref()),
        Command::Version(args) if args.client => version::client_only(out, args.output.format),
        Command::Version(args) => version::both(&Session::open(out, &global)?, args.output).await,
        Command::Run(args) => run::run(&Session::open(out, &global)?, &args).await,
        Command::Submit(args) => submit::submit(&Session::open(out, &global)?, &args).await,
        Command::Validate(args) => validate::validate(&Session::open(out, &global)?, &args).await,
        Command::List(args) => jobs::list(&Session::open(out, &global)?, &args).await,
        Command::Describe(args) => jobs::describe(&Session::open(out, &global)?, &args).await,
        Command::Executions(args) => jobs::executions(&Session::open(out, &global)?, &args).await,
        Command::History(args) => jobs::history(&Session::open(out, &global)?, &args).await,
        Command::Logs(args) => logs::logs(&Session::open(out, &global)?, &args).await,
        Command::Events(args) => events::events(&Session::open(out, &global)?, &args).await,
        Command::Wait(args) => wait::wait(&Session::open(out, &global)?, &args).await,
        Command::Stop(args) => stop::stop(&Session::open(out, &global)?, &args).await,
        Command::Get(args) => get::get(&Session::open(out, &global)?, &args).await,
        Command::Explain(args) => explain::explain(&Session::open(out, &global)?, &args).await,
        Command::Cluster { output } => {
            cluster::describe(&Session::open(out, &global)?, output.format).await
        }
        Command::Top(args) => top::top(&Session::open(out, &global)?, &args).await,
        Command::Node(command) => nodes::run(&Session::open(out, &global)?, &command).await,
    }
}

impl Session {
    fn open(out: Out, global: &Global) -> Result<Self> {
        let target = Target::choose(global, &Environment::read())?;
        Ok(Self { client: target.client()?, namespace: target.namespace, out })
    }

    /// The host names of all nodes.
    async fn hostnames(&self) -> Result<BTreeMap<NodeId, String>> {
        let nodes = collect(None, async |rows, token| {
            let query =
                NodesQuery { limit: Some(rows), next_token: token, ..NodesQuery::default() };
            self.client.list_nodes(&query).await.map(|page| (page.nodes, page.next_token))
        })
        .await?;
        let named = nodes.items.into_iter().filter_map(|node| {
            node.labels.get("hostname").map(|host| (node.peer_info.id, host.clone()))
        });
        Ok(named.collect())
    }
}

/// Applies `act` to each name, continuing after failures; the first failure decides the exit code.
async fn each<F>(names: &[String], mut act: F) -> Result<Exit>
where
    F: AsyncFnMut(&str) -> Result<Exit>,
{
    let mut exit = Exit::Done;
    for name in names {
        let ended = match act(name).await {
            Ok(ended) => ended,
            Err(error) => crate::exit::report(&error),
        };
        exit = exit.and(ended);
    }
    Ok(exit)
}
