//! Who waits for an answer, and how it is released or refused.

use api_types::NodeId;
use api_types::graph::CreateGraph;
use api_types::job::CreateJob;
use control_plane::clock::Reading;
use control_plane::records::RecordRefusal;
use control_plane::step::{Envelope, NotCreated, Refused, Reply};
use failpoint::Fault;
use scheduler::Scheduler;
use scheduler::input::Answer;
use scheduler::time::Moment;
use tokio::sync::{mpsc, oneshot};

use super::error::CallError;
use super::streams::{StreamItem, Streams};
use crate::shares::Permit;

/// What waits for the driver.
pub(crate) type Message = Envelope<Caller, Reading>;

/// A message in the queue, and its place there, if callers share it.
pub(crate) struct Queued {
    pub(super) message: Message,
    pub(super) place: Option<Permit>,
}

/// Is answered from the scheduler's state, and the moment at which the step takes it.
pub(crate) type Question = Box<dyn FnOnce(Result<(&Scheduler, Moment), CallError>) + Send>;

/// The channel to the caller that waits for an answer. A caller that has gone away is no failure.
pub(crate) enum Caller {
    Input(oneshot::Sender<Result<Answer, CallError>>),
    Submit(oneshot::Sender<Result<CreateJob, CallError>>),
    SubmitGraph(oneshot::Sender<Result<CreateGraph, CallError>>),
    Records(oneshot::Sender<Result<(), CallError>>),
    Stream {
        node: NodeId,
        stream: mpsc::Sender<StreamItem>,
        reply: oneshot::Sender<Result<(), CallError>>,
    },
    Question(Question),
}

// === impl Caller ===

impl Caller {
    /// Everything claimed is on disk.
    pub(super) fn release(
        self,
        reply: Reply,
        scheduler: Option<&Scheduler>,
        streams: &mut Streams,
    ) {
        match (self, reply) {
            (Self::Input(caller), Reply::Answer(answer)) => drop(caller.send(Ok(answer))),
            (Self::Submit(caller), Reply::Created(created)) => {
                // Unsent, it leaves the caller without an answer, as a broken connection does.
                if failpoint::reach_blocking("answer") != Some(Fault::Error) {
                    drop(caller.send(created.map_err(CallError::from)));
                }
            }
            (Self::SubmitGraph(caller), Reply::GraphCreated(created)) => {
                drop(caller.send(created.map_err(CallError::from)));
            }
            (Self::Records(caller), Reply::Recorded(recorded)) => {
                drop(caller.send(recorded.map_err(CallError::from)));
            }
            (Self::Stream { node, stream, reply }, Reply::Answer(answer)) => {
                let opened = match answer {
                    Answer::Assignments(snapshot) => {
                        streams.open(node, stream, snapshot);
                        Ok(())
                    }
                    Answer::Refused(refusal) => Err(refusal.into()),
                    other => panic!("opening a stream was answered with {other:?}"),
                };
                drop(reply.send(opened));
            }
            (Self::Records(caller), Reply::Proved) => drop(caller.send(Ok(()))),
            (Self::Question(question), Reply::Asked(now)) => ask(question, scheduler, now),
            (
                Self::Input(_)
                | Self::Submit(_)
                | Self::SubmitGraph(_)
                | Self::Records(_)
                | Self::Stream { .. }
                | Self::Question(_),
                reply,
            ) => panic!("{reply:?} is no answer to the caller's request"),
        }
    }

    /// Questions change nothing, so they are answered all the same.
    pub(super) fn refuse(self, why: Refused, scheduler: Option<&Scheduler>, now: Moment) {
        match self {
            Self::Input(caller) => drop(caller.send(Err(why.into()))),
            Self::Submit(caller) => drop(caller.send(Err(why.into()))),
            Self::SubmitGraph(caller) => drop(caller.send(Err(why.into()))),
            Self::Records(caller) => drop(caller.send(Err(why.into()))),
            Self::Stream { reply, .. } => drop(reply.send(Err(why.into()))),
            Self::Question(question) => ask(question, scheduler, now),
        }
    }
}

fn ask(question: Question, scheduler: Option<&Scheduler>, now: Moment) {
    question(scheduler.map(|scheduler| (scheduler, now)).ok_or(CallError::StoreUnavailable));
}

// === impl CallError ===

impl From<Refused> for CallError {
    fn from(why: Refused) -> Self {
        match why {
            Refused::NotStored => Self::StoreUnavailable,
            Refused::OutcomeUnknown => Self::OutcomeUnknown,
        }
    }
}

impl From<NotCreated> for CallError {
    fn from(why: NotCreated) -> Self {
        match why {
            NotCreated::Refused(refusal) => refusal.into(),
            NotCreated::KeyConflict => Self::IdempotencyConflict,
            NotCreated::Unreadable => Self::StoreUnavailable,
            NotCreated::NoSchedule(key) => RecordRefusal::Changed(key).into(),
        }
    }
}
