//! Deterministic IDs for what the scheduler creates, from a given seed.

use api_types::{EvaluationId, ExecutionId};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use uuid::Uuid;

/// A stream of random ids; the same seed gives the same ids.
pub struct Mint {
    random: ChaCha8Rng,
}

// === impl Mint ===

impl Mint {
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self { random: ChaCha8Rng::from_seed(seed) }
    }

    pub(crate) fn execution(&mut self) -> ExecutionId {
        ExecutionId::from_uuid(self.uuid())
    }

    pub(crate) fn evaluation(&mut self) -> EvaluationId {
        EvaluationId::from_uuid(self.uuid())
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.random.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}
