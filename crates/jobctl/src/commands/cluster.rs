//! `jobctl cluster`: how busy the cluster is, what waits for room, and its orchestrators.

use anyhow::Result;
use api_types::cluster::Cluster;
use api_types::quantity::Resources;

use crate::cli::{ClusterArgs, ClusterCommand, DemandArgs};
use crate::clock;
use crate::exit::Exit;
use crate::output::{Fields, Format, Layout, age_of_text, note};
use crate::session::Session;

pub(super) async fn run(session: &Session, args: &ClusterArgs) -> Result<Exit> {
    match &args.command {
        None => describe(session, args.output.format).await,
        Some(ClusterCommand::Demand(args)) => demand(session, args).await,
        Some(ClusterCommand::Members(args)) => members(session, args.format).await,
    }
}

async fn members(session: &Session, format: Format) -> Result<Exit> {
    let out = session.out;
    let found = session.client.list_members().await?;
    match format {
        // The store and its counts too.
        Format::Json => out.json(&found)?,
        Format::Yaml => out.yaml(&found)?,
        Format::Table | Format::Wide | Format::Name => {
            out.list(format, &Layout::for_format(format), &found.members)?;
        }
    }
    Ok(Exit::Done)
}

async fn demand(session: &Session, args: &DemandArgs) -> Result<Exit> {
    let (namespace, format) = (args.namespace.as_deref(), args.output.format);
    let found = session.client.cluster_demand(namespace, Some(args.limit)).await?;
    session.out.list(format, &Layout::for_format(format), &found.classes)?;
    if found.more {
        note("more classes wait; --limit shows up to 1000");
    }
    Ok(Exit::Done)
}

async fn describe(session: &Session, format: Format) -> Result<Exit> {
    let out = session.out;
    let cluster = session.client.describe_cluster().await?;
    match format {
        Format::Json => out.json(&cluster)?,
        Format::Yaml => out.yaml(&cluster)?,
        // A cluster has no name: that of its service stands for it.
        Format::Name => out.line(session.client.base_url())?,
        Format::Table | Format::Wide => out.fields(&fields(&cluster))?,
    }
    Ok(Exit::Done)
}

fn fields(cluster: &Cluster) -> Fields {
    let Cluster { jobs, executions, nodes, .. } = cluster;
    let mut fields = Fields::default();
    fields
        .add(
            "Nodes",
            counts(&[
                (nodes.connected, "connected"),
                (nodes.disconnected, "disconnected"),
                (nodes.pending, "waiting for approval"),
                (nodes.rejected, "rejected"),
                (nodes.cordoned, "cordoned"),
                (nodes.draining, "draining"),
                (nodes.unhealthy, "unhealthy"),
                (nodes.reserved, "reserved"),
            ]),
        )
        .add(
            "Jobs",
            counts(&[
                (jobs.pending, "pending"),
                (jobs.queued, "queued"),
                (jobs.running, "running"),
                (jobs.completed, "completed"),
                (jobs.failed, "failed"),
                (jobs.stopped, "stopped"),
            ]),
        )
        .add(
            "Executions",
            counts(&[(executions.starting, "starting"), (executions.running, "running")]),
        )
        .add("Capacity", Resources::from(cluster.capacity).to_string())
        .add("Allocated", Resources::from(cluster.allocated).to_string());
    if !cluster.oldest_wait.is_empty() {
        fields.add("Oldest wait", age_of_text(clock::now(), &cluster.oldest_wait));
    }
    fields
}

/// `2 connected, 1 cordoned`: what is not zero.
fn counts(counts: &[(u64, &str)]) -> String {
    let parts = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts.map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
