//! What is gathered until the next commit, in the order in which it is released after it.

use std::collections::HashMap;

use api_types::NodeId;
use api_types::job::CreateJob;
use failpoint::Fault;
use tokio::sync::{mpsc, oneshot};

use super::streams::Streams;
use super::{CallError, StreamItem};
use crate::engine::change::{AssignmentChange, Effect};
use crate::engine::input::Answer;
use crate::engine::{Engine, Output};
use crate::store::IdempotencyRow;

/// One commit's worth.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) output: Output,
    /// Keys first seen in this batch: the store does not know them yet.
    pub(super) keys: HashMap<String, IdempotencyRow>,
    pending: Vec<Pending>,
}

/// What is held back until the commit.
enum Pending {
    Effect(Effect),
    Answer(Answer, oneshot::Sender<Result<Answer, CallError>>),
    Created(Result<CreateJob, CallError>, oneshot::Sender<Result<CreateJob, CallError>>),
    Stream {
        node: NodeId,
        stream: mpsc::Sender<StreamItem>,
        opened: Result<Vec<AssignmentChange>, CallError>,
        reply: oneshot::Sender<Result<(), CallError>>,
    },
    Question(Box<dyn FnOnce(&Engine) + Send>),
}

// === impl Batch ===

impl Batch {
    /// Queues the effects of the input just handled; its answer comes after them.
    pub(super) fn take_effects(&mut self) {
        self.pending.extend(self.output.effects.drain(..).map(Pending::Effect));
    }

    pub(super) fn answer(
        &mut self,
        answer: Answer,
        reply: oneshot::Sender<Result<Answer, CallError>>,
    ) {
        self.pending.push(Pending::Answer(answer, reply));
    }

    pub(super) fn created(
        &mut self,
        created: Result<CreateJob, CallError>,
        reply: oneshot::Sender<Result<CreateJob, CallError>>,
    ) {
        self.pending.push(Pending::Created(created, reply));
    }

    pub(super) fn stream(
        &mut self,
        node: NodeId,
        stream: mpsc::Sender<StreamItem>,
        opened: Result<Vec<AssignmentChange>, CallError>,
        reply: oneshot::Sender<Result<(), CallError>>,
    ) {
        self.pending.push(Pending::Stream { node, stream, opened, reply });
    }

    pub(super) fn question(&mut self, question: Box<dyn FnOnce(&Engine) + Send>) {
        self.pending.push(Pending::Question(question));
    }

    /// Everything claimed is on disk: tell it. Whoever asked may be gone; that is no failure.
    pub(super) fn release(self, engine: &Engine, streams: &mut Streams) {
        for pending in self.pending {
            match pending {
                Pending::Effect(effect) => streams.send(effect),
                Pending::Answer(answer, reply) => drop(reply.send(Ok(answer))),
                Pending::Created(created, reply) => {
                    // Unsent, it leaves the caller without an answer, as a broken connection does.
                    if failpoint::reach_blocking("answer") != Some(Fault::Error) {
                        drop(reply.send(created));
                    }
                }
                Pending::Stream { node, stream, opened, reply } => {
                    let opened = opened.map(|snapshot| streams.open(node, stream, snapshot));
                    drop(reply.send(opened));
                }
                Pending::Question(question) => question(engine),
            }
        }
    }

    /// Nothing was stored: say so to everyone who asked for something.
    pub(super) fn refuse(self, engine: &Engine) {
        for pending in self.pending {
            match pending {
                Pending::Effect(_) => {}
                Pending::Answer(_, reply) => drop(reply.send(Err(CallError::StoreUnavailable))),
                Pending::Created(_, reply) => drop(reply.send(Err(CallError::StoreUnavailable))),
                Pending::Stream { reply, .. } => {
                    drop(reply.send(Err(CallError::StoreUnavailable)));
                }
                Pending::Question(question) => question(engine),
            }
        }
    }
}
