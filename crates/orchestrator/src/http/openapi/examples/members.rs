//! Examples of the orchestrators that share a store.

use api_types::member::{ListMembers, Member, MemberExposure, MemberStore, StoreKind};

use super::records::{MOMENT, NODE};

pub(in crate::http) fn list_members() -> ListMembers {
    let member = Member {
        id: NODE,
        address: "a.internal:1234".to_owned(),
        leads: true,
        ready: true,
        last_seen: MOMENT.rfc3339(),
        exposure: MemberExposure::Protected,
        names: vec!["10.0.0.1".to_owned(), "a.internal".to_owned()],
        release: "v0.2.0".to_owned(),
        format: 29,
        cluster_keys: vec!["6f1a2b3c4d5e6f70".to_owned()],
        settings: "0c1d2e3f40516273".to_owned(),
        different_settings: Vec::new(),
    };
    ListMembers {
        store: MemberStore {
            kind: StoreKind::Postgres,
            server: "7301234567890123456/00000001/16412".to_owned(),
        },
        term: "5b0cb9d4f4e04b2f8c5a1d2e3f405162".to_owned(),
        takeovers: 3,
        times_went_back: 0,
        members: vec![member],
    }
}
