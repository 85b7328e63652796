//! The contract of a source: from the specification of an input to its mount.

use std::sync::Arc;

use api_types::credential::CredentialValue;
use api_types::job_input::InputResults;
use api_types::source::InputSource;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use super::cache::handle::CacheHandle;
use super::job::relay::InputRelay;
use super::placement::{InputDestination, MountedInput, Quota};
use crate::data::retry::AttemptError;

pub(crate) trait Source: Send + Sync {
    /// Why this input cannot be fetched, judging by its specification alone.
    fn admit(&self, input: &InputSource) -> Result<(), String>;

    /// Fetches the input to its destination and returns the mount. A source retries transient
    /// errors itself; its result is final.
    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>>;
}

/// One input to fetch.
#[derive(Debug, Clone)]
pub(crate) struct Fetch<'a> {
    pub(crate) input: &'a InputSource,
    /// The credentials that its `Params` name.
    pub(crate) credential: Option<&'a CredentialValue>,
    /// What an input has that is results of a job.
    pub(crate) results: Option<&'a InputResults>,
    /// Where the archives of these come from.
    pub(crate) relay: InputRelay,
    pub(crate) place: InputDestination,
    /// The shared byte limit of all inputs of its task.
    pub(crate) quota: Arc<Quota>,
    pub(crate) cache: CacheHandle<'a>,
}

/// Parses the `Params` of an input as its type requires.
pub(super) fn params<T: DeserializeOwned>(input: &InputSource) -> Result<T, String> {
    serde_json::from_value(input.source.params.clone().into())
        .map_err(|error| format!("its Params are invalid: {error}"))
}
