//! What the path of a request says.

use api_types::Code;
use axum::extract::FromRequestParts;
use http::request::Parts;

use super::failure::Failure;

/// The only parameter of a path, decoded.
pub(super) struct Parameter(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Parameter {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let no_text = || Failure::new(Code::InvalidRequest, "the path is not UTF-8 once decoded");
        daemon::http::parameters(parts).map(|[text]| Self(text)).ok_or_else(no_text)
    }
}
