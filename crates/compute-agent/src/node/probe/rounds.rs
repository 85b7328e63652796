//! Probes that run one at a time for each engine, and are shared by all that ask before they begin.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use api_types::engine::EngineType;
use tokio::sync::watch;

use crate::node::tasks::Tasks;

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Works,
    /// The node is at fault.
    Fails(String),
    /// The probe could not be made, which says nothing.
    Unknown(String),
}

type Ended = watch::Receiver<Option<Outcome>>;

/// `S` is what a probe is about.
pub(super) struct Rounds<S> {
    /// Probes that have not begun.
    waiting: Arc<Mutex<Vec<(S, Ended)>>>,
    /// Each is held while a probe of the engine runs.
    alone: BTreeMap<EngineType, Arc<tokio::sync::Mutex<()>>>,
}

// === impl Rounds ===

impl<S: Clone + PartialEq + Send + 'static> Rounds<S> {
    pub(super) fn new(engines: impl Iterator<Item = EngineType>) -> Self {
        let alone = engines.map(|engine| (engine, Arc::default())).collect();
        Self { waiting: Arc::default(), alone }
    }

    /// The outcome of a probe that begins after this call.
    pub(super) async fn ask<F>(
        &self,
        tasks: &Tasks,
        engine: EngineType,
        subject: S,
        probe: impl FnOnce(S) -> F,
    ) -> Outcome
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let Some(alone) = self.alone.get(&engine).map(Arc::clone) else {
            return Outcome::Unknown(format!("this node has no engine '{engine}'"));
        };
        let mut ended = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.iter().find(|(other, _)| *other == subject) {
                Some((_, ended)) => ended.clone(),
                None => {
                    let (end, ended) = watch::channel(None);
                    waiting.push((subject.clone(), ended.clone()));
                    let (queue, probing) = (Arc::clone(&self.waiting), probe(subject.clone()));
                    // It goes on when those that asked give up: the next would only wait for it.
                    tasks.spawn(async move {
                        let _alone = alone.lock_owned().await;
                        begun(&queue, &subject);
                        end.send_replace(Some(probing.await));
                    });
                    ended
                }
            }
        };
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            Ok(None) | Err(_) => Outcome::Unknown("the agent is stopping".to_owned()),
        }
    }
}

/// A failure that asks from now on gets the next one.
fn begun<S: PartialEq>(waiting: &Mutex<Vec<(S, Ended)>>, subject: &S) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.retain(|(other, _)| other != subject);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::runtime::Handle;
    use tokio::sync::Semaphore;

    use super::*;

    const ENGINE: EngineType = EngineType::Noop;

    /// A probe that counts itself and waits for a permit.
    #[derive(Clone)]
    struct Counted {
        begun: Arc<AtomicU32>,
        running: Arc<AtomicU32>,
        permits: Arc<Semaphore>,
    }

    impl Counted {
        fn new() -> Self {
            let permits = Arc::new(Semaphore::new(0));
            Self { begun: Arc::default(), running: Arc::default(), permits }
        }

        async fn run(self) -> Outcome {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
            self.permits.acquire().await.unwrap().forget();
            self.running.fetch_sub(1, Ordering::SeqCst);
            Outcome::Fails(number.to_string())
        }

        async fn begins(&self, number: u32) {
            while self.begun.load(Ordering::SeqCst) < number {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    #[tokio::test]
    async fn a_burst_of_failures_costs_two_probes_and_each_gets_one_that_began_after_it() {
        let (rounds, counted) = (Arc::new(Rounds::new([ENGINE].into_iter())), Counted::new());
        let tasks = Tasks::new(Handle::current());
        let ask = |subject: u32| {
            let (rounds, tasks, counted) = (Arc::clone(&rounds), tasks.clone(), counted.clone());
            let asking =
                async move { rounds.ask(&tasks, ENGINE, subject, |_| counted.run()).await };
            tokio::spawn(asking)
        };
        let first = ask(0);
        counted.begins(1).await;
        let later: Vec<_> = (0..100).map(|_| ask(0)).collect();
        let other = ask(1);
        tokio::task::yield_now().await;
        counted.permits.add_permits(3);
        assert_eq!(first.await.unwrap(), Outcome::Fails("1".to_owned()));
        for asked in later {
            assert_eq!(asked.await.unwrap(), Outcome::Fails("2".to_owned()));
        }
        assert_eq!(other.await.unwrap(), Outcome::Fails("3".to_owned()));
        assert_eq!(counted.begun.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn an_agent_that_stops_ends_its_probe() {
        let (rounds, counted) = (Rounds::new([ENGINE].into_iter()), Counted::new());
        let tasks = Tasks::new(Handle::current());
        let probe = counted.clone();
        let asking = rounds.ask(&tasks, ENGINE, 0, |_| probe.run());
        let stopping = async {
            counted.begins(1).await;
            tasks.stop().await;
        };
        let (outcome, ()) = tokio::join!(asking, stopping);
        assert_eq!(outcome, Outcome::Unknown("the agent is stopping".to_owned()));
    }
}
