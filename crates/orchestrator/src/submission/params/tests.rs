//! The tables of fields.

use std::collections::BTreeSet;

use api_types::engine::{DockerParams, NoopParams, S3PublisherParams};
use api_types::source::{
    InlineParams, IpfsParams, JobSourceParams, LocalDirectoryParams, RepositoryParams,
    S3SourceParams, UrlParams,
};
use serde::Serialize;

use super::*;

/// The agent can read everything that passes these checks, and vice versa.
fn agree<T: Serialize + Default>(table: Table, _: T) {
    let checked: BTreeSet<_> = table.iter().map(|field| field.name.to_owned()).collect();
    let read = serde_json::to_value(T::default()).unwrap();
    let read: BTreeSet<_> = read.as_object().unwrap().keys().cloned().collect();
    assert_eq!(checked, read);
}

#[test]
fn the_tables_match_what_the_agents_read() {
    agree(of_engine(EngineType::Docker), DockerParams::default());
    agree(of_engine(EngineType::Noop), NoopParams::default());
    agree(of_publisher(PublisherType::S3), S3PublisherParams::default());
    agree(of_source(SourceType::Inline), InlineParams::default());
    agree(of_source(SourceType::UrlDownload), UrlParams::default());
    agree(of_source(SourceType::LocalDirectory), LocalDirectoryParams::default());
    agree(of_source(SourceType::S3), S3SourceParams::default());
    agree(of_source(SourceType::RepoClone), RepositoryParams::default());
    agree(of_source(SourceType::RepoCloneLfs), RepositoryParams::default());
    agree(of_source(SourceType::Ipfs), IpfsParams::default());
    agree(of_source(SourceType::Job), JobSourceParams::default());
}
