//! The values of the sealed records that an execution names, for the node that runs it.

use std::sync::Arc;

use api_types::ExecutionId;
use api_types::job::JobSpec;
use axum::extract::FromRequestParts;
use control_plane::audit::AuditEntry;
use daemon::http::Peer;
use http::request::Parts;

use super::specification::{Placed, placed};
use crate::access::node::CertifiedNode;
use crate::http::api::Api;
use crate::http::edge::authenticate::Access;
use crate::http::error::{Absent, Failure};
use crate::http::lookup;
use crate::http::operations::sealed::{Resource, check_way};
use crate::sealed;

/// A node that asks for values, over a connection that may carry them.
pub(super) struct Recipient {
    /// Of a node with a certificate.
    access: Option<Access>,
}

impl FromRequestParts<Arc<Api>> for Recipient {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Failure> {
        check_way(api, Peer::from_extensions(&parts.extensions))?;
        let is_certified = parts.extensions.get::<CertifiedNode>().is_some();
        let access = parts.extensions.get::<Access>().filter(|_| is_certified);
        Ok(Self { access: access.cloned() })
    }
}

/// The values of one kind that an execution of this node names, in the order of the names.
pub(super) async fn reveal<R: Resource>(
    api: &Arc<Api>,
    recipient: Recipient,
    node: &str,
    execution: ExecutionId,
    names: impl FnOnce(&JobSpec) -> Vec<String>,
) -> Result<Vec<R::Revealed>, Failure> {
    let Placed { spec, .. } = placed(api, lookup::full_node(node)?, execution).await?;
    let of = (execution, spec.namespace.as_str());
    reveal_named::<R>(api, recipient, of, names(&spec)).await
}

/// The values with these names, for an execution of this namespace.
///
/// The audit log says what a certified node is about to get.
pub(super) async fn reveal_named<R: Resource>(
    api: &Arc<Api>,
    recipient: Recipient,
    (execution, namespace): (ExecutionId, &str),
    names: Vec<String>,
) -> Result<Vec<R::Revealed>, Failure> {
    let (mut values, mut handed_over) = (Vec::new(), Vec::new());
    for name in names {
        let key = sealed::key::<R>(namespace, &name);
        let revealed = sealed::reveal::<R>(&api.keys, api.view.records(), &key);
        let revealed = revealed
            .map_err(|error| Failure::Internal { cause: format!("read a {}: {error}", R::NOUN) })?;
        let Some((version, value)) = revealed else {
            let namespace = namespace.to_owned();
            return Err(Absent::OfTask { kind: R::NAMED, name, namespace }.into());
        };
        handed_over.push(format!("{} (version {version})", key.key));
        values.push(value);
    }
    let audit =
        recipient.access.filter(|_| !handed_over.is_empty()).and_then(|access| access.audit()).map(
            |entry| AuditEntry {
                object: format!("{execution}: {}", handed_over.join(", ")),
                ..entry
            },
        );
    if audit.is_some() {
        api.handle.on_behalf(audit).change_records(Vec::new()).await?;
    }
    Ok(values)
}
