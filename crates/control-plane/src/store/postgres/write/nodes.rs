//! Nodes, and the removal of those that are forgotten.

use scheduler::change::{Changes, NodeRow};

use super::Writing;
use crate::store::StoreError;
use crate::store::postgres::values::{Rows, Template, cells};
use crate::store::row::{Id, bad_record, health, moment_value, node_history};

const UPSERT: Template = Template::new(
    "INSERT INTO node (id, session, membership, connection, eligibility, message, drain_deadline,
        last_heartbeat, silent_since, record, health, history, lease, told_lease, joined_at,
        forgotten, idle_since)
     SELECT * FROM {rows}
     ON CONFLICT (id) DO UPDATE SET session = excluded.session, membership = excluded.membership,
        connection = excluded.connection, eligibility = excluded.eligibility,
        message = excluded.message, drain_deadline = excluded.drain_deadline,
        last_heartbeat = excluded.last_heartbeat, silent_since = excluded.silent_since,
        record = excluded.record, health = excluded.health, history = excluded.history,
        lease = excluded.lease, told_lease = excluded.told_lease, joined_at = excluded.joined_at,
        forgotten = excluded.forgotten, idle_since = excluded.idle_since",
    "bnbbbbnnnbbbnnnnn",
);

const DELETE: Template =
    Template::new("DELETE FROM node AS n USING {rows} AS u (id) WHERE n.id = u.id", "b");

impl Writing<'_> {
    pub(super) fn nodes(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let (mut gone, mut rows) = (Rows::new(DELETE), Rows::new(UPSERT));
        for (id, row) in &changes.nodes {
            match row {
                Some(row) => push(&mut rows, row)?,
                None => gone.push(cells![&id.bytes()]),
            }
        }
        self.add(gone);
        self.add(rows);
        Ok(())
    }
}

fn push(rows: &mut Rows, row: &NodeRow) -> Result<(), StoreError> {
    let record = serde_json::to_string(&*row.record).map_err(bad_record)?;
    rows.push(cells![
        &row.id.bytes(),
        row.session,
        row.membership.as_str(),
        row.connection.as_str(),
        row.eligibility.as_str(),
        row.message.as_str(),
        row.drain_deadline.map(moment_value),
        row.last_heartbeat.0,
        row.silent_since.map(moment_value),
        record.as_str(),
        health::text(&row.health).as_deref(),
        node_history::to_text(&row.history)?.as_str(),
        row.grant.lease.as_secs(),
        row.grant.kept.as_secs(),
        moment_value(row.joined_at),
        row.is_forgotten,
        row.idle_since.map(|since| since.0),
    ]);
    Ok(())
}
