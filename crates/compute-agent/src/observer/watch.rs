//! Observes one step of an execution: timed, counted, and traced when its job is.

use std::future::Future;
use std::sync::Arc;

use api_types::engine::PublisherType;
use api_types::protocol::Work;
use api_types::source::SourceType;
use api_types::{ExecutionId, Timestamp};
use telemetry::metrics::elapsed;
use telemetry::traces::{KeyValue, Kind, Span, Traceparent};

use super::stage::Stage;
use super::state::Observer;
use crate::host::clock;

tokio::task_local! {
    /// The watch of the step that the current task runs.
    static CURRENT: Watch;
}

#[derive(Clone)]
pub(crate) struct Watch {
    pub(super) observer: Arc<Observer>,
    pub(super) id: ExecutionId,
    pub(super) work: Arc<Work>,
    /// The span of the execution, when it is traced.
    pub(super) context: Option<Traceparent>,
}

/// The name of a span, and the attribute that distinguishes it from others of that name.
#[derive(Debug, Clone)]
pub(super) struct Name {
    name: &'static str,
    number: Option<usize>,
    attributes: Vec<KeyValue>,
}

// === impl Observer: watches ===

impl Observer {
    /// Creates the watch of one step of an execution.
    pub(crate) fn watch(self: &Arc<Self>, id: ExecutionId, work: &Arc<Work>) -> Watch {
        Watch {
            observer: Arc::clone(self),
            id,
            work: Arc::clone(work),
            context: self.context(work),
        }
    }
}

// === impl Watch ===

impl Watch {
    pub(super) const RUN: &'static str = "run";
    pub(super) const REPORT: &'static str = "report";

    /// Runs a stage.
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

    /// Runs work that is not a stage before the start; its parts find this watch.
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

/// A part of a stage that has its own span.
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

/// Fetches one input; `bytes` returns the total that this task has fetched so far.
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

/// Publishes an archive of this many bytes.
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
