//! The fields of each type of engine, publisher and source.

use api_types::engine::NoopParams;

use super::{Field, Shape, optional, required};

pub(super) const DOCKER: &[Field] = &[
    required("Image", Shape::Image),
    optional("Entrypoint", Shape::TextList),
    optional("Parameters", Shape::TextList),
    optional("EnvironmentVariables", Shape::Variables),
    optional("WorkingDirectory", Shape::WorkingDirectory),
    optional("PullPolicy", Shape::PullPolicy),
    optional("Credentials", Shape::Name),
];

pub(super) const WASM: &[Field] = &[
    required("EntryModule", Shape::Source),
    optional("EntryPoint", Shape::Text),
    optional("Parameters", Shape::TextList),
    optional("EnvironmentVariables", Shape::TextMap),
    optional("ImportModules", Shape::SourceList),
];

pub(super) const NOOP: &[Field] = &[
    optional("FailEvery", Shape::Number(1, NoopParams::MOST_FAIL_EVERY)),
    optional("WaitMilliseconds", Shape::Number(0, NoopParams::LONGEST_WAIT_MILLISECONDS)),
];

pub(super) const S3_SOURCE: &[Field] = &[
    required("Bucket", Shape::Text),
    required("Key", Shape::Text),
    optional("Region", Shape::Text),
    optional("Endpoint", Shape::HttpUrl),
    optional("VersionID", Shape::Text),
    optional("ChecksumSHA256", Shape::Text),
    optional("Filter", Shape::Regex),
    optional("Credentials", Shape::Name),
];

pub(super) const S3_PUBLISHER: &[Field] = &[
    required("Bucket", Shape::Text),
    required("Key", Shape::Text),
    optional("Region", Shape::Text),
    optional("Endpoint", Shape::HttpUrl),
    optional("Credentials", Shape::Name),
];

pub(super) const URL_DOWNLOAD: &[Field] =
    &[required("URL", Shape::HttpUrl), optional("Credentials", Shape::Name)];

pub(super) const REPOSITORY: &[Field] = &[
    required("Repo", Shape::RepositoryUrl),
    optional("Ref", Shape::Text),
    optional("Credentials", Shape::Name),
];

pub(super) const LOCAL_DIRECTORY: &[Field] =
    &[required("SourcePath", Shape::AbsolutePath), optional("ReadWrite", Shape::Flag)];

pub(super) const JOB: &[Field] = &[
    optional("JobID", Shape::JobId),
    optional("Job", Shape::Text),
    optional("Path", Shape::ResultPath),
    optional("Index", Shape::Index),
];
