//! Collects what a task left behind: its output and its result paths.
//!
//! A full disk, the node's or the task's own, does not stop this: the report contains everything
//! known about the run, together with the resulting failure.

mod ends;
pub(crate) mod intake;
mod output;
mod results;

use agent_core::execution::{Collected, Publishing};

use crate::data::inputs::repository;
use crate::data::results::publisher::Publishers;
use crate::data::results::publisher::publication::Publication;
use crate::runtime::{Executor, OutputKeeping};

use intake::{CollectError, Intake, WHOLE, WHOLE_AND_PRINTED};

/// Collects and publishes everything, from the start if an earlier attempt was interrupted. Also
/// returns what the task has written, if that was measured.
pub(crate) async fn collect(
    executor: &dyn Executor,
    publishers: &Publishers,
    run: &Publication<'_>,
    mut intake: Intake<'_>,
) -> Result<(Collected, Option<u64>), CollectError> {
    let (mut output, tail) = output::take_in(executor, run.id, run.dir, &mut intake).await?;
    intake.copies.is_whole(run.id);
    let printed_bytes = match executor.output_keeping() {
        OutputKeeping::WithEngine { .. } => intake.taken_bytes,
        OutputKeeping::OnThisNode => 0,
    };
    let mut notes = std::mem::take(&mut intake.notes);
    notes.extend(repository::notes(&run.work.task.input_sources, run.dir));
    for result in &run.work.task.result_paths {
        if intake.is_the_disk_full() || intake.is_gone {
            break;
        }
        notes.extend(results::take_in(executor, run, result, &mut intake).await?);
    }
    let mut written_bytes = None;
    if intake.limit.is_the_tasks_own() && intake.spoilt.is_none() {
        written_bytes = executor.written_bytes(run.id).await?;
        let written = written_bytes.unwrap_or_default();
        intake.spoilt = intake.limit.check(WHOLE, written).or_else(|| {
            intake.limit.check(WHOLE_AND_PRINTED, written.saturating_add(printed_bytes))
        });
    }
    let publishing = match intake.is_the_disk_full() {
        true => Publishing::NotAsked,
        false => publishers.publish(run).await,
    };
    output.omitted = intake.omitted.into_list();
    let collected = Collected {
        output,
        tail,
        usage: None,
        curve: None,
        publishing,
        kept_bytes: Some(intake.taken_bytes),
        notes,
        spoilt: intake.spoilt,
    };
    Ok((collected, written_bytes))
}
