//! Which keys of an object have been read.

use std::collections::HashSet;

/// The keys that an object had so far.
#[derive(Default)]
pub(super) struct Seen<'a> {
    /// A bit for each of the first 128 fields of the type; nearly all types have fewer.
    fields: u128,
    others: HashSet<&'a str>,
}

// === impl Seen ===

impl<'a> Seen<'a> {
    /// Whether it is new.
    pub(super) fn insert(&mut self, field: Option<usize>, key: &'a str) -> bool {
        let bit = field.and_then(|at| 1_u128.checked_shl(u32::try_from(at).ok()?));
        match bit {
            Some(bit) => {
                let is_new = self.fields & bit == 0;
                self.fields |= bit;
                is_new
            }
            None => self.others.insert(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_once_whatever_the_number_of_its_field() {
        let mut seen = Seen::default();
        for field in [None, Some(0), Some(127), Some(128), Some(usize::MAX)] {
            let key = format!("{field:?}");
            let key = &*key.leak();
            assert!(seen.insert(field, key), "{key}");
            assert!(!seen.insert(field, key), "{key}");
        }
    }
}
