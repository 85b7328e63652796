//! Finds jobs and nodes by any part of a name, an ID or a label.

use std::sync::Arc;

use api_types::node::Node;
use api_types::search::SearchResults;
use api_types::summary::JobSummary;
use api_types::{Code, routes};
use axum::extract::State;
use control_plane::store::{Reads, SearchQuery};
use daemon::collect;
use daemon::http::Operations;

use super::{jobs, nodes};
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::openapi::{QUERY, READ, examples, refusals};
use crate::http::query::{Limit, Namespace, RequiredText, invalid, query};
use crate::http::respond::json;

/// What fits below a search box, with room to scroll.
const DEFAULT_LIMIT: u32 = 10;

/// One who needs more lists the jobs.
const MAX_LIMIT: u32 = 100;

/// Longer than any name or label; each character is compared with each job.
const MAX_TEXT_BYTES: usize = 256;

query! {
    struct FindQuery {
        text: String = (
            "text",
            RequiredText,
            "Part of a name, of an ID (four digits or more) or of a label (`key=value`), at most 256 \
             bytes; upper and lower case are alike."
        );
        namespace: Option<String> =
            ("namespace", Namespace { default: "*" }, "The jobs of one namespace, or `*` for all.");
        limit: u32 = (
            "limit",
            Limit { default: DEFAULT_LIMIT },
            "The number of jobs, and of nodes; at most 100."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(search))
}

/// Search
///
/// The jobs and nodes with this text in a name, an ID or a label, live jobs first and the newest of
/// each first. Live jobs are searched up to the newest 100,000, and others up to the 10,000 that
/// ended last.
#[utoipa::path(
    get,
    path = routes::SEARCH,
    operation_id = "search",
    tag = "Cluster",
    params(FindQuery),
    responses((status = 200, description = "What was found.", body = SearchResults, example = json!(examples::search_results()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, READ, &[Code::NamespaceNotFound]])))),
)]
async fn search(State(api): State<Arc<Api>>, access: Access, query: FindQuery) -> Handled {
    let text = query.text;
    if text.len() > MAX_TEXT_BYTES {
        return Err(invalid(format!("text has {} bytes; at most {MAX_TEXT_BYTES}", text.len())));
    }
    let limit = query.limit.min(MAX_LIMIT);
    let namespaces = access.within(query.namespace)?;
    let view = Arc::clone(&api.view);
    let read = move |reads: &dyn Reads| {
        let found = reads.search_jobs(&SearchQuery { text: text.clone(), namespaces, limit })?;
        let jobs: Vec<JobSummary> =
            found.jobs.into_iter().map(|stored| jobs::summary(stored, &view)).collect();
        let mut nodes = nodes_with(&text, view.nodes(), &access);
        let more_nodes = nodes.len() > limit as usize;
        nodes.truncate(limit as usize);
        json(&SearchResults {
            jobs,
            nodes,
            more_jobs: found.more,
            more_nodes,
            older_jobs: !found.is_complete,
        })
    };
    api.read(read).await
}

/// In order of their names. What the caller does not see of a node is not searched.
fn nodes_with(text: &str, nodes: Vec<Arc<Node>>, access: &Access) -> Vec<Node> {
    let text = text.to_ascii_lowercase();
    let holds = |whole: &str| whole.to_ascii_lowercase().contains(&text);
    let nodes = nodes.into_iter().map(|node| nodes::shown(Arc::unwrap_or_clone(node), access));
    let mut found: Vec<_> = nodes
        .filter(|node| {
            holds(&node.name)
                || holds(&node.peer_info.id.to_string())
                || node.labels.iter().any(|(key, value)| holds(&format!("{key}={value}")))
        })
        .collect();
    found.sort_by(|a, b| (&a.name, a.peer_info.id).cmp(&(&b.name, b.peer_info.id)));
    found
}
