//! Candidates for completion in a shell: the names of jobs, nodes, namespaces and contexts.
//!
//! The shell waits for them, so there is one request of at most a second, and on any failure none.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use api_client::{Client, JobsQuery, NodesQuery};
use api_types::words::job_word;
use clap::{Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::cli::{Cli, Global};
use crate::config::{ConfigFile, Environment, Target, config_path};

/// How long a shell waits: more feels as if it hung.
const WITHIN: Duration = Duration::from_secs(1);

/// Candidates that are shown; more fit on no screen.
const SHOWN: u32 = 50;

/// Nodes of which the names are compared: the service selects none by its name.
const NODES: u32 = 1000;

/// What the command line says so far.
#[derive(Debug, Default)]
struct Typed {
    global: Global,
    namespace: Option<String>,
}

/// A candidate, and what a shell shows next to it.
type Candidate = (String, String);

/// The command line with candidates for the arguments that name something.
pub(crate) fn command() -> Command {
    completed(Cli::command(), "")
}

/// The same for a command and those below it; what an argument names is clear from its ID.
fn completed(command: Command, above: &str) -> Command {
    let name = command.get_name().to_owned();
    let completer = |id: &str| match (above, id) {
        // Its jobs and nodes are those that do not exist yet.
        ("node", _) if name == "token" => None,
        (_, "job" | "jobs") => Some(jobs()),
        (_, "node" | "nodes") if name != "put" => Some(nodes()),
        (_, "context") | ("context", "name") => Some(contexts()),
        (_, "namespace") | ("namespace", "name" | "names") => Some(namespaces()),
        _ => None,
    };
    let command = command.mut_args(|argument| match completer(argument.get_id().as_str()) {
        Some(completer) => argument.add(completer),
        None => argument,
    });
    command.mut_subcommands(|below| completed(below, &name))
}

fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        candidates(current, async |client, typed, prefix| {
            // An ID is compared with those of the newest jobs.
            let is_id = prefix.starts_with("j-");
            let query = JobsQuery {
                namespace: typed.namespace,
                name_prefix: (!is_id && !prefix.is_empty()).then(|| prefix.to_owned()),
                limit: Some(SHOWN),
                reverse: true,
                ..JobsQuery::default()
            };
            let jobs = client.summarise_jobs(&query).await.ok()?.jobs.into_iter();
            let state = |state| job_word(state).to_owned();
            Some(match is_id {
                true => jobs.map(|job| (job.id.short(), job.name)).collect(),
                false => jobs.map(|job| (job.name, state(job.state.state_type))).collect(),
            })
        })
    })
}

fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        candidates(current, async |client, _, prefix| {
            let query = NodesQuery { limit: Some(NODES), ..NodesQuery::default() };
            let nodes = client.list_nodes(&query).await.ok()?.nodes.into_iter();
            let named = |id: String, name: String| match prefix.starts_with("n-") {
                true => (id, name),
                false => (name, id),
            };
            Some(nodes.map(|node| named(node.peer_info.id.short(), node.name)).collect())
        })
    })
}

fn namespaces() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        candidates(current, async |client, _, _| {
            let found = client.list_namespaces().await.ok()?.namespaces.into_iter();
            Some(found.map(|namespace| (namespace.name, namespace.description)).collect())
        })
    })
}

fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let found = || {
            let (path, _) = config_path(&typed().global, &Environment::read())?;
            let contexts = ConfigFile::load(&path, false).ok()?.contexts;
            Some(contexts.into_iter().map(|(name, context)| (name, context.url)).collect())
        };
        shown(current, found().unwrap_or_default())
    })
}

/// Asks the service that the command line, the environment or the context names.
fn candidates(
    current: &OsStr,
    ask: impl AsyncFn(Client, Typed, &str) -> Option<Vec<Candidate>>,
) -> Vec<CompletionCandidate> {
    let prefix = current.to_string_lossy().into_owned();
    let typed = typed();
    let found = || {
        let target = Target::choose(&typed.global, &Environment::read()).ok()?;
        let client = target.client().ok()?;
        let namespace = typed.namespace.clone().or(target.namespace);
        let typed = Typed { namespace, ..typed };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let asked = async { tokio::time::timeout(WITHIN, ask(client, typed, &prefix)).await.ok()? };
        runtime.block_on(asked)
    };
    shown(current, found().unwrap_or_default())
}

fn shown(current: &OsStr, found: Vec<Candidate>) -> Vec<CompletionCandidate> {
    let prefix = current.to_string_lossy();
    let mut seen = BTreeSet::new();
    let fits = |(name, _): &Candidate| name.starts_with(&*prefix) && seen.insert(name.clone());
    let candidates = found.into_iter().filter(fits).take(SHOWN as usize);
    let candidate = |(name, help): Candidate| {
        let help = (!help.is_empty()).then(|| help.into());
        CompletionCandidate::new(name).help(help)
    };
    candidates.map(candidate).collect()
}

/// A completer does not get the other arguments; they are behind `--` on the command line.
fn typed() -> Typed {
    let words: Vec<_> = std::env::args().skip_while(|word| word != "--").skip(1).collect();
    let value = |names: &[&str]| {
        words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
            Some((name, value)) if names.contains(&name) => Some(value.to_owned()),
            None if names.contains(&word.as_str()) => words.get(at + 1).cloned(),
            _ => None,
        })
    };
    Typed {
        global: Global {
            url: value(&["--url"]),
            context: value(&["--context"]),
            ca: value(&["--ca"]),
            config: value(&["--config"]).map(Into::into),
        },
        namespace: value(&["-n", "--namespace"]),
    }
}
