//! How much of the disk the database uses.

/// Disk use of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreSize {
    pub database_bytes: u64,
    /// Its write-ahead log.
    pub log_bytes: u64,
    pub pages: u64,
    /// Free pages, which the next rows use before the file grows.
    pub free_pages: u64,
    pub page_bytes: u64,
}

// === impl StoreSize ===

impl StoreSize {
    pub fn free_bytes(&self) -> u64 {
        self.free_pages.saturating_mul(self.page_bytes)
    }
}
