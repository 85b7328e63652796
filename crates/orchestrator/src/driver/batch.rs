//! Answers and effects held back until a commit, and their release or refusal after it.

use api_types::NodeId;
use api_types::job::CreateJob;
use control_plane::batch::{self, Held};
use failpoint::Fault;
use scheduler::Scheduler;
use scheduler::change::AssignmentChange;
use scheduler::input::Answer;
use scheduler::time::Moment;
use tokio::sync::{mpsc, oneshot};

use super::streams::Streams;
use super::{CallError, Question, StreamItem};

/// The contents of one commit.
pub(super) type Batch = batch::Batch<Reply>;

/// An answer, with the channel to its caller.
pub(super) enum Reply {
    Answer(Answer, oneshot::Sender<Result<Answer, CallError>>),
    Created(Result<CreateJob, CallError>, oneshot::Sender<Result<CreateJob, CallError>>),
    Stream {
        node: NodeId,
        stream: mpsc::Sender<StreamItem>,
        opened: Result<Vec<AssignmentChange>, CallError>,
        reply: oneshot::Sender<Result<(), CallError>>,
    },
    Question(Question, Moment),
}

/// Releases effects and replies once their changes are on disk. A caller may have disconnected;
/// that is not an error.
pub(super) fn release(batch: Batch, scheduler: &Scheduler, streams: &mut Streams) {
    for held in batch.into_held() {
        match held {
            Held::Effect(effect) => streams.send(effect),
            Held::Reply(reply) => reply.release(scheduler, streams),
        }
    }
}

/// Refuses every caller, because nothing was stored.
pub(super) fn refuse(batch: Batch, scheduler: &Scheduler) {
    for held in batch.into_held() {
        match held {
            Held::Effect(_) => {}
            Held::Reply(reply) => reply.refuse(scheduler),
        }
    }
}

// === impl Reply ===

impl Reply {
    fn release(self, scheduler: &Scheduler, streams: &mut Streams) {
        match self {
            Self::Answer(answer, reply) => drop(reply.send(Ok(answer))),
            Self::Created(created, reply) => {
                // Dropping the sender leaves the caller without an answer, like a broken
                // connection.
                if failpoint::reach_blocking("answer") != Some(Fault::Error) {
                    drop(reply.send(created));
                }
            }
            Self::Stream { node, stream, opened, reply } => {
                let opened = opened.map(|snapshot| streams.open(node, stream, snapshot));
                drop(reply.send(opened));
            }
            Self::Question(question, now) => question(scheduler, now),
        }
    }

    fn refuse(self, scheduler: &Scheduler) {
        match self {
            Self::Answer(_, reply) => drop(reply.send(Err(CallError::StoreUnavailable))),
            Self::Created(_, reply) => drop(reply.send(Err(CallError::StoreUnavailable))),
            Self::Stream { reply, .. } => drop(reply.send(Err(CallError::StoreUnavailable))),
            Self::Question(question, now) => question(scheduler, now),
        }
    }
}
