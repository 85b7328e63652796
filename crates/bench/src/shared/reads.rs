//! Reads of a large history in either store.

use testbed::harness::ClusterSpec;

use super::Shared;
use crate::measure::{Measure, Target, millis};
use crate::scale::Scale;
use crate::stored::{self, Worst};

pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let (directory, ids) = stored::seeded(scale.jobs, 0).await?;
    let shared = Shared::start().await?;
    shared.import(directory.path()).await?;
    let sqlite = stored::keeping(ClusterSpec::new())
        .setting("ORCHESTRATOR_DATA_DIR", &directory.path().display().to_string())
        .start_without_agents()
        .await;
    let postgres = stored::keeping(shared.spec()).start_without_agents().await;
    let times = stored::times([(&sqlite, &ids), (&postgres, &ids)], scale).await?;
    let mut measures = Vec::new();
    for kind in stored::KINDS {
        let Worst { ratio, name, times: [sqlite, postgres] } = stored::worst(&times, kind)?;
        measures.push(Measure::new(
            format!("PostgreSQL, p99 of {kind}, {} jobs stored, times SQLite's", scale.jobs),
            (ratio, ""),
            Target::AtMost(4.0),
            format!("worst: {name}, {:.2} ms against {:.2} ms", millis(postgres), millis(sqlite)),
        ));
    }
    Ok(measures)
}
