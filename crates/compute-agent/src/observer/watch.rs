//! One step of an execution while it is carried out: timed, counted, and traced when its job is.

use std::future::Future;
use std::sync::Arc;

use api_types::engine::PublisherType;
use api_types::protocol::Work;
use api_types::source::SourceType;
use api_types::{ExecutionId, Timestamp};
use telemetry::metrics::elapsed;
use telemetry::traces::{KeyValue, Kind, Span, Traceparent};

use super::Observer;
use crate::clock;

tokio::task_local! {
    /// Of the step that this task carries out.
    static CURRENT: Watch;
}

/// A part of the way from an acceptance to a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Until the orchestrator says that it may run.
    GoAhead,
    Inputs,
    /// Pulling the image or compiling the module, and making the container.
    Make,
    Start,
}

#[derive(Clone)]
pub(crate) struct Watch {
    pub(super) observer: Arc<Observer>,
    pub(super) id: ExecutionId,
    pub(super) work: Arc<Work>,
    /// The span of the execution, when it is traced.
    pub(super) context: Option<Traceparent>,
}

/// What a span is called, and what tells it from others of that name.
#[derive(Debug, Clone)]
pub(super) struct Name {
    name: &'static str,
    number: Option<usize>,
    attributes: Vec<KeyValue>,
}

// === impl Stage ===

impl Stage {
    /// As a label has it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::GoAhead => "go_ahead",
            Self::Inputs => "inputs",
            Self::Make => "make",
            Self::Start => "start",
        }
    }

    const fn span(self) -> &'static str {
        match self {
            Self::GoAhead => "go ahead",
            Self::Inputs => "fetch inputs",
            Self::Make => "make",
            Self::Start => "start",
        }
    }
}

// === impl Watch ===

impl Watch {
    pub(super) const RUN: &'static str = "run";
    pub(super) const REPORT: &'static str = "report";

    /// Carries a stage out.
    pub(crate) async fn stage<T, E: ToString>(
        &self,
        stage: Stage,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let from = clock::now();
        let inside = Self {
            context: self.context.map(|at| at.child(self.id.uuid(), stage.span())),
            ..self.clone()
        };
        let outcome = CURRENT.scope(inside, work).await;
        let to = clock::now();
        let took = elapsed(to.since(from));
        self.observer.metrics.stage(&self.work, stage, took);
        tracing::debug!(
            stage = stage.word(),
            seconds = took,
            done = outcome.is_ok(),
            "a stage is over"
        );
        self.span(stage.span(), from, to, outcome.as_ref().err().map(ToString::to_string));
        outcome
    }

    /// Carries out what is no stage of the way to a start; parts of it find this watch.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    pub(super) fn span(
        &self,
        name: &'static str,
        from: Timestamp,
        to: Timestamp,
        error: Option<String>,
    ) {
        self.named(Name { name, number: None, attributes: Vec::new() }, from, to, error);
    }

    fn named(&self, what: Name, from: Timestamp, to: Timestamp, error: Option<String>) {
        let Some(parent) = self.context else { return };
        let Name { name, number, mut attributes } = what;
        let key = number.map_or_else(|| name.to_owned(), |number| format!("{name} {number}"));
        attributes.push(KeyValue::new("job.id", self.work.job_id.to_string()));
        attributes.push(KeyValue::new("execution.id", self.id.to_string()));
        self.observer.record(Span {
            name,
            at: parent.child(self.id.uuid(), &key),
            parent: Some(parent),
            kind: Kind::Internal,
            from,
            to,
            attributes,
            links: Vec::new(),
            error,
        });
    }
}

/// A part of a stage that is worth a span of its own.
pub(crate) async fn part<T, E: ToString>(
    name: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Ok(watch) = CURRENT.try_with(Watch::clone) else { return work.await };
    let from = clock::now();
    let outcome = work.await;
    watch.span(name, from, clock::now(), outcome.as_ref().err().map(ToString::to_string));
    outcome
}

/// Fetches one input; `bytes` tells how much this task has fetched so far.
pub(crate) async fn fetch<T, E: ToString>(
    kind: SourceType,
    index: usize,
    bytes: impl Fn() -> u64,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Ok(watch) = CURRENT.try_with(Watch::clone) else { return work.await };
    let (from, before) = (clock::now(), bytes());
    let outcome = work.await;
    let (to, fetched) = (clock::now(), bytes().saturating_sub(before));
    let took = elapsed(to.since(from));
    watch.observer.metrics.fetched(kind, outcome.is_ok(), fetched, took);
    let attributes = vec![
        KeyValue::new("input.index", i64::try_from(index).unwrap_or(i64::MAX)),
        KeyValue::new("input.type", kind.to_string()),
        KeyValue::new("input.bytes", i64::try_from(fetched).unwrap_or(i64::MAX)),
    ];
    let name = Name { name: "fetch input", number: Some(index), attributes };
    watch.named(name, from, to, outcome.as_ref().err().map(ToString::to_string));
    outcome
}

/// Publishes an archive of so many bytes.
pub(crate) async fn publish<T, E: ToString>(
    kind: PublisherType,
    work: impl Future<Output = (u64, Result<T, E>)>,
) -> Result<T, E> {
    let Ok(watch) = CURRENT.try_with(Watch::clone) else { return work.await.1 };
    let from = clock::now();
    let (bytes, outcome) = work.await;
    let to = clock::now();
    watch.observer.metrics.published(kind, outcome.is_ok(), bytes, elapsed(to.since(from)));
    let attributes = vec![
        KeyValue::new("publisher.type", kind.to_string()),
        KeyValue::new("archive.bytes", i64::try_from(bytes).unwrap_or(i64::MAX)),
    ];
    let name = Name { name: "publish", number: None, attributes };
    watch.named(name, from, to, outcome.as_ref().err().map(ToString::to_string));
    outcome
}
