//! Inputs from a bucket: one object, or every object that a prefix and a filter select.

use std::collections::HashSet;
use std::fs::Permissions;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path as FilePath;
use std::sync::{Mutex, PoisonError};

use agent_core::execution::Failure;
use api_types::credential::CredentialValue;
use api_types::source::{InputSource, S3SourceParams};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::{GetOptions, GetResult, ObjectMeta, ObjectStore};
use regex::Regex;
use ring::digest::{Context, SHA256};
use rustix::io::Errno;
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use unpack::{Beneath, RelativePath};

use super::cache::Cache;
use super::job::relay::Transfer;
use super::placement::{InputDestination, MountedInput, Quota};
use super::source::{Fetch, Source, params};
use crate::data::archive::why_unusable;
use crate::data::checked::Checked;
use crate::data::retry::AttemptError;
use crate::data::s3::{Bucket, BucketRef, Buckets};
use crate::host::tree;

/// Objects of one input; a larger input is refused, before the node's disk suffers.
const MAX_OBJECTS: usize = 100_000;

/// Pages of one listing, 1,000 keys each: a server may list without end what a filter drops.
const MAX_PAGES: usize = 10_000;

/// Parallel downloads: with many small objects, latency dominates.
const OBJECTS_AT_ONCE: usize = 8;

/// The file name in a Target that ends with `/`, when neither Alias nor Key has one.
const DEFAULT_FILE_NAME: &str = "object";

#[derive(Debug)]
pub(crate) struct S3 {
    buckets: Buckets,
}

/// What a Key selects.
enum Wanted {
    Object { checksum_sha256: Option<Vec<u8>>, version: Option<String> },
    Prefix { prefix: String, filter: Option<Regex> },
}

// === impl S3 ===

impl S3 {
    pub(crate) fn new(buckets: Buckets) -> Self {
        Self { buckets }
    }

    pub(crate) fn has_credentials(&self) -> bool {
        self.buckets.has_credentials()
    }

    /// The content of one object that is an archive; the reader fails at the end if its checksum is
    /// another one.
    pub(super) async fn archive(
        &self,
        input: &InputSource,
        credentials: &[CredentialValue],
    ) -> Result<impl Read + Send + use<>, AttemptError> {
        let params: S3SourceParams = params(input).map_err(AttemptError::permanent)?;
        let named = credentials.iter().find(|value| value.name == params.credentials);
        if named.is_none() && !self.has_credentials() {
            let message = "the bucket needs credentials, and this node has none";
            return Err(AttemptError::Permanent(Failure::node(message)));
        }
        let bucket = self.buckets.open(bucket_ref(&params), named)?;
        let Wanted::Object { checksum_sha256, version } =
            wanted(&params).map_err(AttemptError::permanent)?
        else {
            return Err(AttemptError::permanent("the results are no object"));
        };
        let options = GetOptions { version, ..GetOptions::default() };
        let found = bucket.store.get_opts(&bucket.path(&params.key)?, options).await;
        let found = found.map_err(|error| bucket.attempt_error(&params.key, &error))?;
        let broken = |error| io::Error::new(io::ErrorKind::UnexpectedEof, error);
        let pieces = found.into_stream().map_err(broken).boxed();
        Ok(Checked::new(Transfer::new(pieces).into_reader(), checksum_sha256))
    }

    async fn bring(&self, fetch: Fetch<'_>) -> Result<MountedInput, AttemptError> {
        let of_task = |reason| AttemptError::Permanent(Failure::task(reason));
        let params: S3SourceParams = params(fetch.input).map_err(of_task)?;
        let bucket = self.buckets.open(bucket_ref(&params), fetch.credential)?;
        match wanted(&params).map_err(of_task)? {
            Wanted::Object { checksum_sha256, version } => {
                bring_object(&fetch, &bucket, &params.key, version, checksum_sha256).await
            }
            Wanted::Prefix { prefix, filter } => {
                bring_prefix(&fetch, &bucket, &prefix, filter).await
            }
        }
    }
}

impl Source for S3 {
    fn admit(&self, input: &InputSource) -> Result<(), String> {
        let params: S3SourceParams = params(input)?;
        self.buckets.admit(bucket_ref(&params))?;
        wanted(&params).map(drop)
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>> {
        self.bring(fetch).boxed()
    }
}

fn bucket_ref(params: &S3SourceParams) -> BucketRef<'_> {
    BucketRef::new(&params.bucket, &params.region, &params.endpoint, &params.credentials)
}

fn wanted(params: &S3SourceParams) -> Result<Wanted, String> {
    let S3SourceParams { key, version_id, checksum_sha256, filter, .. } = params;
    if key.ends_with(['/', '*']) {
        for (name, value) in [("VersionID", version_id), ("ChecksumSHA256", checksum_sha256)] {
            if !value.is_empty() {
                return Err(format!(
                    "{name} applies to one object, but its Key '{key}' names a prefix"
                ));
            }
        }
        let filter = match filter.as_str() {
            "" => None,
            pattern => Some(
                Regex::new(pattern)
                    .map_err(|error| format!("its Filter is not a regular expression: {error}"))?,
            ),
        };
        return Ok(Wanted::Prefix { prefix: key.trim_end_matches('*').to_owned(), filter });
    }
    if key.is_empty() {
        return Err("its Params need a Key".to_owned());
    }
    if !filter.is_empty() {
        return Err(format!(
            "Filter chooses among objects, and its Key '{key}' names one; end it with '/' or '*'"
        ));
    }
    let checksum_sha256 = match checksum_sha256.as_str() {
        "" => None,
        text => match BASE64_STANDARD.decode(text) {
            Ok(bytes) if bytes.len() == SHA256.output_len() => Some(bytes),
            _ => return Err(format!("its ChecksumSHA256 '{text}' is not the base64 of a SHA-256")),
        },
    };
    let version = Some(version_id.clone()).filter(|version| !version.is_empty());
    Ok(Wanted::Object { checksum_sha256, version })
}

async fn bring_object(
    fetch: &Fetch<'_>,
    bucket: &Bucket,
    key: &str,
    version: Option<String>,
    checksum: Option<Vec<u8>>,
) -> Result<MountedInput, AttemptError> {
    let options = GetOptions { version: version.clone(), ..GetOptions::default() };
    let found = bucket.store.get_opts(&bucket.path(key)?, options).await;
    let found = found.map_err(|error| bucket.attempt_error(key, &error))?;
    fetch.quota.expect(found.meta.size)?;
    let last = key.rsplit('/').next().unwrap_or_default();
    let name = fetch.place.file_name(last, DEFAULT_FILE_NAME);
    let tag = found.meta.version.clone().or(version).or_else(|| found.meta.e_tag.clone());
    let (place, name_of_file, wanted) = (&fetch.place, name.as_str(), checksum.as_deref());
    let quota = &*fetch.quota;
    let write = || async move {
        let file = place.make_file(name_of_file)?;
        let temporary = place.temporary("partial");
        let output = std::fs::File::create(&temporary)?;
        let sum = save(bucket, key, found, output, quota).await?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != sum) {
            return Err(AttemptError::permanent(format!(
                "object '{key}' in bucket '{}' is not what was asked for: its SHA-256 is {}, the \
                 job's ChecksumSHA256 is {}",
                bucket.name,
                BASE64_STANDARD.encode(sum),
                BASE64_STANDARD.encode(wanted)
            )));
        }
        Ok(fs::rename(&temporary, &file).await?)
    };
    match tag {
        Some(tag) => {
            let sum = checksum.as_ref().map(|sum| BASE64_STANDARD.encode(sum)).unwrap_or_default();
            let key = Cache::key(&["s3", &bucket.endpoint, &bucket.name, key, &tag, &sum, &name]);
            fetch.cache.fill(&key, &fetch.place.directory(), quota, write).await?;
        }
        None => write().await?,
    }
    Ok(fetch.place.mounted_file(&name))
}

async fn bring_prefix(
    fetch: &Fetch<'_>,
    bucket: &Bucket,
    prefix: &str,
    filter: Option<Regex>,
) -> Result<MountedInput, AttemptError> {
    let objects = list(bucket, prefix, filter.as_ref()).await?;
    // A server may claim any sizes.
    let size_bytes = objects.iter().fold(0, |sum: u64, object| sum.saturating_add(object.size));
    fetch.quota.expect(size_bytes)?;
    let mut parts = vec!["s3", &bucket.endpoint, &bucket.name, prefix];
    let mut all_are_known = true;
    for object in &objects {
        let tag = object.version.as_deref().or(object.e_tag.as_deref());
        all_are_known &= tag.is_some();
        parts.extend([object.location.as_ref(), tag.unwrap_or_default()]);
    }
    let key = Cache::key(&parts);
    let (place, quota) = (&fetch.place, &*fetch.quota);
    let write = || write_all(bucket, prefix, &objects, place, quota);
    match all_are_known {
        true => fetch.cache.fill(&key, &place.directory(), quota, write).await?,
        false => write().await?,
    }
    Ok(fetch.place.mounted_directory())
}

/// Lists the objects whose keys start with the prefix and match the filter, in order.
async fn list(
    bucket: &Bucket,
    prefix: &str,
    filter: Option<&Regex>,
) -> Result<Vec<ObjectMeta>, AttemptError> {
    let mut objects = Vec::new();
    let mut options = PaginatedListOptions::default();
    for _ in 0..MAX_PAGES {
        let page = bucket.store.list_paginated(Some(prefix), options).await;
        let page = page.map_err(|error| bucket.attempt_error(prefix, &error))?;
        objects.extend(page.result.objects.into_iter().filter(|object| {
            let key = object.location.as_ref();
            // Directory markers end with a slash, which the store strips.
            let marks = object.size == 0 && key.len() < prefix.len();
            !marks && filter.is_none_or(|filter| filter.is_match(key))
        }));
        if objects.len() > MAX_OBJECTS {
            let message = format!(
                "more than {MAX_OBJECTS} objects in bucket '{}' begin with '{prefix}'; choose a \
                 longer prefix or a Filter",
                bucket.name
            );
            return Err(AttemptError::Permanent(Failure::task(message)));
        }
        let Some(page_token) = page.page_token else {
            return selected(bucket, prefix, filter, objects);
        };
        options = PaginatedListOptions {
            page_token: Some(page_token),
            ..PaginatedListOptions::default()
        };
    }
    Err(AttemptError::Permanent(Failure::task(format!(
        "bucket '{}' lists the keys that begin with '{prefix}' on more than {MAX_PAGES} pages; \
         choose a longer prefix",
        bucket.name
    ))))
}

/// The listed objects in order, if there are any.
fn selected(
    bucket: &Bucket,
    prefix: &str,
    filter: Option<&Regex>,
    mut objects: Vec<ObjectMeta>,
) -> Result<Vec<ObjectMeta>, AttemptError> {
    if objects.is_empty() {
        let matching = filter.map_or_else(String::new, |filter| format!(" and match '{filter}'"));
        return Err(AttemptError::definite(format!(
            "there are no objects in bucket '{}' at {} that begin with '{prefix}'{matching}",
            bucket.name, bucket.endpoint
        )));
    }
    drop_markers(&mut objects);
    objects.sort_by(|one, other| one.location.cmp(&other.location));
    Ok(objects)
}

/// Removes empty objects that stand for a directory of other objects: their keys end with a slash,
/// which the store strips.
fn drop_markers(objects: &mut Vec<ObjectMeta>) {
    let above = |key: &str| key.rfind('/').map(|slash| key[..slash].to_owned());
    let directories: HashSet<String> =
        objects.iter().filter_map(|object| above(object.location.as_ref())).collect();
    objects.retain(|object| object.size > 0 || !directories.contains(object.location.as_ref()));
}

/// Downloads each object to its key relative to the directory of the prefix.
async fn write_all(
    bucket: &Bucket,
    prefix: &str,
    objects: &[ObjectMeta],
    place: &InputDestination,
    quota: &Quota,
) -> Result<(), AttemptError> {
    let directory = place.directory();
    let files = Mutex::new(Beneath::create(&directory)?);
    stream::iter(objects)
        .map(Ok)
        .try_for_each_concurrent(OBJECTS_AT_ONCE, |object| {
            let files = &files;
            async move {
                let key = object.location.as_ref();
                let path = path_below(bucket, prefix, key)?;
                let options =
                    GetOptions { if_match: object.e_tag.clone(), ..GetOptions::default() };
                let found = bucket.store.get_opts(&object.location, options).await;
                let found = found.map_err(|error| bucket.attempt_error(key, &error))?;
                let made = files.lock().unwrap_or_else(PoisonError::into_inner).create_file(&path);
                let file = made.map_err(|error| of_file(bucket, key, &error))?;
                save(bucket, key, found, file, quota).await.map(drop)
            }
        })
        .await?;
    Ok(tree::make_readable(&directory)?)
}

/// The path of an object below the directory of the prefix. A bucket may answer any key.
fn path_below(bucket: &Bucket, prefix: &str, key: &str) -> Result<RelativePath, AttemptError> {
    // The store's keys have no slash at their beginning.
    let prefix = prefix.trim_start_matches('/');
    let directory = prefix.rfind('/').map_or("", |slash| &prefix[..=slash]);
    let refused = |reason: &str| bucket.unusable_key(key, reason);
    // A prefix that ends within a directory's name lists other directories too, never other keys.
    let below = key.strip_prefix(directory).filter(|_| key.starts_with(prefix));
    let below = below.ok_or_else(|| refused(&format!("it does not begin with '{prefix}'")))?;
    match RelativePath::new(FilePath::new(below)) {
        Ok(path) if !path.is_empty() => Ok(path),
        Ok(_) => Err(refused("it names a directory")),
        Err(error) => Err(refused(&error.to_string())),
    }
}

/// An object that cannot be a file. What its key excludes is no fault of the node's disk.
fn of_file(bucket: &Bucket, key: &str, error: &std::io::Error) -> AttemptError {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno.and_then(why_unusable) {
        Some(reason) => bucket.unusable_key(key, reason),
        None => AttemptError::of_disk(error),
    }
}

/// Writes the object to the file and returns its SHA-256.
async fn save(
    bucket: &Bucket,
    key: &str,
    found: GetResult,
    file: std::fs::File,
    quota: &Quota,
) -> Result<Vec<u8>, AttemptError> {
    let mut digest = Context::new(&SHA256);
    let mut output = File::from_std(file);
    let mut chunks = found.into_stream();
    while let Some(chunk) =
        chunks.try_next().await.map_err(|error| bucket.attempt_error(key, &error))?
    {
        quota.take(chunk.len() as u64)?;
        digest.update(&chunk);
        output.write_all(&chunk).await?;
    }
    output.flush().await?;
    // It is for the task's user, who is not the agent's.
    output.set_permissions(Permissions::from_mode(0o644)).await?;
    Ok(digest.finish().as_ref().to_vec())
}
