//! Results in a bucket.

use agent_core::execution::Failure;
use api_types::engine::{PublisherType, S3PublisherParams};
use api_types::execution::{PublishedResult, S3ResultParams};
use api_types::protocol::Work;
use futures_util::future::{BoxFuture, FutureExt};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload, PutResult, WriteMultipart};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::archive::Archive;
use super::publication::{Publication, Publisher, published};
use crate::data::retry::AttemptError;
use crate::data::s3::{Bucket, BucketRef, Buckets};
use crate::host::clock;

/// The largest archive sent in one request, and the part size of a larger one. S3 requires at
/// least 5 MiB per part.
const PART_BYTES: u64 = 8 << 20;

/// S3 accepts 10,000 parts per object; archives that would need more get larger parts.
const MAX_PARTS: u64 = 9_000;

/// The limit of S3.
const MAX_KEY_BYTES: usize = 1024;

/// Parts in memory and in flight at the same time.
const PARTS_AT_ONCE: usize = 2;

pub(crate) struct S3 {
    buckets: Buckets,
}

// === impl S3 ===

impl S3 {
    pub(crate) fn new(buckets: Buckets) -> Self {
        Self { buckets }
    }

    pub(crate) fn has_credentials(&self) -> bool {
        self.buckets.has_credentials()
    }

    async fn put(
        &self,
        run: &Publication<'_>,
        archive: &Archive,
    ) -> Result<PublishedResult, AttemptError> {
        let params =
            params(run.work).map_err(|reason| AttemptError::Permanent(Failure::task(reason)))?;
        let credential = run.credential().await?;
        let bucket = self.buckets.open(bucket_ref(&params), credential.as_ref())?;
        let key = filled(&params.key, run);
        let put = upload(&bucket, &key, archive).await?;
        published(
            PublisherType::S3,
            &S3ResultParams {
                bucket: bucket.name,
                key,
                region: bucket.region,
                checksum_sha256: archive.checksum_sha256.clone(),
                version_id: put.version.unwrap_or_default(),
            },
        )
    }
}

impl Publisher for S3 {
    fn admit(&self, work: &Work) -> Result<(), String> {
        let params = params(work)?;
        if params.key.is_empty() || params.key.ends_with('/') {
            return Err(format!("its Key '{}' does not name an object", params.key));
        }
        if params.key.len() > MAX_KEY_BYTES {
            return Err(format!("its Key has more than the {MAX_KEY_BYTES} bytes of an object's"));
        }
        self.buckets.admit(bucket_ref(&params))
    }

    fn publish<'a>(
        &'a self,
        run: &'a Publication<'a>,
        archive: &'a Archive,
    ) -> BoxFuture<'a, Result<PublishedResult, AttemptError>> {
        self.put(run, archive).boxed()
    }
}

fn bucket_ref(params: &S3PublisherParams) -> BucketRef<'_> {
    BucketRef::new(&params.bucket, &params.region, &params.endpoint, &params.credentials)
}

fn params(work: &Work) -> Result<S3PublisherParams, String> {
    serde_json::from_value(work.task.publisher.params.clone().into())
        .map_err(|error| format!("its Params are invalid: {error}"))
}

/// The key with its placeholders replaced; date and time are those of the publication, in UTC.
fn filled(key: &str, run: &Publication<'_>) -> String {
    let now = clock::now().rfc3339();
    let digits =
        |range: std::ops::Range<usize>| now.get(range).unwrap_or_default().replace(['-', ':'], "");
    key.replace("{jobID}", &run.work.job_id.to_string())
        .replace("{executionID}", &run.id.to_string())
        .replace("{index}", &run.work.index.to_string())
        .replace("{nodeID}", &run.node_id.to_string())
        .replace("{date}", &digits(0..10))
        .replace("{time}", &digits(11..19))
}

async fn upload(bucket: &Bucket, key: &str, archive: &Archive) -> Result<PutResult, AttemptError> {
    let path = bucket.path(key)?;
    let failed = |error: object_store::Error| bucket.attempt_error(key, &error);
    let mut file = File::open(&archive.path).await?;
    if archive.size_bytes <= PART_BYTES {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).await?;
        return bucket.store.put(&path, PutPayload::from(bytes)).await.map_err(failed);
    }
    upload_in_parts(bucket, &path, archive, &mut file, &failed).await
}

async fn upload_in_parts(
    bucket: &Bucket,
    path: &Path,
    archive: &Archive,
    file: &mut File,
    failed: &impl Fn(object_store::Error) -> AttemptError,
) -> Result<PutResult, AttemptError> {
    let part_bytes = PART_BYTES.max(archive.size_bytes.div_ceil(MAX_PARTS));
    let upload = bucket.store.put_multipart(path).await.map_err(failed)?;
    let part_bytes = usize::try_from(part_bytes)
        .map_err(|_| AttemptError::permanent("the archive is too large for this machine"))?;
    let mut parts = WriteMultipart::new_with_chunk_size(upload, part_bytes);
    let mut chunk = vec![0; 1 << 16];
    loop {
        let count = match file.read(&mut chunk).await {
            Ok(0) => return parts.finish().await.map_err(failed),
            Ok(count) => count,
            Err(error) => {
                // The service would keep, and charge for, an unfinished upload.
                let _ = parts.abort().await;
                return Err(error.into());
            }
        };
        if let Err(error) = parts.wait_for_capacity(PARTS_AT_ONCE).await {
            let _ = parts.abort().await;
            return Err(failed(error));
        }
        parts.write(&chunk[..count]);
    }
}

#[cfg(test)]
mod tests {
    use api_types::NodeId;
    use uuid::Uuid;

    use super::*;
    use crate::data::credentials::{Granted, Grantor};
    use crate::host::data_dir::DataDir;
    use crate::testing::{execution_id, plain_work};

    #[test]
    fn placeholders_are_filled_in() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().for_execution(execution_id(2));
        let work = plain_work();
        let run = Publication {
            id: execution_id(2),
            node_id: NodeId::from_uuid(Uuid::from_u128(3)),
            work: &work,
            exit_code: 0,
            dir: &dir,
            grantor: &Grantor::Test(Ok(Granted::default())),
        };
        let ids = filled("a/{jobID}/{executionID}/{nodeID}/{other}", &run);
        let expected = format!("a/{}/{}/{}/{{other}}", work.job_id, run.id, run.node_id);
        assert_eq!(ids, expected);
        let moment = filled("{date}-{time}", &run);
        assert_eq!(moment.len(), "20261121-080000".len(), "{moment}");
        assert!(moment.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'), "{moment}");
    }
}
