//! The thread that reads the members, checks the cluster key, and announces this process.
//!
//! It works every ten seconds, and whenever something of this process has changed: an operator who
//! gives every machine the next cluster key waits a second for all of them to say so.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use control_plane::store::{Member, MemberRecord, Membership, SeenMember, StoreError};
use tokio::sync::oneshot;

use super::rivalry::{Rivalry, Shown};
use super::roll::{Known, REMEMBERED_FOR};
use super::{KeyFiles, Keys, Shared};
use crate::keys::{self, KeyError, KeyRing};

/// Interval between announcements, and between checks of the cluster key.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(10);

/// Interval between checks for changes of this process, and between attempts after a failure.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Interval at which the leader forgets members.
const FORGET_EVERY: Duration = Duration::from_hours(1);

/// Asks for the members as of now.
pub(super) struct Ask {
    pub(super) reply: oneshot::Sender<Result<Arc<Known>, StoreError>>,
}

pub(super) struct Announcer {
    shared: Arc<Shared>,
    store: Box<dyn Membership>,
    me: Member,
    files: KeyFiles,
    rivalry: Rivalry,
    /// What was announced last, and whether this process led then.
    announced: Option<(MemberRecord, bool)>,
    /// When the last whole round ended.
    last: Option<Instant>,
    forgot: Option<Instant>,
    /// Failures are logged once.
    is_failing: bool,
}

// === impl Announcer ===

impl Announcer {
    pub(super) fn new(
        shared: Arc<Shared>,
        store: Box<dyn Membership>,
        me: Member,
        files: KeyFiles,
    ) -> Self {
        Self {
            shared,
            store,
            me,
            files,
            rivalry: Rivalry::default(),
            announced: None,
            last: None,
            forgot: None,
            is_failing: false,
        }
    }

    pub(super) fn run(mut self, asked: &Receiver<Ask>) {
        loop {
            if self.is_due() {
                drop(self.round());
            }
            match asked.recv_timeout(PROBE_EVERY) {
                Ok(Ask { reply }) => drop(reply.send(self.round())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Whether the members are to be read, or this process is to be announced.
    fn is_due(&mut self) -> bool {
        let now = self.observe();
        self.announced.as_ref() != Some(&now)
            || self.is_failing
            || self.rivalry.is_contested()
            || self.last.is_none_or(|last| last.elapsed() >= ANNOUNCE_EVERY)
    }

    /// What there is to announce, and whether this process leads.
    fn observe(&mut self) -> (MemberRecord, bool) {
        let record = &mut self.me.record;
        record.cluster_keys = self.files.ids();
        let (leads, could) = self.shared.leads_or_could();
        record.ready = could;
        (record.clone(), leads)
    }

    fn round(&mut self) -> Result<Arc<Known>, StoreError> {
        let done = self.try_round();
        match &done {
            Ok(_) => self.last = Some(Instant::now()),
            Err(error) if !self.is_failing => {
                let error: &dyn std::error::Error = error;
                tracing::warn!(
                    error,
                    "cannot announce this orchestrator to the others; trying again"
                );
            }
            Err(_) => {}
        }
        self.is_failing = done.is_err();
        done
    }

    fn try_round(&mut self) -> Result<Arc<Known>, StoreError> {
        let mut roll = self.store.roll()?;
        if self.me.started_at == 0 {
            self.me.started_at = roll.now;
        }
        let own = roll.members.iter().find(|seen| seen.member.id == self.me.id);
        let shown = self.rivalry.saw(&self.me, own);
        self.report(shown, own);
        self.check_keys()?;
        let now = self.observe();
        self.store.announce(&self.me)?;
        self.announced = Some(now);
        self.rivalry.announced();
        roll.members.retain(|seen| seen.member.id != self.me.id);
        roll.members.push(SeenMember { member: self.me.clone(), seen_at: roll.now });
        roll.members.sort_by_key(|seen| seen.member.id);
        self.forget()?;
        let known = Arc::new(Known::new(self.shared.own, roll));
        self.shared.known.send_replace(Arc::clone(&known));
        Ok(known)
    }

    fn report(&self, shown: Shown, own: Option<&SeenMember>) {
        let address = own.map(|seen| seen.member.record.address.clone()).unwrap_or_default();
        match shown {
            Shown::NoRival => {}
            Shown::Contested => tracing::warn!(
                id = %self.me.id,
                other = address,
                "another orchestrator has the identity of this one; the younger of the two ends"
            ),
            Shown::OlderRival => {
                self.shared.gate().rival.send_replace(Some(address));
            }
        }
    }

    /// Whether the cluster key in the files opens all that is encrypted. The leader's own key ring
    /// does this, and a second one must not rename its files.
    fn check_keys(&mut self) -> Result<(), StoreError> {
        if self.shared.gate().leads {
            return Ok(());
        }
        let records = self.store.keys()?;
        let mut gate = self.shared.gate();
        if gate.leads {
            return Ok(());
        }
        let checked = KeyRing::open(&self.files.data_dir, &self.files.cluster_key, &records)
            .and_then(|ring| ring.open_all(&records));
        gate.keys.checked(checked);
        let problem = match &gate.keys {
            Keys::Lost(reason) => Some(reason.clone()),
            Keys::Unchecked | Keys::Open | Keys::Refused(_) | Keys::Given => None,
        };
        drop(gate);
        self.shared.stands.key_problem(problem);
        Ok(())
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        let is_due = self.forgot.is_none_or(|forgot| forgot.elapsed() >= FORGET_EVERY);
        if is_due && self.shared.gate().leads {
            let forgotten = self.store.forget(REMEMBERED_FOR)?;
            if forgotten > 0 {
                tracing::info!(
                    forgotten,
                    "orchestrators that were not seen for a week are forgotten"
                );
            }
            self.forgot = Some(Instant::now());
        }
        Ok(())
    }
}

// === impl Keys, KeyFiles ===

impl Keys {
    /// A check ended.
    fn checked(&mut self, checked: Result<(), KeyError>) {
        *self = match (&*self, checked) {
            (Self::Refused(_) | Self::Given, _) => return,
            (Self::Lost(_), Ok(())) => {
                tracing::info!("the cluster key opens the keys of the cluster again");
                Self::Open
            }
            (Self::Unchecked | Self::Open, Ok(())) => Self::Open,
            (Self::Unchecked, Err(error)) => Self::Refused(error),
            (Self::Open | Self::Lost(_), Err(error)) => {
                let reason = format!("{:#}", anyhow::Error::from(error));
                let is_known = matches!(self, Self::Lost(known) if *known == reason);
                if !is_known {
                    tracing::error!(error = reason, "this orchestrator cannot lead any more");
                }
                Self::Lost(reason)
            }
        };
    }
}

impl KeyFiles {
    /// The IDs of the keys in the files, of the one in use and the next.
    fn ids(&self) -> Vec<String> {
        keys::cluster_key_files(&self.data_dir, &self.cluster_key)
    }
}
