//! Counts who was refused a permit, and in whose favour.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::lock::lock;
use super::owner::Group;

/// Combinations that are told apart; the names of any further ones are counted together.
const TOLD_APART: usize = 1000;

/// Stands for the groups of further combinations.
const OTHERS: &str = "(others)";

/// Stands for those who come next, if no other group holds permits.
const NEWCOMERS: &str = "(newcomers)";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Labels {
    pool: &'static str,
    refused: String,
    favoured: String,
}

/// By namespace, never by token: metrics are for other eyes than lists of tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    counts: Family<Labels, Counter>,
    known: Arc<Mutex<HashSet<Labels>>>,
}

// === impl Refusals ===

impl Refusals {
    /// What a registry shows.
    pub(crate) fn family(&self) -> Family<Labels, Counter> {
        self.counts.clone()
    }

    /// Shows the pool from the beginning, with none.
    pub(crate) fn begin(&self, pool: &'static str) {
        let others = || OTHERS.to_owned();
        drop(self.counts.get_or_create(&Labels { pool, refused: others(), favoured: others() }));
    }

    pub(super) fn note(&self, pool: &'static str, refused: &Group, favoured: Option<&Group>) {
        let favoured = favoured.map_or_else(|| NEWCOMERS.to_owned(), Group::to_string);
        let mut labels = Labels { pool, refused: refused.to_string(), favoured };
        let mut known = lock(&self.known);
        if !known.contains(&labels) {
            if known.len() >= TOLD_APART {
                let others = || OTHERS.to_owned();
                labels = Labels { pool, refused: others(), favoured: others() };
            } else {
                known.insert(labels.clone());
            }
        }
        drop(known);
        self.counts.get_or_create_owned(&labels).inc();
    }

    #[cfg(test)]
    pub(crate) fn count(&self, pool: &'static str, refused: &str, favoured: &str) -> u64 {
        let labels = Labels { pool, refused: refused.to_owned(), favoured: favoured.to_owned() };
        self.counts.get_or_create_owned(&labels).get()
    }
}
