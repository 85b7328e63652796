//! Hash maps with a seeded key: unpredictable from outside, reproducible for a given seed.
//!
//! Keys come from outside (chosen IDs, labels), so the hash has a key of its own, drawn from the
//! scheduler's [`Mint`]. No decision depends on iteration order. Rejected: `BTreeMap` everywhere,
//! which costs twenty comparisons for each of a million jobs.

use core::hash::BuildHasher;

use siphasher::sip::SipHasher13;

use crate::mint::Mint;

pub(crate) type HashMap<K, V> = hashbrown::HashMap<K, V, HashKey>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct HashKey {
    key: [u64; 2],
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
