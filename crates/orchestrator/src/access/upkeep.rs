//! What becomes of credentials over time: when they were last used, and their removal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_types::Timestamp;
use api_types::audit::AuditOutcome;
use control_plane::audit::AuditEntry;
use control_plane::records::{RecordKind, RecordWrite};
use futures_util::{StreamExt, stream};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::token::{StoredSession, StoredToken};
use super::{join_token, labels, node, rejection};
use crate::clock;
use crate::driver::Handle;
use crate::repeats::Collected;
use crate::view::View;

/// How often last uses are stored and expired records removed. A last use is known to the minute.
const PERIOD: Duration = Duration::from_secs(60);

/// Entries that share commits.
const TOGETHER: usize = 64;

/// Expired tokens that stay, those that ended last: their owners find out why they are refused. A
/// number and no age, so that a wall clock far ahead removes none of a usual installation.
const EXPIRED_TOKENS: usize = 1000;

/// When tokens were used since it was last stored.
#[derive(Debug, Default)]
pub(crate) struct LastUses(Mutex<HashMap<String, Timestamp>>);

// === impl LastUses ===

impl LastUses {
    pub(crate) fn note(&self, token: &str, now: Timestamp) {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.get_mut(token) {
            Some(last) => *last = now,
            None => drop(uses.insert(token.to_owned(), now)),
        }
    }

    fn take(&self) -> HashMap<String, Timestamp> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs until the service stops. `renewable_for` is how long the certificate of a node may be renewed
/// after its end, where nodes have certificates.
pub(crate) async fn run(
    handle: Handle,
    view: Arc<View>,
    uses: Arc<LastUses>,
    renewable_for: Option<Duration>,
    stopping: CancellationToken,
) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_settled = false;
    loop {
        // Once more when the service stops: what was collected until then is not lost.
        let goes_on = loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => break false,
                first = handle.repeats().first() => record(&handle, first).await,
                _ = ticks.tick() => break true,
            }
        };
        tell(&handle, handle.repeats().take()).await;
        let now = clock::now();
        let mut writes = due(&view, &uses.take(), now);
        if let Some(time) = renewable_for {
            let renewable = node::Renewable { time, remembered: &|node| view.node(node).is_some() };
            writes.extend(join_token::outdated(view.records(), now));
            // Not immediately: the scheduler may not have said yet which nodes it remembers.
            if is_settled {
                writes.extend(node::outdated(view.records(), now, &renewable));
                writes.extend(rejection::outdated(view.records(), now, &renewable));
            }
            is_settled = view.records().are_known();
        }
        if let Err(error) = labels::assign_roles(&handle, &view).await {
            tracing::debug!(%error, "it was not recorded yet who gave labels to nodes");
        }
        for write in writes {
            // One by one: a token that was just revoked holds up no other.
            if let Err(error) = handle.change_records(vec![write]).await {
                tracing::debug!(%error, "the record of a credential was not brought up to date");
            }
        }
        if !goes_on {
            return;
        }
    }
}

/// Brings what was denied into the audit log and into the service's.
async fn tell(handle: &Handle, denied: Collected) {
    for (address, count) in denied.unknown {
        tracing::info!(%address, count, "requests without valid credentials were refused");
    }
    record(handle, denied.known).await;
}

/// Writes entries to the audit log that belong to no other change.
async fn record(handle: &Handle, entries: Vec<AuditEntry>) {
    let writing = stream::iter(entries).for_each_concurrent(TOGETHER, |entry| async move {
        if entry.outcome == AuditOutcome::Denied {
            tracing::info!(
                user = entry.user,
                address = entry.address,
                operation = entry.operation,
                count = entry.count,
                "refused requests that the caller's role does not allow"
            );
        }
        if let Err(error) = handle.audit(entry).await {
            tracing::warn!(%error, "cannot write a record of the audit log");
        }
    });
    writing.await;
}

/// What is to be written now.
fn due(view: &View, uses: &HashMap<String, Timestamp>, now: Timestamp) -> Vec<RecordWrite> {
    let records = view.records();
    let (mut writes, mut expired) = (Vec::new(), Vec::new());
    for record in records.of_kind(RecordKind::Token) {
        let Some(token) = StoredToken::from_record(&record) else { continue };
        if let Some(used) = uses.get(&record.key.key) {
            let token = StoredToken { last_use_time: Some(*used), ..token };
            writes.push(token.write(&record.key.key, record.unchanged()));
        } else if token.is_over(now) {
            match token.subject {
                None => expired.push((token.expire_time, record)),
                // There may be thousands a day, and its holder can get another.
                Some(_) => writes.push(record.removal()),
            }
        }
    }
    expired.sort_by_key(|(end, _)| std::cmp::Reverse(*end));
    writes.extend(expired.into_iter().skip(EXPIRED_TOKENS).map(|(_, record)| record.removal()));
    for record in records.of_kind(RecordKind::Session) {
        let is_over = StoredSession::from_record(&record).is_none_or(|session| {
            let of_token = StoredToken::key(&session.token_id);
            session.expire_time <= now || records.get(&of_token).is_none()
        });
        if is_over {
            writes.push(record.removal());
        }
    }
    writes
}

#[cfg(test)]
mod tests {
    use api_types::access::Role;
    use control_plane::records::{Expected, RecordRow};

    use super::*;

    #[test]
    fn last_uses_are_stored_and_what_is_over_goes() {
        let view = View::default();
        let token = |expire_time| StoredToken {
            name: String::new(),
            role: Role::Viewer,
            namespaces: Vec::new(),
            created_by: String::new(),
            create_time: Timestamp(0),
            expire_time,
            last_use_time: None,
            subject: None,
            ancestors: Vec::new(),
            person: None,
            hash: String::new(),
        };
        let of_issuer = |end| StoredToken {
            subject: Some("https://issuer.example ada".to_owned()),
            ..token(Some(Timestamp(end)))
        };
        let session = |token: &str, end| StoredSession {
            token_id: token.to_owned(),
            expire_time: Timestamp(end),
            hash: String::new(),
        };
        for write in [
            token(None).write("used", Expected::Nothing),
            token(None).write("unused", Expected::Nothing),
            of_issuer(1).write("exchanged", Expected::Nothing),
            of_issuer(i64::MAX).write("exchanged-later", Expected::Nothing),
            session("used", i64::MAX).write("a"),
            session("used", 1).write("b"),
            session("gone", i64::MAX).write("c"),
        ] {
            view.records().update(&[RecordRow { key: write.key, version: 3, value: write.value }]);
        }
        // One more than stay, of which the first ended first.
        for number in 0..=EXPIRED_TOKENS {
            let end = Timestamp(1 + i64::try_from(number).unwrap());
            let write = token(Some(end)).write(&format!("old-{number}"), Expected::Nothing);
            view.records().update(&[RecordRow { key: write.key, version: 3, value: write.value }]);
        }
        let uses = LastUses::default();
        uses.note("used", Timestamp(4));
        uses.note("used", Timestamp(5));
        let now = Timestamp(1_000_000);
        let writes = due(&view, &uses.take(), now);
        let seen = |write: &RecordWrite| (write.key.key.clone(), write.value.is_some());
        let seen: Vec<_> = writes.iter().map(seen).collect();
        let expected =
            [("exchanged", false), ("used", true), ("old-0", false), ("b", false), ("c", false)];
        assert_eq!(seen, expected.map(|(key, kept)| (key.to_owned(), kept)));
        assert!(writes.iter().all(|write| write.expected == Expected::Version(3)));
        assert!(uses.take().is_empty());
    }
}
