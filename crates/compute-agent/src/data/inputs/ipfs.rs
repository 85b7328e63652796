//! Inputs from IPFS: the file or directory of a content ID.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agent_core::execution::Failure;
use api_types::source::{InputSource, IpfsParams};
use futures_util::future::{BoxFuture, FutureExt};

use super::cache::Cache;
use super::placement::MountedInput;
use super::source::{Fetch, Source, params};
use crate::data::archive::{self, ArchiveError, Modes};
use crate::data::ipfs::Kubo;
use crate::data::retry::{AttemptError, RetryPolicy};
use crate::host::disk::is_full;
use crate::host::tree::remove_all;

/// The file name in a Target that ends with `/`, without an Alias; otherwise the content ID.
const DEFAULT_FILE_NAME: &str = "ipfs";

/// The kind of a cached content: a directory with the one file, or the directory itself.
const FILE: &str = "file";
const DIRECTORY: &str = "directory";

#[derive(Debug)]
pub(crate) struct Ipfs {
    kubo: Kubo,
    retry: RetryPolicy,
}

// === impl Ipfs ===

impl Ipfs {
    pub(crate) fn new(kubo: Kubo, retry: RetryPolicy) -> Self {
        Self { kubo, retry }
    }

    async fn bring(&self, fetch: Fetch<'_>) -> Result<MountedInput, AttemptError> {
        let path =
            path(fetch.input).map_err(|reason| AttemptError::Permanent(Failure::task(reason)))?;
        let last = path.rsplit('/').next().unwrap_or_default();
        let name = fetch.place.file_name(last, DEFAULT_FILE_NAME);
        let key = Cache::key(&["ipfs", &path, &name]);
        let content = fetch.place.temporary("content");
        let get = || async {
            let attempt = || self.get(&path, &name, &content, &fetch);
            self.retry.run(attempt).await.map_err(AttemptError::Permanent)
        };
        fetch.cache.fill(&key, &content, &fetch.quota, get).await?;
        let directory = fetch.place.directory();
        remove_all(&directory)?;
        match fs::rename(content.join(FILE), &directory) {
            Ok(()) => Ok(fetch.place.mounted_file(&name)),
            Err(_) => {
                fs::rename(content.join(DIRECTORY), directory)?;
                Ok(fetch.place.mounted_directory())
            }
        }
    }

    /// Fills `content` with a directory whose name is the kind of the content.
    async fn get(
        &self,
        path: &str,
        name: &str,
        content: &Path,
        fetch: &Fetch<'_>,
    ) -> Result<(), AttemptError> {
        let reader = self.kubo.get(path).await?;
        let (temporary, content, name) =
            (fetch.place.temporary("unpacked"), content.to_owned(), name.to_owned());
        let (limit_bytes, disk) = (fetch.quota.left_bytes(), fetch.quota.disk().clone());
        let unpacking = tokio::task::spawn_blocking(move || {
            remove_all(&temporary)?;
            remove_all(&content)?;
            fs::create_dir(&content)?;
            let unpacked =
                archive::unpack(reader, &temporary, limit_bytes, Modes::Readable, &disk)?;
            let top = fs::read_dir(&temporary)?.next().transpose()?;
            let top = top.ok_or_else(|| io::Error::other("the IPFS node sent nothing"))?;
            if top.file_type()?.is_dir() {
                fs::rename(top.path(), content.join(DIRECTORY))?;
            } else {
                let directory = content.join(FILE);
                fs::create_dir(&directory)?;
                fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
                fs::rename(top.path(), directory.join(name))?;
            }
            Ok(unpacked.bytes)
        });
        let unpacked = unpacking.await.unwrap_or_else(|error| Err(io::Error::other(error).into()));
        let size_bytes = unpacked.map_err(|error| match error {
            ArchiveError::TooLarge { .. } => AttemptError::Permanent(fetch.quota.too_large()),
            ArchiveError::Io(error) if error.raw_os_error().is_some() || is_full(&error) => {
                AttemptError::of_disk(&error)
            }
            error @ (ArchiveError::TooManyEntries
            | ArchiveError::Escape { .. }
            | ArchiveError::Unusable { .. }
            | ArchiveError::TooDeep) => {
                AttemptError::Permanent(Failure::task(format!("cannot unpack '{path}': {error}")))
            }
            error @ ArchiveError::Io(_) => {
                AttemptError::transient(format!("the transfer of '{path}' broke off: {error}"))
            }
        })?;
        fetch.quota.count(size_bytes)
    }
}

impl Source for Ipfs {
    fn admit(&self, input: &InputSource) -> Result<(), String> {
        path(input).map(drop)
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>> {
        self.bring(fetch).boxed()
    }
}

/// Parses the content ID and the path below it.
fn path(input: &InputSource) -> Result<String, String> {
    let params: IpfsParams = params(input)?;
    let path = params.cid.strip_prefix("/ipfs/").unwrap_or(&params.cid).trim_end_matches('/');
    let (cid, below) = path.split_once('/').unwrap_or((path, "x"));
    let is_cid = !cid.is_empty() && cid.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_cid || below.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(format!("its CID '{}' is not a content ID", params.cid));
    }
    Ok(path.to_owned())
}
