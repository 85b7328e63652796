//! `jobctl stop`: stops jobs.

use anyhow::Result;

use super::{Exit, Session, each};
use crate::cli::StopArgs;

pub(super) async fn stop(session: &Session, args: &StopArgs) -> Result<Exit> {
    each(&args.jobs, async |job| {
        // The response to a stop does not contain the full ID.
        let id = session.client.describe_job(job).await?.id;
        let response = session.client.stop_job(id, &args.reason).await?;
        let outcome =
            if response.evaluation_id.is_some() { "is stopped" } else { "was already stopped" };
        session.out.line(&format!("{id} {outcome}"))?;
        Ok(Exit::Done)
    })
    .await
}
