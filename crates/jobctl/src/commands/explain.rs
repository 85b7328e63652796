//! `jobctl explain`: what a job waits for, node by node.

use anyhow::Result;
use api_types::explanation::{Explanation, WaitingJob};
use api_types::job::Job;
use api_types::reason::ReasonGroup;
use api_types::summary::ExecutionCounts;
use api_types::words::execution_word;

use crate::cli::ExplainArgs;
use crate::clock;
use crate::exit::Exit;
use crate::handles;
use crate::output::{Cell, Fields, Format, Layout, Table, age, age_of_text, with_local_times};
use crate::session::Session;
use crate::view::{DryRunRow, failed_indexes, job_tone};

pub(super) async fn explain(session: &Session, args: &ExplainArgs) -> Result<Exit> {
    let namespace = session.namespace(&args.namespace);
    let id = handles::job(session, namespace.as_deref(), &args.job).await?;
    let explanation = session.client.explain_job(id).await?;
    match args.output.format {
        Format::Json => session.out.json(&explanation)?,
        Format::Yaml => session.out.yaml(&explanation)?,
        Format::Name => session.out.line(&explanation.job_id.to_string())?,
        Format::Table | Format::Wide => {
            let job = session.client.describe_job(explanation.job_id).await?;
            show(session, &job, &explanation, args.output.format).await?;
        }
    }
    Ok(Exit::Done)
}

async fn show(
    session: &Session,
    job: &Job,
    explanation: &Explanation,
    format: Format,
) -> Result<()> {
    let out = session.out;
    let now = clock::now();
    let state = explanation.state;
    let reserved = explanation.waiting.iter().filter_map(|waiting| waiting.reserved_node);
    let failed = explanation.failures.iter().map(|failure| failure.node_id);
    let asked = explanation.nodes.iter().map(|node| node.node_id);
    let names = session.node_names(reserved.chain(failed).chain(asked)).await;
    let mut fields = Fields::default();
    fields
        .add("Job", format!("{} {}", job.id, job.spec.name))
        .add_toned("State", format!("{state} for {}", age(now, job.modify_time)), job_tone(state))
        .add_some("Why", with_local_times(&explanation.title))
        .add_some("Message", with_local_times(&explanation.message))
        .add("Executions", counts(&explanation.executions))
        .add_some(
            "Failed indexes",
            failed_indexes(&explanation.failed_indexes, explanation.failed_count),
        );
    if let Some(waiting) = &explanation.waiting {
        let since = age_of_text(now, &waiting.since);
        fields
            .add("Waiting", format!("{} for {since}", executions(waiting.slots)))
            .add("Ahead", ahead(waiting));
        if let Some(node) = waiting.reserved_node {
            fields.add("Reserved", format!("{} is kept free for it", names.name_of(node)));
        }
    }
    for gate in &explanation.gates {
        let (held, since) = (executions(gate.slots), age_of_text(now, &gate.since));
        fields.add("Held back", format!("{held} for {since}: {}", gate.message));
    }
    out.fields(&fields)?;
    if !explanation.failures.is_empty() {
        let mut table = Table::new(vec!["EXECUTION", "NODE", "STATE", "AGE", "REASON"]);
        for failure in &explanation.failures {
            table.push(vec![
                Cell::plain(failure.execution_id.short()),
                Cell::plain(names.name_of(failure.node_id)),
                Cell::plain(execution_word(failure.state)),
                Cell::age(age_of_text(now, &failure.time)),
                Cell::plain(&failure.reason),
            ]);
        }
        out.line("\nFailures, the latest first:")?;
        out.table(&table)?;
    }
    if state.is_terminal() {
        return out.line("\nThe job has ended.");
    }
    if !explanation.groups.is_empty() {
        out.line("\nWhy nodes do not take another execution now:")?;
        out.text(&reasons(&explanation.groups))?;
    }
    if explanation.hopeless {
        out.line("No node that has joined can ever take it.")?;
    }
    let rows = DryRunRow::all(&explanation.nodes, &names);
    if rows.is_empty() {
        return out.line("\nThere is no compute node for it: start an agent, or approve one.");
    }
    out.line("\nWhether a node could take another execution now:")?;
    out.list(format, &Layout::for_format(format), &rows)
}

/// A line for each reason.
pub(super) fn reasons(groups: &[ReasonGroup]) -> String {
    groups.iter().map(|group| format!("  {}\n", group.message)).collect()
}

/// `2 in all, 1 running, 1 failed`: what is not zero.
fn counts(counts: &ExecutionCounts) -> String {
    let parts = [
        (counts.waiting, "waiting"),
        (counts.running, "running"),
        (counts.completed, "completed"),
        (counts.failed, "failed"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, word)| format!(", {count} {word}"));
    format!("{} in all{}", counts.total, parts.collect::<String>())
}

fn executions(count: u32) -> String {
    if count == 1 { "1 execution".to_owned() } else { format!("{count} executions") }
}

fn ahead(waiting: &WaitingJob) -> String {
    match (waiting.ahead, waiting.ahead_is_more) {
        (0, false) => "no other job, it is the first in its queue".to_owned(),
        (1, false) => "1 other job".to_owned(),
        (jobs, false) => format!("{jobs} other jobs"),
        (jobs, true) => format!("more than {jobs} other jobs"),
    }
}
