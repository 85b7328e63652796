//! Refuses a query string.

use daemon::http::{InvalidQuery, invalid_query};

use crate::http::error::{BadRequest, Failure};

pub(in crate::http) fn invalid(reason: String) -> Failure {
    invalid_query(reason).into()
}

impl From<InvalidQuery> for Failure {
    fn from(InvalidQuery { reason, permitted }: InvalidQuery) -> Self {
        BadRequest::Query { reason, permitted }.into()
    }
}
