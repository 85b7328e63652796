//! Operations on secrets.

use std::sync::Arc;

use api_types::error::FieldError;
use api_types::secret::{DescribeSecret, ListSecrets, MAX_SECRET_BYTES, PutSecret};
use api_types::{Code, routes};
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daemon::collect;
use daemon::http::Operations;
use daemon::http::Peer;
use zeroize::Zeroizing;

use super::sealed::{self, ListQuery, OneQuery, Resource, Value, operations};
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::Kind;
use crate::http::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use crate::http::respond::json;
use crate::names;
use crate::secrets::SecretScope;

operations! {
    SecretScope, "Secrets", SECRETS, SECRET, SecretPath, SecretNotFound;

    /// List Secrets
    ///
    /// The secrets that tasks of a namespace may name, without their values.
    list "listSecrets" -> ListSecrets { secrets }, list_secrets, "The secrets, in order of namespace and name.";

    /// Describe Secret
    ///
    /// One secret, without its value.
    describe "describeSecret" -> DescribeSecret { secret }, describe_secret, "The secret.";

    /// Put Secret
    ///
    /// Creates the secret, or gives it another value. Tasks that start from now on receive it; those
    /// that run keep what they have.
    put "putSecret" <- PutSecret, put_secret;

    /// Delete Secret
    ///
    /// Tasks that name it wait until there is one again; those that run keep what they have.
    delete "deleteSecret", "The secret as it was.";
}

impl Resource for SecretScope {
    const NAMED: Kind = Kind::Secret;

    type Put = PutSecret;

    fn checked(name: &str, asked: PutSecret) -> Result<(Self, Value), Vec<FieldError>> {
        let mut problems = Vec::new();
        let mut problem = |path: &str, reason: String| {
            problems.push(FieldError { path: path.to_owned(), reason });
        };
        if !names::is_name(name) {
            problem("", format!("the name of a secret {}", names::RULE));
        }
        let PutSecret { value, data } = asked;
        let value = match (value, data.map(Zeroizing::new)) {
            (Some(text), None) => Zeroizing::new(text.into_bytes()),
            (None, Some(data)) => match STANDARD.decode(data.trim()) {
                Ok(bytes) => Zeroizing::new(bytes),
                Err(_) => {
                    problem("Data", "must be base64".to_owned());
                    Zeroizing::default()
                }
            },
            (None, None) => {
                problem("Value", "is required, or Data".to_owned());
                Zeroizing::default()
            }
            (Some(_), Some(_)) => {
                problem("Data", "stands for Value; give one of the two".to_owned());
                Zeroizing::default()
            }
        };
        if value.len() > MAX_SECRET_BYTES {
            problem("Value", format!("must not be longer than {MAX_SECRET_BYTES} bytes"));
        }
        if problems.is_empty() { Ok((Self {}, value)) } else { Err(problems) }
    }
}
