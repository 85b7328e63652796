//! Permits at which namespaces take turns.
//!
//! What an engine does a few at a time is waited for. Were it first come, first served, a namespace
//! with a thousand tasks would have everyone else wait behind all of them. Here, each namespace has
//! a line, and of those that wait, the one that was served longest ago is next.
//!
//! A permit that is held for long must not only come soon but exist: of such permits, a namespace
//! gets another only while it holds less than is free. So one alone gets half of them, two get a
//! third each, and something is left for whoever comes next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The lines before some permits.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<Lines>>);

/// A permit; the next in line gets it when this is dropped.
pub(crate) struct Turn {
    namespace: Arc<str>,
    turns: Turns,
}

struct Lines {
    free: usize,
    /// Whether permits are held for long.
    are_long: bool,
    /// Counts turns.
    clock: u64,
    by_namespace: HashMap<Arc<str>, Line>,
}

#[derive(Default)]
struct Line {
    /// The turn after which it is served: its own last one, or the last of all when it joined.
    after: u64,
    /// Whether that was another's.
    is_new: bool,
    held: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

// === impl Turns ===

impl Turns {
    /// Permits that are held for moments: none is idle while anything waits.
    pub(crate) fn new(permits: usize) -> Self {
        Self::of(permits, false)
    }

    /// Permits that are held for long: some are kept for namespaces that hold none.
    pub(crate) fn long(permits: usize) -> Self {
        Self::of(permits, true)
    }

    fn of(free: usize, are_long: bool) -> Self {
        let lines = Lines { free, are_long, clock: 0, by_namespace: HashMap::new() };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Waits for a permit.
    pub(crate) async fn take(&self, namespace: &str) -> Turn {
        let namespace: Arc<str> = namespace.into();
        let granted = self.lock().join(&namespace);
        self.serve();
        // A sender leaves its line only to send, so this does not fail.
        granted.await.unwrap_or_else(|_| self.turn(&namespace))
    }

    /// A permit if one is free, whoever else waits: for what runs already.
    pub(crate) fn try_take(&self, namespace: &str) -> Option<Turn> {
        let namespace = namespace.into();
        self.lock().grant(&namespace).then(|| self.turn(&namespace))
    }

    /// Hands out what is free.
    fn serve(&self) {
        loop {
            let Some((namespace, sender)) = self.lock().next() else { return };
            // If the waiter has gone in this moment, the next one gets what it leaves.
            if let Err(unwanted) = sender.send(self.turn(&namespace)) {
                drop(unwanted);
            }
        }
    }

    fn turn(&self, namespace: &Arc<str>) -> Turn {
        Turn { namespace: Arc::clone(namespace), turns: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Lines ===

impl Lines {
    fn join(&mut self, namespace: &Arc<str>) -> oneshot::Receiver<Turn> {
        let (sender, granted) = oneshot::channel();
        self.line(namespace).waiting.push_back(sender);
        granted
    }

    fn line(&mut self, namespace: &Arc<str>) -> &mut Line {
        let after = self.clock;
        let line = self.by_namespace.entry(Arc::clone(namespace));
        line.or_insert_with(|| Line { after, is_new: true, ..Line::default() })
    }

    /// Takes the one whose turn it is out of its line, with a permit.
    fn next(&mut self) -> Option<(Arc<str>, oneshot::Sender<Turn>)> {
        for line in self.by_namespace.values_mut() {
            while line.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                line.waiting.pop_front();
            }
        }
        self.by_namespace.retain(|_, line| line.held > 0 || !line.waiting.is_empty());
        let waiting = self.by_namespace.iter().filter(|(_, line)| !line.waiting.is_empty());
        let allowed = waiting.filter(|(_, line)| self.may(line.held));
        let (namespace, _) =
            allowed.min_by_key(|(name, line)| (line.after, !line.is_new, *name))?;
        let namespace = Arc::clone(namespace);
        self.grant(&namespace);
        let sender = self.line(&namespace).waiting.pop_front()?;
        Some((namespace, sender))
    }

    /// Whether a namespace that holds this many gets another.
    fn may(&self, held: usize) -> bool {
        self.free > 0 && (!self.are_long || held < self.free)
    }

    fn grant(&mut self, namespace: &Arc<str>) -> bool {
        let held = self.by_namespace.get(namespace).map_or(0, |line| line.held);
        if !self.may(held) {
            return false;
        }
        self.free -= 1;
        self.clock += 1;
        let clock = self.clock;
        let line = self.line(namespace);
        line.held += 1;
        (line.after, line.is_new) = (clock, false);
        true
    }

    fn give_back(&mut self, namespace: &Arc<str>) {
        self.free += 1;
        let line = self.line(namespace);
        line.held = line.held.saturating_sub(1);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().give_back(&self.namespace);
        self.turns.serve();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    #[tokio::test]
    async fn a_long_line_of_one_namespace_is_one_in_turn_with_others() {
        let turns = Turns::new(1);
        let [a, b, _] = NAMES;
        let first = turns.take(a).await;
        let mut of_a: Vec<_> = (0..100).map(|_| turns.take(a).boxed()).collect();
        for waiting in &mut of_a {
            assert!(waiting.now_or_never().is_none());
        }
        let mut of_b = turns.take(b).boxed();
        assert!((&mut of_b).now_or_never().is_none());
        drop(first);
        assert!(of_b.now_or_never().is_some(), "the second namespace is next");
    }

    #[tokio::test]
    async fn short_permits_are_never_idle_and_long_ones_are_kept_for_others() {
        let [a, b, c] = NAMES;
        let short = Turns::new(4);
        let held: Vec<_> = (0..4).map_while(|_| short.take(a).now_or_never()).collect();
        assert_eq!(held.len(), 4);
        let long = Turns::long(6);
        let count = |turns: &Turns, namespace| {
            std::iter::from_fn(|| turns.take(namespace).now_or_never()).collect::<Vec<_>>()
        };
        let of_a = count(&long, a);
        let of_b = count(&long, b);
        let of_c = count(&long, c);
        assert_eq!((of_a.len(), of_b.len(), of_c.len()), (3, 2, 1));
        // What is free is not held back from one that may have it.
        drop((of_b, of_c));
        assert_eq!(count(&long, c).len(), 2);
        drop(of_a);
        assert_eq!(count(&long, c).len(), 3);
    }

    #[tokio::test]
    async fn those_who_leave_their_line_take_no_permit_along() {
        let turns = Turns::new(1);
        let [a, b, _] = NAMES;
        let held = turns.take(a).await;
        for _ in 0..10_000 {
            assert!(turns.take(b).now_or_never().is_none());
        }
        let mut last = turns.take(a).boxed();
        assert!((&mut last).now_or_never().is_none());
        drop(held);
        drop(last.await);
        assert!(turns.try_take(b).is_some());
        assert_eq!(turns.lock().free, 1);
        drop(turns.take(a).await);
        assert!(turns.lock().by_namespace.is_empty(), "lines are forgotten");
    }
}
