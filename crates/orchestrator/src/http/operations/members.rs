//! The orchestrators that share the store.

use std::sync::Arc;

use api_types::member::{ListMembers, Member, MemberExposure, MemberStore, StoreKind};
use api_types::{Timestamp, routes};
use axum::extract::State;
use control_plane::store::SeenMember;
use daemon::collect;
use daemon::http::Operations;

use crate::http::api::{Api, Handled};
use crate::http::openapi::{QUERY, READ, examples, refusals};
use crate::http::query::Query;
use crate::http::respond::json;
use crate::members::Known;
use crate::settings::{Exposure, equal};

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list))
}

/// List Members
///
/// The orchestrators that share the store, of which one leads.
#[utoipa::path(
    get,
    path = routes::CLUSTER_MEMBERS,
    operation_id = "listMembers",
    tag = "Cluster",
    responses((status = 200, description = "The orchestrators.", body = ListMembers, example = json!(examples::list_members()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, READ])))),
)]
async fn list(State(api): State<Arc<Api>>, _: Query) -> Handled {
    let known = api.members.read_lately().await?;
    let is_shared = api.members.are_several();
    json(&ListMembers {
        store: MemberStore {
            kind: if is_shared { StoreKind::Postgres } else { StoreKind::Sqlite },
            server: known.roll.server.clone(),
        },
        term: if is_shared { format!("{:032x}", known.roll.term.0) } else { String::new() },
        takeovers: known.roll.takeovers,
        times_went_back: known.roll.times_went_back,
        members: known.roll.members.iter().map(|seen| shown(&known, seen)).collect(),
    })
}

fn shown(known: &Known, seen: &SeenMember) -> Member {
    let (member, record) = (&seen.member, &seen.member.record);
    // This process answers while it runs, and while it leads.
    let is_own = member.id == known.own;
    Member {
        id: member.id,
        address: record.address.clone(),
        leads: is_own,
        ready: is_own || (record.ready && known.is_alive(seen)),
        last_seen: Timestamp(seen.seen_at).rfc3339(),
        exposure: match record.exposure {
            Exposure::OpenLoopback => MemberExposure::Loopback,
            Exposure::Insecure => MemberExposure::Insecure,
            Exposure::Protected => MemberExposure::Protected,
        },
        names: record.names.clone(),
        release: record.release.clone(),
        format: record.format,
        cluster_keys: record.cluster_keys.clone(),
        settings: equal::hash(&record.settings),
        different_settings: known.differing(member),
    }
}
