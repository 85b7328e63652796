//! Requests as the step takes them, and assignments as agents get them.

use std::sync::Arc;

use api_types::protocol::{Assignment, FailureCause, ProbeOutcome, Report, Work};
use control_plane::clock::Stamp;
use control_plane::records::{Expected, RecordWrite};
use control_plane::step::{self, DueTime, Envelope, IdempotencyKey, Origin, Submission};
use scheduler::Entitlement;
use scheduler::change::AssignmentChange;
use scheduler::input::{Input, Submit};

use super::disk::Disk;
use super::times::LEASE;
use crate::network::{Caller, Request, RequestBody, Sender};
use crate::schedule;
use crate::summary::Sabotage;
use crate::{groups, quotas, shares};

pub(super) fn envelope(
    request: Request,
    arrived: Stamp,
    sabotage: Option<Sabotage>,
) -> Envelope<Caller> {
    let caller = request.caller();
    let input = match request.body {
        RequestBody::Join { node, record } => Input::Join { node, request: record },
        RequestBody::Heartbeat { node, mut heartbeat } => {
            heartbeat.probed = mishear(heartbeat.probed, sabotage);
            Input::Heartbeat { node, heartbeat }
        }
        RequestBody::Open { node, session, .. } => Input::OpenAssignments { node, session },
        RequestBody::Reports { node, session, mut reports } => {
            reports.iter_mut().for_each(|report| blame(report, sabotage));
            Input::Reports { node, session, reports }
        }
        RequestBody::Stop { job } => Input::Stop { job, reason: "simulated".to_owned() },
        RequestBody::PutSecret { key } => {
            let write =
                RecordWrite { key, expected: Expected::Anything, value: Some("sealed".into()) };
            return enclose(step::Request::Records(vec![write]), arrived, caller);
        }
        RequestBody::PutGroup { name, limit, is_stored: true } => {
            let write = groups::write(&name, limit);
            return enclose(step::Request::Records(vec![write]), arrived, caller);
        }
        RequestBody::PutGroup { name, limit, .. } => {
            Input::Group { namespace: "default".to_owned(), name, limit: Some(limit) }
        }
        RequestBody::PutQuota { cpu_millis, executions, is_stored: true } => {
            let write = quotas::write(cpu_millis, executions);
            return enclose(step::Request::Records(vec![write]), arrived, caller);
        }
        RequestBody::PutQuota { cpu_millis, executions, .. } => {
            let quota = quotas::quota(cpu_millis, executions);
            let to = Entitlement { quota, ..Entitlement::default() };
            Input::Entitle { namespace: quotas::NAMESPACE.to_owned(), to }
        }
        RequestBody::PutWeight { namespace, weight: Some(weight) } => {
            let write = shares::write(&namespace, weight);
            return enclose(step::Request::Records(vec![write]), arrived, caller);
        }
        RequestBody::PutWeight { namespace, weight: None } => {
            let to = Entitlement { weight: u64::MAX, ..Entitlement::default() };
            Input::Entitle { namespace, to }
        }
        RequestBody::Forget { node, now } => Input::ForgetNode { node, now },
        RequestBody::Act { node, action } => {
            Input::NodeAction { node, action, message: String::new() }
        }
        RequestBody::Submit { key, submit } => {
            let key = Some(IdempotencyKey { key, body_hash: [0; 32] });
            let warnings = Vec::new();
            let mut submit = *submit;
            misread(&mut submit, sabotage);
            let submission = Submission { submit, id_given: false, warnings, key };
            return enclose(step::Request::Submit(Box::new(submission)), arrived, caller);
        }
    };
    enclose(step::Request::Input(input), arrived, caller)
}

/// A due time that the runner has checked.
pub(super) fn due_run(time: DueTime, number: u64, arrived: Stamp) -> Envelope<Caller> {
    let caller = Caller { sender: Sender::Runner, number: 0, stream: None };
    let run = Box::new(schedule::checked(time, number));
    enclose(step::Request::Due(run), arrived, caller)
}

/// Sabotage: the cause of a failure is mistaken.
fn blame(report: &mut Report, sabotage: Option<Sabotage>) {
    match (report.cause, sabotage) {
        (FailureCause::Node, Some(Sabotage::BlameTasks)) => report.cause = FailureCause::Task,
        (FailureCause::Node, Some(Sabotage::BlameImages)) => report.cause = FailureCause::Fetch,
        (FailureCause::Fetch, Some(Sabotage::BlameRoom)) => report.cause = FailureCause::Room,
        (FailureCause::Publish, Some(Sabotage::RunUnpublishedAgain)) => {
            report.cause = FailureCause::Task;
        }
        (FailureCause::Refused, Some(Sabotage::BlameNodes)) => report.cause = FailureCause::Node,
        (FailureCause::Refused, Some(Sabotage::TryRefusedAgain)) => {
            report.cause = FailureCause::Fetch;
        }
        _ => {}
    }
}

/// Sabotage: what a probe said is mistaken.
pub(super) fn mishear(
    probed: Option<ProbeOutcome>,
    sabotage: Option<Sabotage>,
) -> Option<ProbeOutcome> {
    let outcome = probed?;
    match (&outcome.failure, sabotage) {
        (None, Some(Sabotage::ForgetPassedProbes)) => None,
        (Some(_), Some(Sabotage::OverlookFailedProbes)) => {
            Some(ProbeOutcome { failure: None, ..outcome })
        }
        _ => Some(outcome),
    }
}

/// Sabotage: the scheduler gets another patience than the job asks for, or another namespace.
fn misread(submit: &mut Submit, sabotage: Option<Sabotage>) {
    let lease = LEASE.as_secs();
    if sabotage == Some(Sabotage::BelieveOneNamespace) {
        let id = submit.id.to_string();
        Arc::make_mut(&mut submit.spec).namespace = id;
    }
    if !matches!(sabotage, Some(Sabotage::ForgetLostAfter | Sabotage::FillInPatience)) {
        return;
    }
    for task in &mut Arc::make_mut(&mut submit.spec).tasks {
        match sabotage {
            Some(Sabotage::ForgetLostAfter) => task.timeouts.lost_after = 0,
            Some(Sabotage::FillInPatience) if task.timeouts.lost_after == 0 => {
                task.timeouts.lost_after = lease;
            }
            _ => {}
        }
    }
}

fn enclose(request: step::Request, arrived: Stamp, caller: Caller) -> Envelope<Caller> {
    let origin = match caller.sender {
        Sender::Agent { .. } => Origin::Node,
        Sender::Client { .. } | Sender::Runner => Origin::User,
    };
    Envelope { origin, arrived: arrived.now(), request, audit: None, caller }
}

pub(super) fn assignment(disk: &Disk, change: AssignmentChange) -> Assignment {
    let work = change.work.map(|order| {
        let spec = &disk.specs[&order.job];
        Work {
            job_id: order.job,
            job_name: spec.name.clone(),
            namespace: spec.namespace.clone(),
            job_type: spec.job_type,
            index: order.index,
            count: order.count,
            resources: order.resources.into(),
            task: spec.tasks.first().expect("a job has a task").clone(),
            no_capabilities: false,
            traceparent: None,
        }
    });
    Assignment {
        execution_id: change.execution,
        desired_state: change.desired,
        compute_state: change.compute,
        message: change.message.to_string(),
        work,
    }
}
