//! `jobctl schedule …`: jobs that start at the times of a cron expression.

use anyhow::{Context, Result};
use api_types::schedule::{PutSchedule, Schedule};
use serde_json::Value;

use super::secrets::{named, place};
use crate::cli::{OneScheduleArgs, ScheduleCommand, SchedulePutArgs};
use crate::clock;
use crate::exit::Exit;
use crate::output::{Layout, local_text, note};
use crate::session::{Session, each};
use crate::submission;
use crate::view::schedule_fields;

pub(super) async fn run(session: &Session, command: &ScheduleCommand) -> Result<Exit> {
    match command {
        ScheduleCommand::List { namespace, output } => {
            let namespace = named(session, namespace);
            let schedules = session.client.list_schedules(namespace.as_deref()).await?.schedules;
            session.out.list(output.format, &Layout::for_format(output.format), &schedules)?;
            Ok(Exit::Done)
        }
        ScheduleCommand::Put(args) => put(session, args).await,
        ScheduleCommand::Describe(args) => {
            let (namespace, name) = place(session, &args.namespace, &args.name)?;
            let described = session.client.describe_schedule(namespace.as_deref(), name).await?;
            let schedule = described.schedule;
            let text = || schedule_fields(&schedule).render(session.out.colours());
            session.out.record(args.output.format, &schedule, &schedule.name, text)?;
            Ok(Exit::Done)
        }
        ScheduleCommand::Runs(args) => {
            let (namespace, name) = place(session, &args.namespace, &args.name)?;
            let runs = session.client.list_schedule_runs(namespace.as_deref(), name).await?.runs;
            let format = args.output.format;
            session.out.list(format, &Layout::for_format(format), &runs)?;
            Ok(Exit::Done)
        }
        ScheduleCommand::Trigger(args) => {
            let (namespace, name) = place(session, &args.namespace, &args.name)?;
            let key = clock::fresh_key();
            let (client, namespace) = (&session.client, namespace.as_deref());
            let created = client.trigger_schedule(namespace, name, Some(&key)).await?;
            created.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
            let id = created.job_id.to_string();
            session.out.record(args.output.format, &created, &id, || format!("{id}\n"))?;
            Ok(Exit::Done)
        }
        ScheduleCommand::Pause(args) => pause(session, args, true).await,
        ScheduleCommand::Resume(args) => pause(session, args, false).await,
        ScheduleCommand::Delete { names, namespace } => {
            each(names, async |name| {
                let (of, name) = place(session, namespace, name)?;
                let deleted = session.client.delete_schedule(of.as_deref(), name).await?.schedule;
                session.out.line(&format!("schedule {} is deleted", full_name(&deleted)))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}

async fn put(session: &Session, args: &SchedulePutArgs) -> Result<Exit> {
    let (namespace, name) = place(session, &args.namespace, &args.name)?;
    let body = submission::read(&args.file)?;
    let mut body: Value = serde_json::from_slice(&body).context("read the job")?;
    let body = PutSchedule {
        cron: args.cron.clone(),
        time_zone: args.time_zone.clone(),
        overlap: args.overlap.clone(),
        catch_up: args.catch_up.clone(),
        catch_up_seconds: args.catch_up_seconds,
        jitter_seconds: args.jitter_seconds,
        paused: Some(args.paused),
        job: job_of(&mut body),
    };
    let put = session.client.put_schedule(namespace.as_deref(), name, &body).await?;
    put.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
    said(session, &put.schedule)
}

/// The job in the body of Create Job.
fn job_of(body: &mut Value) -> Option<Value> {
    let fields = body.as_object_mut()?;
    let wrapped = fields.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case("Job"))?;
    Some(wrapped.1.take())
}

async fn pause(session: &Session, args: &OneScheduleArgs, paused: bool) -> Result<Exit> {
    let (namespace, name) = place(session, &args.namespace, &args.name)?;
    let (client, namespace) = (&session.client, namespace.as_deref());
    let schedule = client.describe_schedule(namespace, name).await?.schedule;
    if schedule.paused == paused {
        return said(session, &schedule);
    }
    let body = PutSchedule {
        cron: schedule.cron,
        time_zone: Some(schedule.time_zone),
        overlap: Some(schedule.overlap.to_string()),
        catch_up: Some(schedule.catch_up.to_string()),
        catch_up_seconds: Some(schedule.catch_up_seconds),
        jitter_seconds: Some(schedule.jitter_seconds),
        paused: Some(paused),
        job: schedule.job,
    };
    said(session, &client.put_schedule(namespace, name, &body).await?.schedule)
}

fn said(session: &Session, schedule: &Schedule) -> Result<Exit> {
    let name = full_name(schedule);
    let text = match schedule.next_times.first() {
        Some(next) => format!("schedule {name} is next due at {}", local_text(next)),
        None if schedule.paused => format!("schedule {name} is paused"),
        None => format!("schedule {name} is never due"),
    };
    session.out.line(&text)?;
    Ok(Exit::Done)
}

fn full_name(schedule: &Schedule) -> String {
    format!("{}/{}", schedule.namespace, schedule.name)
}
