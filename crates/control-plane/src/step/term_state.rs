//! The state under a term, and how it is loaded.

use scheduler::mint::Mint;
use scheduler::time::Moment;
use scheduler::{Restore, RestoreError, Scheduler, Settings};

use crate::audit::Chains;
use crate::groups;
use crate::quotas;
use crate::records::Records;
use crate::store::{Progress, Store, StoreError};

/// The term that begins, and the state that was read under it.
pub struct TermState {
    pub progress: Progress,
    pub scheduler: Box<Scheduler>,
    pub records: Records,
    pub audit: Chains,
}

/// Why a term does not begin.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    #[error("read the state database")]
    Store(#[from] StoreError),
    #[error("continue from the state database")]
    Restore(#[from] RestoreError),
}

// === impl TermState ===

impl TermState {
    /// Loads the state. The term must have begun before: what is read earlier may be outdated when
    /// it begins. Leases restart as of `now`, which is asked once everything is read;
    /// `read` is called for each part.
    pub fn load(
        store: &mut dyn Store,
        progress: Progress,
        settings: Settings,
        mint: Mint,
        now: impl FnOnce() -> Moment,
        read: &dyn Fn(),
    ) -> Result<Self, TakeError> {
        let mut restore = Restore::new(settings, mint);
        let records = Records::new(store.records()?);
        read();
        groups::restore(&mut restore, &records);
        quotas::restore(&mut restore, &records);
        let live = store.load(&mut |job| {
            restore.job(job);
            read();
        })?;
        read();
        let audit = store.audit_chains()?;
        let scheduler = Box::new(restore.finish(live, now())?);
        Ok(Self { progress, scheduler, records, audit })
    }
}
