//! The messages between the agent and a fetch process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::credential::CredentialValue;
use api_types::job_input::InputResults;
use api_types::source::{InputSource, SourceSpec, SourceType};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::data::credentials::named;
use crate::data::inputs::placement::{
    InputDestination, MountedInput, Quota, QuotaRecord, check_file_name,
};
use crate::data::retry::AttemptError;
use crate::host::settings::{AwsVariables, InputSettings, IpfsSettings, S3Settings, Settings};

/// Memory of the process. Transfers are streamed, so it is the same for every size of input.
pub(crate) const MEMORY_BYTES: u64 = 192 << 20;

/// Variables that say where programs, libraries and certificates are; all that the process gets.
pub(crate) const VARIABLES: [&str; 4] =
    ["PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// One input to fetch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) input: InputSource,
    pub(crate) credential: Option<CredentialValue>,
    /// What an input has that is results of a job.
    pub(crate) results: Option<InputResults>,
    pub(crate) place: InputDestination,
    pub(crate) quota: QuotaRecord,
    pub(crate) settings: FetchSettings,
}

/// The settings that the sources depend on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FetchSettings {
    allow_local_paths: Vec<String>,
    allow_private_addresses: bool,
    allow_unconfined: bool,
    ipfs_api: String,
    s3_endpoints: Vec<String>,
    s3_buckets: Vec<String>,
    aws: BTreeMap<String, String>,
}

/// From the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromFetcher {
    Progress {
        taken_bytes: u64,
        expected_bytes: u64,
    },
    /// Fill the directory from the cache.
    Find {
        key: String,
        directory: PathBuf,
    },
    /// The directory of the last [`Find`](Self::Find) is complete.
    Fetched,
    /// Begin the archive that this execution published.
    Open {
        published_by: ExecutionId,
    },
    /// More of the archive that was opened last.
    Read,
    Done {
        mounted: MountedInput,
        taken_bytes: u64,
    },
    Failed {
        failure: Failure,
        taken_bytes: u64,
    },
}

/// To the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToFetcher {
    Linked {
        bytes: u64,
    },
    Missing,
    Kept,
    Opened,
    /// The end, if it is empty.
    Piece {
        base64: String,
    },
    /// No archive can be had, or no more of it.
    Unavailable {
        failure: Failure,
        is_transient: bool,
    },
}

// === impl ToFetcher ===

impl ToFetcher {
    pub(super) fn piece(piece: Option<io::Result<Bytes>>) -> Self {
        match piece {
            Some(Ok(bytes)) => Self::Piece { base64: STANDARD.encode(bytes) },
            None => Self::Piece { base64: String::new() },
            Some(Err(error)) => Self::unavailable(AttemptError::transient(error.to_string())),
        }
    }

    pub(super) fn unavailable(error: AttemptError) -> Self {
        let (failure, is_transient) = match error {
            AttemptError::Transient(failure) => (failure, true),
            AttemptError::Permanent(failure) => (failure, false),
        };
        Self::Unavailable { failure, is_transient }
    }
}

// === impl Order ===

impl Order {
    pub(crate) fn new(
        input: &InputSource,
        (credential, results): (Option<&CredentialValue>, Option<&InputResults>),
        place: &InputDestination,
        quota: &Quota,
        settings: &FetchSettings,
    ) -> Self {
        let mut settings = settings.clone();
        if !needs_credentials(input, results) || credential.is_some() {
            settings.aws.clear();
        }
        Self {
            input: input.clone(),
            credential: credential.cloned(),
            results: results.cloned(),
            place: place.clone(),
            quota: quota.record(),
            settings,
        }
    }

    /// Whether this is a directory that the process may ask the cache for: one level below its own,
    /// and no link, which would lead the agent elsewhere.
    pub(crate) fn is_own_directory(&self, path: &Path) -> bool {
        let is_plain = matches!(path.components().next_back(), Some(Component::Normal(_)));
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        is_plain && path.parent() == Some(self.place.root()) && !is_link
    }

    /// Whether the process, which has ended, may have this mounted: something below its own
    /// directory, whatever links lie on the way, at the target that the task asked for, or under a
    /// name in it.
    pub(crate) fn is_own_mount(&self, mounted: &MountedInput) -> io::Result<bool> {
        let source = mounted.source.canonicalize()?;
        let (wanted, target) = (self.input.target.as_str(), mounted.target.as_str());
        let is_target = [wanted, wanted.trim_end_matches('/')].contains(&target);
        let name = target.strip_prefix(wanted).filter(|_| wanted.ends_with('/'));
        let is_in_target = name.is_some_and(|name| check_file_name(name).is_ok());
        Ok(source.starts_with(self.place.root().canonicalize()?)
            && (is_target || is_in_target)
            && !mounted.writable)
    }
}

/// Whether the node's own credentials may be needed.
fn needs_credentials(input: &InputSource, results: Option<&InputResults>) -> bool {
    let of_results = results.into_iter().flat_map(|results| &results.results);
    let mut sources = of_results.filter_map(|result| result.source.as_ref());
    let is_of_node = |source: &SourceSpec| {
        source.source_type == SourceType::S3 && named(&source.params).is_none()
    };
    input.source.source_type == SourceType::S3 || sources.any(is_of_node)
}

// === impl FetchSettings ===

impl FetchSettings {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self {
            allow_local_paths: settings.allow_local_paths.clone(),
            allow_private_addresses: settings.allow_private_addresses,
            allow_unconfined: settings.allow_unconfined,
            ipfs_api: settings.ipfs.api.clone(),
            s3_endpoints: settings.s3.endpoints.clone(),
            s3_buckets: settings.s3.buckets.clone(),
            aws: settings.aws.0.clone(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            allow_local_paths: self.allow_local_paths.clone(),
            allow_private_addresses: self.allow_private_addresses,
            allow_unconfined: self.allow_unconfined,
            ipfs: IpfsSettings { api: self.ipfs_api.clone() },
            s3: S3Settings {
                endpoints: self.s3_endpoints.clone(),
                buckets: self.s3_buckets.clone(),
            },
            aws: AwsVariables(self.aws.clone()),
            inputs: InputSettings::default(),
            // It is that process already.
            program: None,
            ..Settings::default()
        }
    }

    pub(crate) fn allow_unconfined(&self) -> bool {
        self.allow_unconfined
    }

    pub(crate) fn allow_local_paths(&self) -> &[String] {
        &self.allow_local_paths
    }
}

#[cfg(test)]
mod tests {
    use api_types::source::{SourceSpec, SourceType};

    use super::*;
    use crate::host::disk::LimitedBy;

    #[test]
    fn a_mount_is_at_the_target_or_under_a_plain_name_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("file");
        std::fs::write(&source, "x").unwrap();
        let is_own = |wanted: &str, target: &str| {
            let source_type = SourceType::UrlDownload;
            let input = InputSource {
                source: SourceSpec { source_type, params: Default::default() },
                target: wanted.to_owned(),
                alias: String::new(),
            };
            let place = InputDestination::new(directory.path().to_owned(), &input);
            let quota = Quota::new(1, LimitedBy::Node, crate::testing::any_disk());
            let settings = FetchSettings::from_settings(&Settings::default());
            let order = Order::new(&input, (None, None), &place, &quota, &settings);
            let mounted =
                MountedInput { source: source.clone(), target: target.to_owned(), writable: false };
            order.is_own_mount(&mounted).unwrap()
        };
        for (wanted, target) in [("/in", "/in"), ("/in/", "/in"), ("/in/", "/in/file")] {
            assert!(is_own(wanted, target), "{target} for {wanted}");
        }
        let others =
            [("/in", "/in/file"), ("/in/", "/in/../etc"), ("/in/", "/in/a/b"), ("/in/", "/in/..")];
        for (wanted, target) in others {
            assert!(!is_own(wanted, target), "{target} for {wanted}");
        }
    }
}
