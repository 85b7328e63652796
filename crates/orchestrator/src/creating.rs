//! Records that are being created count towards the bounds of their namespaces.
//!
//! A bound is checked before the commit. Requests that arrive at the same time would otherwise all find
//! the last place free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control_plane::records::RecordKind;

/// How many of each kind are being created in each namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Creating(Arc<Mutex<HashMap<Scope, usize>>>);

type Scope = (RecordKind, String);

/// A record that is being created, until this is dropped.
#[derive(Debug)]
pub(crate) struct Begun {
    creating: Creating,
    scopes: Vec<Scope>,
}

// === impl Creating ===

impl Creating {
    /// To be called before the existing records are counted: a record is counted at least once.
    pub(crate) fn begin(
        &self,
        kind: RecordKind,
        namespaces: impl IntoIterator<Item = String>,
    ) -> Begun {
        let scopes: Vec<_> = namespaces.into_iter().map(|namespace| (kind, namespace)).collect();
        let mut counts = self.counts();
        for scope in &scopes {
            *counts.entry(scope.clone()).or_default() += 1;
        }
        drop(counts);
        Begun { creating: self.clone(), scopes }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Scope, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Begun ===

impl Begun {
    /// How many others are being created in each of its namespaces, in their order.
    pub(crate) fn others(&self) -> Vec<usize> {
        let counts = self.creating.counts();
        let of = |scope| counts.get(scope).copied().unwrap_or_default().saturating_sub(1);
        self.scopes.iter().map(of).collect()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut counts = self.creating.counts();
        for scope in &self.scopes {
            match counts.get_mut(scope) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(counts.remove(scope)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sees_the_others_of_its_kind_and_namespace() {
        let creating = Creating::default();
        let begin = |kind, names: &[&str]| {
            creating.begin(kind, names.iter().map(|name| (*name).to_owned()))
        };
        let both = begin(RecordKind::Token, &["a", "b"]);
        let secret = begin(RecordKind::Secret, &["a"]);
        let one = begin(RecordKind::Token, &["b"]);
        assert_eq!((both.others(), one.others(), secret.others()), (vec![0, 1], vec![1], vec![0]));
        drop(one);
        assert_eq!(both.others(), [0, 0]);
        drop((both, secret));
        assert!(creating.counts().is_empty());
    }
}
