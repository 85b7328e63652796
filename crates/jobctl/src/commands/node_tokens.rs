//! `jobctl node token …`: creates, lists and revokes join tokens.

use anyhow::Result;
use api_types::joining::CreateNodeToken;

use crate::cli::{NodeTokenArgs, NodeTokenCommand, NodeTokenCreateArgs};
use crate::exit::Exit;
use crate::output::Layout;
use crate::session::{Session, each};

pub(super) async fn run(session: &Session, args: &NodeTokenArgs) -> Result<Exit> {
    match &args.command {
        None => create(session, &args.create).await,
        Some(NodeTokenCommand::List(output)) => {
            let tokens = session.client.list_node_tokens().await?.node_tokens;
            session.out.list(output.format, &Layout::for_format(output.format), &tokens)?;
            Ok(Exit::Done)
        }
        Some(NodeTokenCommand::Revoke { tokens }) => {
            each(tokens, async |id| {
                let token = session.client.revoke_node_token(id).await?;
                session.out.line(&format!("join token {} is revoked", token.id))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}

/// Prints the token alone, so that a script can take it.
async fn create(session: &Session, args: &NodeTokenCreateArgs) -> Result<Exit> {
    let request = CreateNodeToken {
        ttl_seconds: args.ttl.as_secs(),
        uses: args.uses,
        name: args.name.clone(),
        labels: args.labels.iter().cloned().collect(),
        node_id: args.node,
        max_capacity: args.max_capacity(),
    };
    let created = session.client.create_node_token(&request).await?;
    let text = || format!("{}\n", created.secret);
    session.out.record(args.output.format, &created, &created.node_token.id, text)?;
    Ok(Exit::Done)
}
