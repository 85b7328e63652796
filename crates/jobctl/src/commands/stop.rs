//! `jobctl stop`: ends jobs.

use anyhow::Result;

use super::{Exit, Session, each};
use crate::cli::StopArgs;

pub(super) async fn stop(session: &Session, args: &StopArgs) -> Result<Exit> {
    each(&args.jobs, async |job| {
        // The answer to a stop does not say which job a short ID meant.
        let id = session.client.describe_job(job).await?.id;
        let answer = session.client.stop_job(id, &args.reason).await?;
        let told =
            if answer.evaluation_id.is_some() { "is stopped" } else { "was stopped already" };
        session.out.line(&format!("{id} {told}"))?;
        Ok(Exit::Done)
    })
    .await
}
