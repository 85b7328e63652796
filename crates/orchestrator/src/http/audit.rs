//! The audit log: who changed what, and who was refused.

use std::sync::Arc;

use api_types::audit::ListAudit;
use api_types::{Timestamp, routes};
use axum::extract::State;
use control_plane::store::AuditQuery;
use daemon::collect;
use daemon::http::Operations;

use super::authenticate::Access;
use super::edge::json;
use super::openapi::{PAGE, READ, examples, refusals};
use super::paging::{List, Listing};
use super::query::{HundredAPage, Reverse, Since, Text, query};
use super::{Api, Handled};

query! {
    struct ListQuery {
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
/// What callers with credentials changed, and what they were denied, in order. Each record has the
/// hash of the one before; the newest 1,000,000 are kept.
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
    let ListQuery { user, operation, since, page, direction: Reverse { reverse } } = query;
    let listing = Listing { list: List::Audit, order: 0, reverse, of: None };
    let after = listing.position(page.next_token.as_deref())?;
    let since = since.since.unwrap_or(Timestamp::ZERO);
    let question = AuditQuery { since, user, operation, reverse, after, limit: page.limit };
    let page = api.read(move |reads| Ok(reads.audit(&question)?)).await?;
    let next_token = listing.token(page.items.last().map(|record| record.sequence), page.more);
    json(&ListAudit { records: page.items, next_token })
}
