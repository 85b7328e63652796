//! Which items a bounded store of this node gives up: those of the namespace that holds the most.
//!
//! Every store that several namespaces share asks here: archives, cached inputs, images. A bound
//! that forgot the oldest item of all would let one namespace decide how long the items of another
//! are kept, by making many of its own.

use std::collections::{BTreeMap, VecDeque};

/// One item of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item<Age> {
    /// The namespace that it is counted for, in any form that tells namespaces apart.
    pub(crate) owner: String,
    /// The lowest goes first.
    pub(crate) age: Age,
    pub(crate) bytes: u64,
}

/// What a store keeps at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes: u64,
    pub(crate) count: usize,
}

/// The items of one namespace, the first to go in front.
#[derive(Debug, Default)]
struct Share {
    indexes: VecDeque<usize>,
    bytes: u64,
}

/// The indexes of the items that must go so that the rest fits, in the order in which they go.
pub(crate) fn superfluous<Age: Ord>(items: &[Item<Age>], bounds: Bounds) -> Vec<usize> {
    let (mut bytes, mut count) = (total(items), items.len());
    let mut gone = Vec::new();
    if bytes <= bounds.bytes && count <= bounds.count {
        return gone;
    }
    let mut shares = shares(items);
    while bytes > bounds.bytes || count > bounds.count {
        let is_bytes = bytes > bounds.bytes;
        let amount = |share: &Share| {
            let count = share.indexes.len() as u64;
            if is_bytes { (share.bytes, count) } else { (count, share.bytes) }
        };
        let most = shares.values_mut().max_by_key(|share| amount(share));
        let Some(share) = most else { break };
        let Some(index) = share.indexes.pop_front() else { break };
        share.bytes = share.bytes.saturating_sub(items[index].bytes);
        bytes = bytes.saturating_sub(items[index].bytes);
        count -= 1;
        gone.push(index);
    }
    gone
}

fn total<Age>(items: &[Item<Age>]) -> u64 {
    items.iter().map(|item| item.bytes).fold(0, u64::saturating_add)
}

fn shares<Age: Ord>(items: &[Item<Age>]) -> BTreeMap<&str, Share> {
    let mut by_age: Vec<_> = (0..items.len()).collect();
    by_age.sort_by(|one, other| items[*one].age.cmp(&items[*other].age));
    let mut shares: BTreeMap<&str, Share> = BTreeMap::new();
    for index in by_age {
        let item = &items[index];
        let share = shares.entry(item.owner.as_str()).or_default();
        share.indexes.push_back(index);
        share.bytes = share.bytes.saturating_add(item.bytes);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(list: &[(&str, u32, u64)]) -> Vec<Item<u32>> {
        let item = |(owner, age, bytes): &(&str, u32, u64)| Item {
            owner: (*owner).to_owned(),
            age: *age,
            bytes: *bytes,
        };
        list.iter().map(item).collect()
    }

    fn gone(list: &[(&str, u32, u64)], bytes: u64, count: usize) -> Vec<usize> {
        superfluous(&items(list), Bounds { bytes, count })
    }

    #[test]
    fn nothing_goes_while_everything_fits() {
        let list = [("a", 1, 10), ("b", 2, 10)];
        assert!(gone(&list, 20, 2).is_empty());
        assert!(gone(&[], 0, 0).is_empty());
    }

    #[test]
    fn the_namespace_with_the_most_bytes_loses_its_oldest() {
        let list = [("good", 1, 10), ("bad", 4, 10), ("bad", 2, 10), ("bad", 3, 10)];
        assert_eq!(gone(&list, 30, 9), [2]);
        assert_eq!(gone(&list, 20, 9), [2, 3]);
        // Two that hold as much: what one of them holds longer is no reason.
        assert_eq!(gone(&list, 10, 9).len(), 3);
    }

    #[test]
    fn many_small_items_do_not_push_out_a_few_large_ones() {
        let mut list = vec![("good", 1, 1_000_000)];
        list.extend((2..1002).map(|age| ("bad", age, 0)));
        let gone = gone(&list, u64::MAX, 1000);
        assert_eq!(gone, [1]);
    }

    #[test]
    fn a_single_namespace_loses_its_oldest() {
        let list = [("a", 3, 10), ("a", 1, 10), ("a", 2, 10)];
        assert_eq!(gone(&list, 10, 9), [1, 2]);
        assert_eq!(gone(&list, 0, 9), [1, 2, 0]);
    }
}
