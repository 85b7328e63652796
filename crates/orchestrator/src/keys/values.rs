//! Values that the key ring encrypts, each for its own place.

use control_plane::records::RecordWrite;
use zeroize::Zeroizing;

use super::KeyRing;
use super::error::KeyError;
use super::sealing::{Sealed, SealingKey};
use super::stored::{self, Purpose};
use crate::records::Published;

// === impl KeyRing ===

impl KeyRing {
    /// Encrypts a value with the newest key. The first one makes that key, which is to be stored in
    /// the same commit.
    pub(crate) fn seal_value(
        &self,
        records: &Published,
        place: &str,
        value: &[u8],
    ) -> Result<(Sealed, Vec<RecordWrite>), KeyError> {
        let (key, writes) = self.newest(records)?;
        Ok((key.seal(place, value)?, writes))
    }

    /// The value, if it was sealed for this place.
    pub(crate) fn unseal_value(
        &self,
        records: &Published,
        place: &str,
        sealed: &Sealed,
        what: impl Fn() -> String,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let damaged = || KeyError::Damaged { what: what() };
        let key = records.get(&Self::key_of(&sealed.key_id)).ok_or_else(damaged)?;
        self.open_key(&key)?.unseal(place, sealed).ok_or_else(damaged)
    }

    /// The ID of the key that values are encrypted with from now on; none before the first value.
    pub(crate) fn newest_id(&self, records: &Published) -> Result<Option<String>, KeyError> {
        Ok(stored::newest(records, Purpose::Values)?.map(|(record, _)| record.key.key))
    }

    fn newest(&self, records: &Published) -> Result<(SealingKey, Vec<RecordWrite>), KeyError> {
        match stored::newest(records, Purpose::Values)? {
            Some((record, _)) => Ok((self.open_key(&record)?, Vec::new())),
            None => self.mint(records).map(|(key, write)| (key, vec![write])),
        }
    }
}
