//! Keys of the cluster: list and rotate them.

use std::sync::Arc;

use api_types::key::{ListKeys, RotateKey};
use api_types::{Code, routes};
use axum::extract::State;
use daemon::collect;
use daemon::http::Operations;

use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{Conflict, Failure, chain};
use crate::http::openapi::{BODY, CALL, QUERY, examples, refusals};
use crate::http::query::Query;
use crate::http::respond::json;
use crate::rotation::{self, RotationError};

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list, rotate))
}

/// List Keys
///
/// The keys of the cluster, without what is secret of them; of each purpose the one in use first.
#[utoipa::path(
    get,
    path = routes::KEYS,
    operation_id = "listKeys",
    tag = "Access",
    responses((status = 200, description = "The keys.", body = ListKeys, example = json!(examples::list_keys()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY])))),
)]
async fn list(State(api): State<Arc<Api>>, _: Access, _: Query) -> Handled {
    answer(&api)
}

/// Rotate Key
///
/// Replaces the key in use immediately. What depends on the old one continues: a
/// CA stays trusted until its last certificate has expired, and values are encrypted again in the
/// background.
#[utoipa::path(
    post,
    path = routes::KEYS,
    operation_id = "rotateKey",
    tag = "Access",
    request_body(content = RotateKey, example = json!(examples::rotate_key())),
    responses((status = 200, description = "The keys as they are then.", body = ListKeys, example = json!(examples::list_keys()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::Conflict]])))),
)]
async fn rotate(State(api): State<Arc<Api>>, access: Access, _: Query, body: JsonBody) -> Handled {
    let RotateKey { purpose } = body.read()?;
    let audit = access.audit_of(purpose.as_str());
    api.rotation().begin(purpose, audit).await?;
    answer(&api)
}

fn answer(api: &Api) -> Handled {
    let keys = rotation::list(api.view.records(), &api.keys)
        .map_err(|error| Failure::Internal { cause: chain(&error) })?;
    json(&ListKeys { keys })
}

impl From<RotationError> for Failure {
    fn from(error: RotationError) -> Self {
        match error {
            RotationError::Refused(refusal) => Conflict::Rotation(refusal).into(),
            RotationError::Call(error) => error.into(),
            error => Self::Internal { cause: chain(&error) },
        }
    }
}
