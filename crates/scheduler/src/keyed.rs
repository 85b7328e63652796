//! Hash maps with a seeded key, in shards: unpredictable from outside, reproducible for a given
//! seed, and without long pauses when they grow.
//!
//! Keys come from outside (chosen IDs, labels), so the hash has a private key, drawn from the
//! scheduler's [`Mint`]. No decision depends on iteration order. One table of a million entries
//! moves all of them when it grows, which took 60 ms; a shard moves a 256th. A map begins with one
//! shard, since 256 empty ones take 8 KB and are slow to walk through. Rejected: `BTreeMap`
//! everywhere, which costs twenty comparisons for each of a million jobs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::ops::Index;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::mint::Mint;

/// Tables of a map with more than [`FEW`] entries; a power of two.
const SHARDS: usize = 256;

/// Up to this many entries share one table. Moving them to all shards takes tens of microseconds.
const FEW: usize = 1024;

/// A map of entries that know their keys.
pub(crate) struct Table<E> {
    key: HashKey,
    /// One, or [`SHARDS`].
    shards: Vec<HashTable<E>>,
    len: usize,
}

/// A key and its value.
pub(crate) type HashMap<K, V> = Table<(K, V)>;

/// What is stored in a [`Table`].
pub(crate) trait Entry {
    type Key: Hash + Eq;
    type Value;

    fn key(&self) -> &Self::Key;
    fn value(&self) -> &Self::Value;
    fn value_mut(&mut self) -> &mut Self::Value;
}

/// A record that holds its key. Boxed, since a table is up to twice as large as its entries.
pub(crate) trait Record {
    type Id: Hash + Eq;

    fn id(&self) -> &Self::Id;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct HashKey {
    key: [u64; 2],
}

// === impl Entry ===

impl<K: Hash + Eq, V> Entry for (K, V) {
    type Key = K;
    type Value = V;

    fn key(&self) -> &K {
        &self.0
    }

    fn value(&self) -> &V {
        &self.1
    }

    fn value_mut(&mut self) -> &mut V {
        &mut self.1
    }
}

impl<R: Record> Entry for Box<R> {
    type Key = R::Id;
    type Value = R;

    fn key(&self) -> &R::Id {
        self.id()
    }

    fn value(&self) -> &R {
        self
    }

    fn value_mut(&mut self) -> &mut R {
        self
    }
}

// === impl Table ===

impl<E: Entry> Table<E> {
    pub(crate) fn with_hasher(key: HashKey) -> Self {
        Self { key, shards: alloc::vec![HashTable::new()], len: 0 }
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&E::Value>
    where
        E::Key: Borrow<Q>,
    {
        let hash = self.key.hash_one(key);
        self.shards[self.shard_of(hash)]
            .find(hash, |entry| entry.key().borrow() == key)
            .map(Entry::value)
    }

    pub(crate) fn get_mut(&mut self, key: &E::Key) -> Option<&mut E::Value> {
        let hash = self.key.hash_one(key);
        let shard = self.shard_of(hash);
        let found = self.shards[shard].find_mut(hash, |entry| entry.key() == key);
        found.map(Entry::value_mut)
    }

    pub(crate) fn contains_key(&self, key: &E::Key) -> bool {
        self.get(key).is_some()
    }

    /// Puts the entry in the place of the one with its key, which it returns.
    pub(crate) fn put(&mut self, entry: E) -> Option<E> {
        let hash = self.key.hash_one(entry.key());
        let shard = self.shard_of(hash);
        if let Some(known) = self.shards[shard].find_mut(hash, |known| known.key() == entry.key()) {
            return Some(core::mem::replace(known, entry));
        }
        if self.len == FEW && self.shards.len() == 1 {
            self.spread();
        }
        self.insert_unique(hash, entry);
        self.len += 1;
        None
    }

    fn insert_unique(&mut self, hash: u64, entry: E) {
        let (hasher, shard) = (self.key, self.shard_of(hash));
        self.shards[shard].insert_unique(hash, entry, |entry| hasher.hash_one(entry.key()));
    }

    /// Moves the entries into all shards.
    fn spread(&mut self) {
        let few = core::mem::take(&mut self.shards);
        self.shards = (0..SHARDS).map(|_| HashTable::new()).collect();
        for entry in few.into_iter().flatten() {
            self.insert_unique(self.key.hash_one(entry.key()), entry);
        }
    }

    /// By other bits of the hash than the table uses for the place within the shard.
    fn shard_of(&self, hash: u64) -> usize {
        usize::from(hash.to_be_bytes()[3]) & (self.shards.len() - 1)
    }

    pub(crate) fn take(&mut self, key: &E::Key) -> Option<E> {
        let hash = self.key.hash_one(key);
        let shard = self.shard_of(hash);
        let entry = self.shards[shard].find_entry(hash, |entry| entry.key() == key).ok()?;
        self.len -= 1;
        Some(entry.remove().0)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&E::Key, &E::Value)> {
        self.shards.iter().flatten().map(|entry| (entry.key(), entry.value()))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &E::Key> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &E::Value> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Hash + Eq, V> HashMap<K, V> {
    /// Inserts the value, and returns the one that was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.put((key, value)).map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.take(key).map(|(_, value)| value)
    }
}

impl<E: Entry> Index<&E::Key> for Table<E> {
    type Output = E::Value;

    fn index(&self, key: &E::Key) -> &E::Value {
        self.get(key).expect("the map has the key")
    }
}

// === impl HashKey ===

impl HashKey {
    pub(crate) fn draw(mint: &mut Mint) -> Self {
        let (high, low) = mint.uuid().as_u64_pair();
        Self { key: [high, low] }
    }
}

impl BuildHasher for HashKey {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.key[0], self.key[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_replaced_and_removed() {
        let mut map = HashMap::with_hasher(HashKey::draw(&mut Mint::from_seed([1; 32])));
        for key in 0..10_000_u32 {
            assert_eq!(map.insert(key, key), None);
        }
        assert_eq!(map.insert(7, 70), Some(7));
        assert_eq!((map.len(), map.iter().count(), map[&7]), (10_000, 10_000, 70));
        let largest = map.shards.iter().map(HashTable::len).max();
        assert!(largest.is_some_and(|largest| largest < 100), "{largest:?} in one shard");
        for key in 0..10_000 {
            assert_eq!(map.remove(&key), Some(if key == 7 { 70 } else { key }));
        }
        assert_eq!((map.remove(&7), map.len(), map.keys().count()), (None, 0, 0));
        assert_eq!((map.insert(7, 7), map.get(&7), map.shards.len()), (None, Some(&7), SHARDS));
    }

    #[test]
    fn a_map_of_few_entries_is_one_table() {
        let mut map = HashMap::with_hasher(HashKey::draw(&mut Mint::from_seed([1; 32])));
        let few = u32::try_from(FEW).unwrap();
        for key in 0..few {
            map.insert(key, ());
        }
        map.insert(0, ());
        assert_eq!((map.shards.len(), map.len()), (1, FEW));
        map.insert(few, ());
        assert_eq!((map.shards.len(), map.iter().count()), (SHARDS, FEW + 1));
        assert!((0..=few).all(|key| map.contains_key(&key)));
    }
}
