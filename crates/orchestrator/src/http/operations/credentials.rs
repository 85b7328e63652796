//! Operations on credentials.

use std::sync::Arc;

use api_types::credential::{
    CredentialType, DescribeCredential, ListCredentials, PutCredential, check_host_pattern,
};
use api_types::error::FieldError;
use api_types::{Code, routes};
use axum::extract::State;
use daemon::collect;
use daemon::http::Operations;
use daemon::http::Peer;
use zeroize::Zeroizing;

use super::sealed::{self, ListQuery, OneQuery, Resource, Value, operations};
use crate::credentials::CredentialScope;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::Kind;
use crate::http::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use crate::http::respond::json;
use crate::names;

/// Hosts, and buckets, of one record.
const MAX_PLACES: usize = 64;

/// The longest field of a login; tokens of identity providers have some kilobytes.
const MAX_FIELD_BYTES: usize = 16 << 10;

/// The longest name of a bucket, of any service.
const MAX_BUCKET_BYTES: usize = 255;

operations! {
    CredentialScope, "Credentials", CREDENTIALS, CREDENTIAL, CredentialPath, CredentialNotFound;

    /// List Credentials
    ///
    /// What jobs of a namespace may sign in with elsewhere, without the logins.
    list "listCredentials" -> ListCredentials { credentials }, list_credentials, "The credentials, in order of namespace and name.";

    /// Describe Credential
    ///
    /// One record of credentials, without the login.
    describe "describeCredential" -> DescribeCredential { credential }, describe_credential, "The credentials.";

    /// Put Credential
    ///
    /// Creates the credentials, or replaces all of them. Whatever is fetched or published from now on
    /// uses them.
    put "putCredential" <- PutCredential, put_credential;

    /// Delete Credential
    ///
    /// Jobs that name the credentials wait until there are some again.
    delete "deleteCredential", "The credentials as they were.";
}

impl Resource for CredentialScope {
    const NAMED: Kind = Kind::Credential;

    type Put = PutCredential;

    fn checked(name: &str, asked: PutCredential) -> Result<(Self, Value), Vec<FieldError>> {
        let mut problems = Vec::new();
        let mut problem = |path: &str, reason: &str| {
            problems.push(FieldError { path: path.to_owned(), reason: reason.to_owned() });
        };
        if !names::is_name(name) {
            problem("", &format!("the name of credentials {}", names::RULE));
        }
        let PutCredential { credential_type, hosts, buckets, login } = asked;
        let kind = credential_type.parse::<CredentialType>();
        if let Err(error) = &kind {
            problem("Type", &error.to_string());
        }
        if hosts.is_empty() {
            problem("Hosts", "is required: the only hosts that get the login");
        }
        for (path, places) in [("Hosts", &hosts), ("Buckets", &buckets)] {
            if places.len() > MAX_PLACES {
                problem(path, &format!("must not be more than {MAX_PLACES}"));
            }
        }
        for (index, host) in hosts.iter().take(MAX_PLACES).enumerate() {
            if let Err(reason) = check_host_pattern(host) {
                problem(&format!("Hosts[{index}]"), reason);
            }
        }
        if !buckets.is_empty() && kind.as_ref().is_ok_and(|kind| *kind != CredentialType::S3) {
            problem("Buckets", "does not belong to this Type");
        }
        for (index, bucket) in buckets.iter().take(MAX_PLACES).enumerate() {
            if bucket.is_empty() || bucket.len() > MAX_BUCKET_BYTES {
                problem(&format!("Buckets[{index}]"), "is not the name of a bucket");
            }
        }
        for (field, reason) in kind.as_ref().map(|kind| login.problems(*kind)).unwrap_or_default() {
            problem(&format!("Login.{field}"), reason);
        }
        if login.longest_bytes() > MAX_FIELD_BYTES {
            problem("Login", &format!("no field may be longer than {MAX_FIELD_BYTES} bytes"));
        }
        match kind {
            Ok(credential_type) if problems.is_empty() => {
                let login = serde_json::to_vec(&login).expect("a login is plain data");
                Ok((Self { credential_type, hosts, buckets }, Zeroizing::new(login)))
            }
            _ => Err(problems),
        }
    }
}
