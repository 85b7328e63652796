//! `jobctl version`: the versions of client and service.

use anyhow::Result;
use api_types::version::VersionRecord;
use serde::Serialize;

use crate::cli::OutputArgs;
use crate::exit::Exit;
use crate::output::{Cell, Format, Out, Table};
use crate::session::Session;

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Versions {
    client: VersionRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<VersionRecord>,
}

pub(super) fn client_only(out: Out, format: Format) -> Result<Exit> {
    show(out, format, &Versions { client: VersionRecord::current(), server: None })?;
    Ok(Exit::Done)
}

/// Shows the client's version even if the service does not respond.
pub(super) async fn both(session: &Session, output: OutputArgs) -> Result<Exit> {
    let response = session.client.version().await;
    let (server, error) = match response {
        Ok(version) => (Some(version), None),
        Err(error) => (None, Some(error)),
    };
    show(session.out, output.format, &Versions { client: VersionRecord::current(), server })?;
    error.map_or(Ok(Exit::Done), |error| Err(error.into()))
}

fn show(out: Out, format: Format, versions: &Versions) -> Result<()> {
    match format {
        Format::Json => out.json(versions),
        Format::Yaml => out.yaml(versions),
        Format::Name => out.line(&versions.client.git_version),
        Format::Table | Format::Wide => {
            let mut table = Table::new(vec!["PART", "VERSION", "COMMIT", "BUILT", "PLATFORM"]);
            let server = versions.server.iter().map(|version| ("server", version));
            for (part, version) in std::iter::once(("client", &versions.client)).chain(server) {
                let commit: String = version.git_commit.chars().take(8).collect();
                table.push(vec![
                    Cell::plain(part),
                    Cell::plain(&version.git_version),
                    Cell::plain(if format == Format::Wide { &version.git_commit } else { &commit }),
                    Cell::plain(&version.build_date),
                    Cell::plain(format!("{}/{}", version.goos, version.goarch)),
                ]);
            }
            out.table(&table)
        }
    }
}
