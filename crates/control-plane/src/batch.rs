//! One commit: the changes of its inputs, and the effects held until they are durable.
//!
//! Replies may be of any type: the daemon holds channels, the simulator requests.

use std::collections::HashMap;

use scheduler::change::Effect;
use scheduler::input::{Answer, Input};
use scheduler::time::{Moment, Now};
use scheduler::{Output, Scheduler};

use crate::clock::Stamp;
use crate::store::{Commit, IdempotencyRow, KEY_RETENTION, RequestKey, Store, StoreError};

pub struct Batch<R> {
    pub output: Output,
    /// Keys first seen in this batch: the store does not have them yet.
    keys: HashMap<RequestKey, IdempotencyRow>,
    /// In the order of release.
    held: Vec<Held<R>>,
}

/// What is released after the commit.
#[derive(Debug)]
pub enum Held<R> {
    Effect(Effect),
    Reply(R),
}

// === impl Batch ===

impl<R> Default for Batch<R> {
    fn default() -> Self {
        Self { output: Output::default(), keys: HashMap::new(), held: Vec::new() }
    }
}

impl<R> Batch<R> {
    /// Hands one input to the scheduler. Its effects are held before the reply to it.
    pub fn handle(&mut self, scheduler: &mut Scheduler, now: Now, input: Input) -> Answer {
        let answer = scheduler.handle(now, input, &mut self.output);
        self.held.extend(self.output.effects.drain(..).map(Held::Effect));
        answer
    }

    /// Holds a reply until the commit.
    pub fn hold(&mut self, reply: R) {
        self.held.push(Held::Reply(reply));
    }

    /// The answer to the first request with this key, in this batch or before it.
    pub fn first_answer(
        &self,
        store: &mut dyn Store,
        key: &RequestKey,
        now: Moment,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        match self.keys.get(key) {
            Some(row) => Ok(Some(row.clone())),
            None => store.idempotency(key, oldest_key(now)),
        }
    }

    /// The answer for repeated requests with this key.
    pub fn remember(&mut self, row: IdempotencyRow) {
        self.keys.insert(row.key.clone(), row);
    }

    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.output.changes.is_empty() && self.keys.is_empty()
    }

    /// The number of idempotency keys in the batch.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Makes all of it durable, or nothing.
    pub fn commit(
        &self,
        store: &mut dyn Store,
        number: u64,
        stamp: Stamp,
    ) -> Result<(), StoreError> {
        let keys: Vec<_> = self.keys.values().cloned().collect();
        store.commit(&Commit { number, stamp, changes: &self.output.changes, keys: &keys })
    }

    /// The held effects and replies, in the order of release.
    pub fn into_held(self) -> Vec<Held<R>> {
        self.held
    }
}

/// Keys older than this are forgotten.
pub fn oldest_key(now: Moment) -> Moment {
    now.before(KEY_RETENTION)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api_types::{JobId, Timestamp};
    use scheduler::Settings;
    use scheduler::mint::Mint;
    use uuid::Uuid;

    use super::*;
    use crate::clock::{Reading, UNKNOWN_BOOT};
    use crate::store::memory::MemoryStore;

    const NOW: Moment = Moment(1_000_000_000);
    const WALL: Timestamp = Timestamp(1_700_000_000_000_000_000);
    const STAMP: Stamp =
        Stamp { reading: Reading { boot_id: UNKNOWN_BOOT, boot: 0, wall: WALL }, moment: NOW };

    fn key(namespace: &str) -> RequestKey {
        RequestKey { namespace: namespace.to_owned(), key: "k".to_owned() }
    }

    #[test]
    fn a_key_is_known_before_and_after_its_commit() {
        let mut store = MemoryStore::default();
        let mut first = Batch::<()>::default();
        let known = |batch: &Batch<()>, store: &mut MemoryStore, namespace, now| {
            let row = batch.first_answer(store, &key(namespace), now).unwrap();
            row.map(|row| row.answer)
        };
        assert_eq!(known(&first, &mut store, "one", NOW), None);
        assert!(first.is_empty());
        first.remember(IdempotencyRow {
            key: key("one"),
            body_hash: [1; 32],
            answer: "first".to_owned(),
            stored_at: NOW,
        });
        assert!(!first.is_empty(), "a key alone is worth a commit");
        assert_eq!(first.keys(), 1);
        assert_eq!(known(&first, &mut store, "one", NOW).unwrap(), "first");
        assert_eq!(known(&first, &mut store, "other", NOW), None);
        first.commit(&mut store, 1, STAMP).unwrap();
        let next = Batch::<()>::default();
        assert_eq!(known(&next, &mut store, "one", NOW).unwrap(), "first");
        assert_eq!(known(&next, &mut store, "other", NOW), None);
        let later = NOW + KEY_RETENTION + Duration::from_secs(1);
        assert_eq!(known(&next, &mut store, "one", later), None);
    }

    #[test]
    fn replies_are_released_in_the_order_of_their_inputs() {
        let mut scheduler = Scheduler::new(Settings::default(), Mint::from_seed([1; 32]));
        let mut batch = Batch::default();
        for number in [1, 2] {
            let job = JobId::from_uuid(Uuid::from_u128(number));
            let input = Input::Stop { job, reason: String::new() };
            let answer = batch.handle(&mut scheduler, Now { moment: NOW, wall: WALL }, input);
            assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
            batch.hold(number);
        }
        assert!(batch.is_empty(), "a refusal changes nothing");
        let replies = batch.into_held().into_iter().map(|held| match held {
            Held::Reply(number) => number,
            Held::Effect(effect) => panic!("a refusal has no effects: {effect:?}"),
        });
        assert_eq!(replies.collect::<Vec<_>>(), [1, 2]);
    }
}
