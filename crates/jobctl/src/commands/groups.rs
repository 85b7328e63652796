//! `jobctl group …`: limits that the jobs of a namespace share.

use anyhow::Result;
use api_types::group::PutGroup;

use super::secrets::{named, place};
use crate::cli::GroupCommand;
use crate::exit::Exit;
use crate::output::Layout;
use crate::session::{Session, each};
use crate::view::group_text;

pub(super) async fn run(session: &Session, command: &GroupCommand) -> Result<Exit> {
    match command {
        GroupCommand::List { namespace, output } => {
            let namespace = named(session, namespace);
            let groups = session.client.list_groups(namespace.as_deref()).await?.groups;
            session.out.list(output.format, &Layout::for_format(output.format), &groups)?;
            Ok(Exit::Done)
        }
        GroupCommand::Put(args) => {
            let (namespace, name) = place(session, &args.namespace, &args.name)?;
            let body = PutGroup { limit: Some(args.limit.into()) };
            let group = session.client.put_group(namespace.as_deref(), name, &body).await?;
            let paused = if group.limit == 0 { " and is paused" } else { "" };
            session.out.line(&format!(
                "group {}/{} has limit {}{paused}",
                group.namespace, group.name, group.limit
            ))?;
            Ok(Exit::Done)
        }
        GroupCommand::Describe { name, namespace, output } => {
            let (namespace, name) = place(session, namespace, name)?;
            let group = session.client.describe_group(namespace.as_deref(), name).await?;
            let text = || group_text(&group, session.out);
            session.out.record(output.format, &group, &group.name, text)?;
            Ok(Exit::Done)
        }
        GroupCommand::Delete { names, namespace } => {
            each(names, async |name| {
                let (of, name) = place(session, namespace, name)?;
                let group = session.client.delete_group(of.as_deref(), name).await?;
                let (namespace, name) = (group.namespace, group.name);
                session.out.line(&format!("group {namespace}/{name} is deleted"))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}
