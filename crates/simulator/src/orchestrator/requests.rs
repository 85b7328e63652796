//! Requests as the step takes them, and assignments as agents get them.

use api_types::job::JobSpec;
use api_types::protocol::{Assignment, Work};
use control_plane::clock::Stamp;
use control_plane::records::{Expected, RecordWrite};
use control_plane::step::{self, Envelope, IdempotencyKey, Origin, Submission};
use control_plane::store::memory::MemoryStore;
use scheduler::change::AssignmentChange;
use scheduler::input::Input;

use crate::network::{Request, RequestBody, Sender};

pub(super) fn envelope(request: Request, arrived: Stamp) -> Envelope<Request> {
    let input = match request.body.clone() {
        RequestBody::Join { node, record } => Input::Join { node, request: record },
        RequestBody::Heartbeat { node, heartbeat } => Input::Heartbeat { node, heartbeat },
        RequestBody::Open { node, session, .. } => Input::OpenAssignments { node, session },
        RequestBody::Reports { node, session, reports } => {
            Input::Reports { node, session, reports }
        }
        RequestBody::Stop { job } => Input::Stop { job, reason: "simulated".to_owned() },
        RequestBody::PutSecret { key } => {
            let write =
                RecordWrite { key, expected: Expected::Anything, value: Some("sealed".into()) };
            return enclose(step::Request::Records(vec![write]), arrived, request);
        }
        RequestBody::Act { node, action } => {
            Input::NodeAction { node, action, message: String::new() }
        }
        RequestBody::Submit { key, submit } => {
            let key = Some(IdempotencyKey { key, body_hash: [0; 32] });
            let warnings = Vec::new();
            let submission = Submission { submit: *submit, id_given: false, warnings, key };
            return enclose(step::Request::Submit(Box::new(submission)), arrived, request);
        }
    };
    enclose(step::Request::Input(input), arrived, request)
}

fn enclose(request: step::Request, arrived: Stamp, caller: Request) -> Envelope<Request> {
    let origin = match caller.sender {
        Sender::Agent { .. } => Origin::Node,
        Sender::Client { .. } => Origin::User,
    };
    Envelope { origin, arrived: arrived.now(), request, audit: None, caller }
}

pub(super) fn assignment(store: &MemoryStore, change: AssignmentChange) -> Assignment {
    let work = change.work.map(|order| {
        let job = &store.new_jobs[&order.job];
        let spec: JobSpec =
            serde_json::from_str(&job.spec_json).expect("a stored specification is readable");
        Work {
            job_id: order.job,
            job_name: spec.name,
            namespace: spec.namespace,
            job_type: spec.job_type,
            index: order.index,
            count: order.count,
            resources: order.resources.into(),
            task: spec.tasks.into_iter().next().expect("a job has a task"),
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
