//! The available sign-in methods, and the exchange of ID tokens for tokens.

use std::sync::Arc;

use api_types::access::{CreatedToken, ExchangeIdToken, SignInMethods};
use api_types::{Code, routes};
use axum::extract::{Extension, State};
use axum::response::IntoResponse;
use daemon::collect;
use daemon::http::Operations;
use http::{HeaderValue, header};

use crate::access::exchange::{ExchangeRefusal, Minted, Person, Secret, mint};
use crate::clock;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::AuditedRequest;
use crate::http::edge::body::JsonBody;
use crate::http::error::Denied;
use crate::http::openapi::{BODY, CALL, QUERY, examples, refusals};
use crate::http::query::Query;
use crate::http::respond::json;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(methods)).merge(collect!(exchange))
}

/// Sign-In Methods
///
/// The issuer of OpenID Connect whose ID tokens are accepted, and the client that command lines use
/// to sign people in. A token of the service can be used in any case.
#[utoipa::path(
    get,
    path = routes::AUTH_METHODS,
    operation_id = "describeSignIn",
    tag = "Access",
    responses((status = 200, description = "How callers can sign in.", body = SignInMethods, example = json!(examples::sign_in_methods()))),
    security(()),
    extensions(("x-error-codes" = json!(refusals(&[QUERY])))),
)]
async fn methods(State(api): State<Arc<Api>>, _: Query) -> Handled {
    let methods = api.issuer.as_ref().map(|issuer| issuer.methods()).unwrap_or_default();
    // The operator may change the issuer.
    let uncached = HeaderValue::from_static("no-store");
    Ok(([(header::CACHE_CONTROL, uncached)], json(&methods)?).into_response())
}

/// Exchange ID Token
///
/// Trades an ID token of the issuer for a token that lasts 12 hours, with the role that the operator's
/// rules give. A subject has at most 200 such tokens; a further one takes the place of the oldest.
#[utoipa::path(
    post,
    path = routes::AUTH_EXCHANGE,
    operation_id = "exchangeIdToken",
    tag = "Access",
    request_body(content = ExchangeIdToken, example = json!(examples::exchange_id_token())),
    responses((status = 200, description = "The token.", body = CreatedToken, example = json!(examples::created_token()))),
    security(()),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::PathNotFound, Code::IssuerUnavailable, Code::Conflict]])))),
)]
async fn exchange(
    State(api): State<Arc<Api>>,
    Extension(request): Extension<Arc<AuditedRequest>>,
    _: Query,
    body: JsonBody,
) -> Handled {
    let ExchangeIdToken { id_token } = body.read()?;
    let person = known(&api, &request, &id_token, None).await.map_err(Denied::Exchange)?;
    let minted = mint(api.view.records(), &person, Secret::Given, clock::now());
    let Minted { credential, token, writes } = minted.map_err(Denied::Exchange)?;
    let entry = request.done_for(&person.name, &credential.id);
    api.handle.on_behalf(Some(entry)).change_records(writes).await?;
    json(&CreatedToken { secret: token.text(&credential), token: token.wire(&credential.id) })
}

/// Whose ID token this is. Refusals are noted as those of other credentials.
pub(super) async fn known(
    api: &Api,
    request: &AuditedRequest,
    id_token: &str,
    nonce: Option<&str>,
) -> Result<Person, ExchangeRefusal> {
    let issuer = api.issuer.as_ref().ok_or(ExchangeRefusal::NoIssuer)?;
    issuer.person(id_token, nonce).await.map_err(|(refusal, name)| {
        match (&refusal, name) {
            (ExchangeRefusal::NoRule(_), Some(name)) => request.note_denied(api, &name),
            (ExchangeRefusal::Invalid(_), _) => request.note_unknown(api),
            _ => {}
        }
        refusal
    })
}
