//! What one commit removes at most, and what each removal costs.

/// Bytes of a specification that cost as much as one row, by the room that they leave.
const BYTES_PER_ROW: usize = 16 << 10;

/// The cost of an output tail, by the room that it leaves.
pub(super) const TAIL_ROWS: u32 = 4;

/// Surplus rows that one new row of a bounded table removes at most. It is one row, unless the bound
/// is lower in this release.
pub(super) const SURPLUS_AT_ONCE: u32 = 64;

/// The size of a probe: a commit of a few hundred jobs.
pub(super) const PROBE_BYTES: u32 = 1 << 20;

/// Rows that a removal may still remove.
pub(super) struct Budget(pub(super) u32);

// === impl Budget ===

impl Budget {
    pub(super) fn is_used_up(&self) -> bool {
        self.0 == 0
    }

    pub(super) fn spend(&mut self, rows: u32) {
        self.0 = self.0.saturating_sub(rows);
    }
}

/// The cost of a specification.
pub(super) fn spec_rows(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_ROW).unwrap_or(u32::MAX)
}
