//! Hash maps with a seeded key, in shards: unpredictable from outside, reproducible for a given
//! seed, and without long pauses when they grow.
//!
//! Keys come from outside (chosen IDs, labels), so the hash has a key of its own, drawn from the
//! scheduler's [`Mint`]. No decision depends on iteration order. One table of a million entries
//! moves all of them when it grows, which took 60 ms; a shard moves a 256th. Rejected: `BTreeMap`
//! everywhere, which costs twenty comparisons for each of a million jobs.

use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::ops::Index;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::mint::Mint;

/// Tables of one map.
const SHARDS: usize = 256;

pub(crate) struct HashMap<K, V> {
    key: HashKey,
    shards: Vec<HashTable<(K, V)>>,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct HashKey {
    key: [u64; 2],
}

// === impl HashMap ===

impl<K: Hash + Eq, V> HashMap<K, V> {
    pub(crate) fn with_hasher(key: HashKey) -> Self {
        Self { key, shards: (0..SHARDS).map(|_| HashTable::new()).collect(), len: 0 }
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let hash = self.key.hash_one(key);
        self.shards[shard_of(hash)]
            .find(hash, |(known, _)| known.borrow() == key)
            .map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.key.hash_one(key);
        let found = self.shards[shard_of(hash)].find_mut(hash, |(known, _)| known == key);
        found.map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Inserts the value, and returns the one that was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(&key) {
            return Some(core::mem::replace(known, value));
        }
        let hasher = self.key;
        let hash = hasher.hash_one(&key);
        let shard = &mut self.shards[shard_of(hash)];
        shard.insert_unique(hash, (key, value), |(key, _)| hasher.hash_one(key));
        self.len += 1;
        None
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.key.hash_one(key);
        let shard = &mut self.shards[shard_of(hash)];
        let entry = shard.find_entry(hash, |(known, _)| known == key).ok()?;
        let ((_, value), _) = entry.remove();
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter().map(|(key, value)| (key, value)))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Hash + Eq, V> Index<&K> for HashMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the map has the key")
    }
}

/// By other bits of the hash than the table uses for the place within the shard.
fn shard_of(hash: u64) -> usize {
    usize::from(hash.to_be_bytes()[3])
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
    }
}
