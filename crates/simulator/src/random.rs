//! The only source of randomness.

use std::ops::Range;
use std::time::Duration;

/// A small generator with a good distribution (SplitMix64), identical on every platform.
pub struct Random {
    state: u64,
}

// === impl Random ===

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in the range, which must not be empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns true with a probability of `per_mille` in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.within(0..1000) < per_mille
    }

    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range.start * 1000..range.end * 1000))
    }

    /// A number in 0..1.
    pub(crate) fn fraction(&mut self) -> f64 {
        let thousandths = u32::try_from(self.within(0..1000)).expect("a small number");
        f64::from(thousandths) / 1000.0
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.within(0..u64::try_from(choices.len()).expect("a short list"));
        choices[usize::try_from(at).expect("an index of a short list")]
    }

    pub(crate) fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        for chunk in seed.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes());
        }
        seed
    }
}
