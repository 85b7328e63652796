//! The audit log: who changed what, and who was refused.

use std::sync::Arc;

use api_types::audit::{AuditChain, ListAudit};
use api_types::{Timestamp, routes};
use axum::extract::State;
use control_plane::store::AuditQuery;
use daemon::collect;
use daemon::http::Operations;

use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::openapi::{PAGE, READ, examples, refusals};
use crate::http::paging::{List, Listing};
use crate::http::query::{Choice, HundredAPage, Reverse, Since, Text, query};
use crate::http::respond::json;

const CHAINS: Choice<AuditChain> = Choice {
    permitted: &[
        (AuditChain::Changes.as_str(), AuditChain::Changes),
        (AuditChain::Rest.as_str(), AuditChain::Rest),
    ],
    default: AuditChain::Changes,
};

query! {
    struct ListQuery {
        chain: AuditChain = (
            "chain",
            CHAINS,
            "`changes` (the default): tokens, namespaces, secrets, credentials, keys and nodes; \
             `rest`: submissions, stops, sign-ins, secrets handed to nodes, and denials."
        );
        user: Option<String> = ("user", Text, "Records of one name of a token.");
        operation: Option<String> = (
            "operation",
            Text,
            "Records of one operation, by its ID in this document."
        );
        since: Since = part;
        page: HundredAPage = part;
        direction: Reverse = part;
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list))
}

/// List Audit Records
///
/// What callers with credentials did, and what they were denied: one of two chains, in order. Each
/// record has the hash of the one before it in the chain. Changes are kept for a year, and of each
/// chain the newest 1,000,000 records at most.
#[utoipa::path(
    get,
    path = routes::AUDIT,
    operation_id = "listAudit",
    tag = "Access",
    params(ListQuery),
    responses((status = 200, description = "A page of records.", body = ListAudit, example = json!(examples::list_audit()))),
    extensions(("x-error-codes" = json!(refusals(&[PAGE, READ])))),
)]
async fn list(State(api): State<Arc<Api>>, _: Access, query: ListQuery) -> Handled {
    let ListQuery { chain, user, operation, since, page, direction: Reverse { reverse } } = query;
    let listing = Listing { list: List::Audit, order: position(chain), reverse, of: None };
    let after = listing.position(page.next_token.as_deref())?;
    let since = since.since.unwrap_or(Timestamp::ZERO);
    let question = AuditQuery { chain, since, user, operation, reverse, after, limit: page.limit };
    let page = api.read(move |reads| Ok(reads.audit(&question)?)).await?;
    let next_token = listing.token(page.items.last().map(|record| record.sequence), page.more);
    json(&ListAudit { records: page.items, next_token })
}

/// Distinguishes the positions in lists of the two.
const fn position(chain: AuditChain) -> u8 {
    match chain {
        AuditChain::Changes => 0,
        AuditChain::Rest => 1,
    }
}
