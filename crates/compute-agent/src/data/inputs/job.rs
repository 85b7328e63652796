//! Inputs that are results of another job: one archive for each of its indexes, of which a file, a
//! directory or everything is unpacked.
//!
//! Archives that nodes keep come through the orchestrator; from a bucket or IPFS they come as other
//! inputs do. The results of one index are seen at Target, those of all indexes in directories that
//! are named after them.

pub(crate) mod relay;

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agent_core::execution::Failure;
use api_types::job_input::{InputResult, InputResults};
use api_types::source::{InputSource, IpfsParams, JobSourceParams, ResultIndex, SourceType};
use flate2::read::GzDecoder;
use futures_util::future::{BoxFuture, FutureExt};
use unpack::{Entries, RelativePath};

use super::cache::Cache;
use super::placement::MountedInput;
use super::s3::S3;
use super::source::{Fetch, Source, params};
use crate::data::archive::part::{Part, Selected};
use crate::data::archive::{self, ArchiveError, Modes, SizeLimit};
use crate::data::ipfs::Kubo;
use crate::data::retry::{AttemptError, RetryPolicy};
use crate::host::disk::is_full;
use crate::host::tree::remove_all;

/// The file name in a Target that ends with `/`, without an Alias and a Path.
const DEFAULT_NAME: &str = "results";

/// Bytes after the last entry of an archive that are read: a tar ends with a few blocks of zeros.
const MAX_PADDING_BYTES: u64 = 1 << 20;

/// What became of the results of one index, or of all: the name of the entry that has them.
const FILE: &str = "file";
const DIRECTORY: &str = "directory";
const NOTHING: &str = "nothing";

#[derive(Debug)]
pub(crate) struct JobResults {
    s3: S3,
    kubo: Option<Kubo>,
    retry: RetryPolicy,
}

/// What an input asks for.
struct Wanted {
    path: RelativePath,
    index: ResultIndex,
    /// Of a file.
    name: String,
}

// === impl JobResults ===

impl JobResults {
    pub(crate) fn new(s3: S3, kubo: Option<Kubo>, retry: RetryPolicy) -> Self {
        Self { s3, kubo, retry }
    }

    async fn bring(&self, fetch: Fetch<'_>) -> Result<MountedInput, AttemptError> {
        let Wanted { path, index, name } =
            wanted(fetch.input).map_err(|reason| AttemptError::Permanent(Failure::task(reason)))?;
        let name = fetch.place.file_name(&name, DEFAULT_NAME);
        let results = fetch.results.ok_or_else(|| {
            AttemptError::permanent("the orchestrator did not say which results it has")
        })?;
        let part = Part { path, file_name: name.clone() };
        let content = fetch.place.temporary("content");
        let key = key(results, index, &part);
        let unpack = || async {
            remove_all(&content)?;
            make_directory(&content)?;
            match index {
                ResultIndex::All => {
                    self.all(&fetch, results, &part, &content.join(DIRECTORY)).await
                }
                ResultIndex::One(_) | ResultIndex::Same => {
                    self.one(&fetch, results, &part, &content).await
                }
            }
        };
        fetch.cache.fill(&key, &content, &fetch.quota, unpack).await?;
        let directory = fetch.place.directory();
        remove_all(&directory)?;
        let is_there = |entry: &str| content.join(entry).exists();
        if is_there(DIRECTORY) {
            fs::rename(content.join(DIRECTORY), directory)?;
            return Ok(fetch.place.mounted_directory());
        }
        if is_there(FILE) {
            fs::rename(content.join(FILE), &directory)?;
            return Ok(fetch.place.mounted_file(&name));
        }
        // An empty directory in the place of what was left out.
        let place = fetch.place.make_file(&name)?;
        make_directory(&place)?;
        Ok(fetch.place.mounted_file(&name))
    }

    /// The results of all indexes, each in its directory.
    async fn all(
        &self,
        fetch: &Fetch<'_>,
        results: &InputResults,
        part: &Part,
        into: &Path,
    ) -> Result<(), AttemptError> {
        make_directory(into)?;
        for result in &results.results {
            let place = into.join(result.index.to_string());
            if self.unpack(fetch, (results, result), part, &place).await? == Selected::Nothing {
                remove_all(&place)?;
            }
        }
        Ok(())
    }

    async fn one(
        &self,
        fetch: &Fetch<'_>,
        results: &InputResults,
        part: &Part,
        content: &Path,
    ) -> Result<(), AttemptError> {
        let unpacked = fetch.place.temporary("unpacked");
        let selected = match results.results.first() {
            Some(result) => self.unpack(fetch, (results, result), part, &unpacked).await?,
            None => Selected::Nothing,
        };
        match selected {
            Selected::File => fs::rename(unpacked, content.join(FILE))?,
            Selected::Directory => fs::rename(unpacked, content.join(DIRECTORY))?,
            Selected::Nothing => {
                remove_all(&unpacked)?;
                make_directory(&content.join(NOTHING))?;
            }
        }
        Ok(())
    }

    /// Unpacks the part of one archive.
    async fn unpack(
        &self,
        fetch: &Fetch<'_>,
        (results, result): (&InputResults, &InputResult),
        part: &Part,
        into: &Path,
    ) -> Result<Selected, AttemptError> {
        let whose = format!("the results of job '{}', index {}", results.job, result.index);
        let attempt = || async {
            remove_all(into)?;
            let reader = self.open(fetch, results, result).await?;
            let (part, into) = (part.clone(), into.to_owned());
            let limit = SizeLimit::with_holes(fetch.quota.left_bytes());
            let disk = fetch.quota.disk().clone();
            let unpacking = tokio::task::spawn_blocking(move || {
                let mut tar = GzDecoder::new(reader);
                let modes = Modes::Readable;
                let unpacked = archive::unpack_part(&mut tar, &part, &into, limit, modes, &disk)?;
                // To the end: what checks the transfer is there.
                io::copy(&mut (&mut tar).take(MAX_PADDING_BYTES), &mut io::sink())?;
                io::copy(&mut tar.into_inner(), &mut io::sink())?;
                Ok(unpacked)
            });
            let unpacked = unpacking.await;
            let unpacked = unpacked.unwrap_or_else(|error| Err(io::Error::other(error).into()));
            unpacked.map_err(|error| attempt_error(fetch, error))
        };
        let said = |failure: Failure| {
            let message = format!("{whose}: {}", failure.message);
            AttemptError::Permanent(Failure { message, ..failure })
        };
        let unpacked = self.retry.run(attempt).await.map_err(said)?;
        fetch.quota.count(unpacked.bytes)?;
        if unpacked.selected == Selected::Nothing && results.required {
            let path = part.path.as_path().display();
            let message = format!("there is no '{path}' in {whose}");
            return Err(AttemptError::Permanent(Failure::task(message)));
        }
        Ok(unpacked.selected)
    }

    async fn open(
        &self,
        fetch: &Fetch<'_>,
        results: &InputResults,
        result: &InputResult,
    ) -> Result<Box<dyn Read + Send>, AttemptError> {
        let Some(source) = &result.source else {
            return fetch.relay.reader(result.execution_id).await;
        };
        let input =
            InputSource { source: source.clone(), target: String::new(), alias: String::new() };
        match source.source_type {
            SourceType::S3 => {
                let reader = self.s3.archive(&input, &results.credentials).await?;
                Ok(Box::new(reader))
            }
            SourceType::Ipfs => {
                let IpfsParams { cid } = params(&input).map_err(AttemptError::permanent)?;
                let lacking = || Failure::node("this node has no IPFS");
                let kubo = self.kubo.as_ref();
                let kubo = kubo.ok_or_else(|| AttemptError::Permanent(lacking()))?;
                // A tar whose only entry is the archive.
                let mut outer = Entries::new(kubo.get(&cid).await?);
                let advanced = tokio::task::spawn_blocking(move || {
                    outer.advance().map(|entry| (entry, outer))
                });
                let advanced = advanced.await.unwrap_or_else(|error| Err(io::Error::other(error)));
                match advanced {
                    Ok((Some(_), outer)) => Ok(Box::new(outer)),
                    Ok((None, _)) => Err(AttemptError::transient("the IPFS node sent nothing")),
                    Err(error) => Err(AttemptError::transient(error.to_string())),
                }
            }
            SourceType::Inline
            | SourceType::UrlDownload
            | SourceType::LocalDirectory
            | SourceType::RepoClone
            | SourceType::RepoCloneLfs
            | SourceType::Job => {
                let kind = source.source_type;
                Err(AttemptError::permanent(format!("no job publishes to a source '{kind}'")))
            }
        }
    }
}

impl Source for JobResults {
    fn admit(&self, input: &InputSource) -> Result<(), String> {
        wanted(input).map(drop)
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>> {
        self.bring(fetch).boxed()
    }
}

fn wanted(input: &InputSource) -> Result<Wanted, String> {
    let JobSourceParams { path, index, .. } = params(input)?;
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let path = RelativePath::new(Path::new(&path))
        .map_err(|reason| format!("its Path '{path}' {reason}"))?;
    Ok(Wanted { path, index, name })
}

/// Everything that decides what the input has: results of a completed execution never change.
fn key(results: &InputResults, index: ResultIndex, part: &Part) -> String {
    let path = part.path.as_path().to_string_lossy();
    let is_all = if index == ResultIndex::All { "all" } else { "one" };
    let required = if results.required { "required" } else { "" };
    let each = results.results.iter();
    let each: Vec<String> =
        each.map(|result| format!("{} {}", result.index, result.execution_id)).collect();
    let mut parts = vec!["job", &path, &part.file_name, is_all, required];
    parts.extend(each.iter().map(String::as_str));
    Cache::key(&parts)
}

fn attempt_error(fetch: &Fetch<'_>, error: ArchiveError) -> AttemptError {
    match error {
        ArchiveError::TooLarge { .. } => AttemptError::Permanent(fetch.quota.too_large()),
        ArchiveError::Io(error) if error.raw_os_error().is_some() || is_full(&error) => {
            AttemptError::of_disk(&error)
        }
        ArchiveError::Io(error) => {
            AttemptError::transient(format!("the transfer broke off: {error}"))
        }
        error @ (ArchiveError::TooManyEntries
        | ArchiveError::Escape { .. }
        | ArchiveError::Unusable { .. }
        | ArchiveError::TooDeep) => {
            AttemptError::Permanent(Failure::task(format!("cannot unpack the archive: {error}")))
        }
    }
}

/// For the task's user, who is not the agent's.
fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}
