//! `jobctl key …`: lists and rotates keys of the cluster.

use anyhow::Result;
use api_types::key::{Key, KeyPurpose};

use crate::cli::{KeyCommand, KeyRotateArgs, OutputArgs, RotatedKey};
use crate::exit::Exit;
use crate::output::Layout;
use crate::session::Session;

pub(super) async fn run(session: &Session, command: &KeyCommand) -> Result<Exit> {
    match command {
        KeyCommand::List(output) => show(session, output, &session.client.list_keys().await?),
        KeyCommand::Rotate(args) => rotate(session, args).await,
    }
}

async fn rotate(session: &Session, args: &KeyRotateArgs) -> Result<Exit> {
    let purpose = match args.purpose {
        RotatedKey::Ca => KeyPurpose::Ca,
        RotatedKey::Secrets => KeyPurpose::Secrets,
        RotatedKey::Cluster => KeyPurpose::Cluster,
    };
    show(session, &args.output, &session.client.rotate_key(purpose).await?)
}

fn show(session: &Session, output: &OutputArgs, keys: &[Key]) -> Result<Exit> {
    session.out.list(output.format, &Layout::for_format(output.format), keys)?;
    Ok(Exit::Done)
}
