//! `jobctl graph …`: jobs that are submitted together and depend on each other.

use anyhow::Result;
use api_client::GraphsQuery;
use api_types::GraphId;
use api_types::graph::CreateGraph;

use super::secrets::named;
use crate::cli::{GraphArgs, GraphCommand, GraphSubmitArgs};
use crate::clock;
use crate::exit::{Exit, Unresolved};
use crate::output::{Format, Layout, note};
use crate::session::Session;
use crate::submission;
use crate::view::{GraphRow, graph_fields};

pub(super) async fn run(session: &Session, command: &GraphCommand) -> Result<Exit> {
    match command {
        GraphCommand::Submit(args) => submit(session, args).await?,
        GraphCommand::Describe { graph, output } => {
            let id = find(session, graph).await?;
            let graph = session.client.describe_graph(&id).await?.graph;
            let layout = Layout::for_format(output.format);
            if output.format == Format::Table || output.format == Format::Wide {
                session
                    .out
                    .text(&graph_fields(&graph, clock::now()).render(session.out.colours()))?;
                session.out.line("")?;
                session.out.list(output.format, &layout, &GraphRow::of(&graph))?;
            } else {
                let name = graph.id.to_string();
                session.out.record(output.format, &graph, &name, String::new)?;
            }
        }
        GraphCommand::Stop { graph } => {
            let id = find(session, graph).await?;
            let stopped = session.client.stop_graph(&id).await?.stopped;
            let jobs = if stopped == 1 { "job is" } else { "jobs are" };
            session.out.line(&format!("{stopped} {jobs} stopped"))?;
        }
        GraphCommand::List { namespace, limit, output } => {
            let namespace = named(session, namespace);
            let limit = Some(*limit);
            let query = GraphsQuery { namespace, limit, ..GraphsQuery::default() };
            let graphs = session.client.list_graphs(&query).await?.graphs;
            session.out.list(output.format, &Layout::for_format(output.format), &graphs)?;
        }
    }
    Ok(Exit::Done)
}

async fn submit(session: &Session, args: &GraphSubmitArgs) -> Result<()> {
    let body = submission::read_graph(&args.file)?;
    let key = args.idempotency_key.clone().unwrap_or_else(clock::fresh_key);
    let created = session.client.create_graph_raw(body, Some(&key)).await?;
    show(session, &created, args.output.format)
}

/// Shows a graph that was just stored.
pub(super) fn show(session: &Session, created: &CreateGraph, format: Format) -> Result<()> {
    for warning in &created.warnings {
        note(&format!("warning: {warning}"));
    }
    match format {
        Format::Table | Format::Wide | Format::Name => {
            session.out.line(&created.graph_id.to_string())
        }
        Format::Json => session.out.json(created),
        Format::Yaml => session.out.yaml(created),
    }
}

/// The ID, or that of the newest graph with this name.
async fn find(session: &Session, args: &GraphArgs) -> Result<String> {
    if args.graph.parse::<GraphId>().is_ok() {
        return Ok(args.graph.clone());
    }
    let query = GraphsQuery {
        namespace: named(session, &args.namespace),
        name: Some(args.graph.clone()),
        limit: Some(1),
        next_token: None,
    };
    let found = session.client.list_graphs(&query).await?.graphs;
    let missing = || Unresolved {
        message: format!("no graph has the name or ID '{}'", args.graph),
        is_unknown: true,
        details: Vec::new(),
        hint: "'jobctl graph list' lists them",
    };
    Ok(found.first().ok_or_else(missing)?.id.to_string())
}
