//! The commands, one file per group; each returns the exit code.

mod access;
mod audit;
mod cluster;
mod context;
mod credentials;
mod events;
mod explain;
mod get;
mod graph;
mod groups;
mod init;
mod jobs;
mod keys;
mod logs;
mod node_tokens;
mod nodes;
mod open;
mod rerun;
mod run;
mod schedules;
mod secrets;
mod shell;
mod sign_in;
mod stop;
mod submit;
mod top;
mod validate;
mod version;
mod wait;

use anyhow::Result;

use crate::cli::{Cli, Command, JobCommand};
use crate::exit::Exit;
use crate::output::Out;
use crate::session::Session;

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
        Command::Group(command) => groups::run(&Session::open(out, &global)?, &command).await,
        Command::Schedule(command) => schedules::run(&Session::open(out, &global)?, &command).await,
        Command::Graph(command) => graph::run(&Session::open(out, &global)?, &command).await,
        Command::Secret(command) => secrets::run(&Session::open(out, &global)?, &command).await,
        Command::Key(command) => keys::run(&Session::open(out, &global)?, &command).await,
        Command::Audit(command) => audit::run(&Session::open(out, &global)?, &command).await,
        Command::Completions { shell } => shell::completions(out, shell),
        Command::Man { directory } => shell::man(out, directory.as_deref()),
        Command::Version(args) if args.client => version::client_only(out, args.output.format),
        Command::Version(args) => version::both(&Session::open(out, &global)?, args.output).await,
        Command::Init(args) | Command::Job(JobCommand::Init(args)) => init::init(out, &args),
        Command::Run(args) => run::run(&Session::open(out, &global)?, &args).await,
        Command::Submit(args) => submit::submit(&Session::open(out, &global)?, &args).await,
        Command::Rerun(args) => rerun::rerun(&Session::open(out, &global)?, &args).await,
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
        Command::Cluster(args) => cluster::run(&Session::open(out, &global)?, &args).await,
        Command::Open(args) => open::open(&Session::open(out, &global)?, &args).await,
        Command::Top(args) => top::top(&Session::open(out, &global)?, &args).await,
        Command::Node(command) => nodes::run(&Session::open(out, &global)?, &command).await,
    }
}
