//! Pages of lists: where they end, in every database.

use super::Page;

/// A page ends early, and reports that more follows, once its texts exceed this in total: a
/// thousand jobs with inline inputs would be gigabytes.
pub(super) const PAGE_BYTES: usize = 16 << 20;

/// Collects a page, item by item.
pub(super) struct PageBuilder<T> {
    page: Page<T>,
    limit: u32,
    bytes: usize,
}

// === impl Page, PageBuilder ===

impl<T> Page<T> {
    /// From one more item than the limit, if there is one.
    pub(super) fn of(mut items: Vec<T>, limit: u32) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        Self { items, more }
    }
}

impl<T> PageBuilder<T> {
    pub(super) fn new(limit: u32) -> Self {
        Self { page: Page { items: Vec::new(), more: false }, limit, bytes: 0 }
    }

    /// Whether the page has room for the next item, which exists; without, the page is complete.
    pub(super) fn has_room(&mut self) -> bool {
        let is_full = self.page.items.len() >= self.limit as usize || self.bytes > PAGE_BYTES;
        self.page.more |= is_full;
        !is_full
    }

    pub(super) fn add(&mut self, item: T, bytes: usize) {
        self.bytes += bytes;
        self.page.items.push(item);
    }

    pub(super) fn finish(self) -> Page<T> {
        self.page
    }
}
