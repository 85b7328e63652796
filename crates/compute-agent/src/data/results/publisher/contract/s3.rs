//! Results in a bucket, against a real S3 server.

use std::sync::atomic::Ordering;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use peers::s3::{BUCKET, S3Server};
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::*;
use crate::testing::OfS3;

fn publishers(settings: &Settings, data_dir: &DataDir) -> Publishers {
    let buckets =
        Buckets::new(settings, EgressClient::new(EgressPolicy::from_settings(settings)), QUICK);
    let publishers = Publishers::new(settings, data_dir.published(), settings.listen);
    Publishers { s3: S3::new(buckets), retry: QUICK, ..publishers }
}

impl Shelf for S3Server {
    const KIND: PublisherType = PublisherType::S3;

    fn publishers(&self, data_dir: &DataDir) -> Publishers {
        publishers(&self.good_settings(), data_dir)
    }

    fn params(&self) -> Value {
        json!({
            "Bucket": BUCKET, "Key": "results/{executionID}.tar.gz",
            "Region": "eu-north-1", "Endpoint": self.endpoint(),
        })
    }

    async fn bytes(&self, _: &DataDir, result: &PublishedResult) -> Vec<u8> {
        let params: api_types::execution::S3ResultParams =
            serde_json::from_value(result.params.clone().into()).unwrap();
        assert_eq!((params.bucket.as_str(), params.region.as_str()), (BUCKET, "eu-north-1"));
        assert_eq!(params.key, format!("results/{}.tar.gz", execution_id(7)));
        let bytes = fs::read(self.object(&params.key)).unwrap();
        assert_eq!(params.checksum_sha256, BASE64_STANDARD.encode(digest(&SHA256, &bytes)));
        bytes
    }
}

#[tokio::test]
async fn the_contract_holds() {
    holds(&S3Server::start().await).await;
}

#[tokio::test]
async fn a_large_archive_goes_in_parts() {
    let server = S3Server::start().await;
    let collected = Collected::new(&server, 20_000_000);
    let publishers = server.publishers(&collected.data_dir);
    let result = collected.publish(&publishers).await.unwrap();
    assert_eq!(server.multiparts.load(Ordering::SeqCst), 1);
    let bytes = server.bytes(&collected.data_dir, &result).await;
    assert!(bytes.len() > 16 << 20, "{} bytes were too few for parts", bytes.len());
    assert!(entries(&bytes)[5].3 == peers::noise(20_000_000), "the bytes are others");
}

#[tokio::test]
async fn broken_connections_are_retried_and_an_unreachable_service_is_reported() {
    let server = S3Server::start().await;
    let collected = Collected::new(&server, 1000);
    let publishers = server.publishers(&collected.data_dir);
    server.break_connections(2);
    collected.publish(&publishers).await.unwrap();
    server.break_connections(usize::MAX);
    let failure = collected.publish(&publishers).await.unwrap_err();
    let message =
        format!("publisher 's3': 'results/{}.tar.gz' in bucket 'bucket'", execution_id(7));
    assert!(failure.message.starts_with(&message), "{}", failure.message);
    assert_eq!(failure.cause, api_types::protocol::FailureCause::Fetch);
    // The packed archive is removed.
    assert!(!collected.dir.archive().exists());
}

#[tokio::test]
async fn a_refusal_of_the_service_is_reported() {
    let server = S3Server::start().await;
    let collected = Collected::new(&server, 1000);
    let unauthorised = publishers(&server.settings("wrong"), &collected.data_dir);
    let failure = collected.publish(&unauthorised).await.unwrap_err();
    assert!(failure.message.contains("check the AWS_… variables"), "{}", failure.message);
}

#[tokio::test]
async fn invalid_params_are_declined() {
    let server = S3Server::start().await;
    let mut collected = Collected::new(&server, 1);
    let with_credentials = server.publishers(&collected.data_dir);
    let without = publishers(&Settings::default(), &collected.data_dir);
    assert!(!without.offered().contains(&PublisherType::S3));
    let message = without.admit(&collected.work).unwrap_err();
    assert!(message.starts_with("publisher 's3' is not supported on this node"), "{message}");
    for (params, message) in [
        (json!({"Bucket": "b", "Key": "folder/"}), "does not name an object"),
        (json!({"Key": "k"}), "need a Bucket"),
    ] {
        collected.work.task.publisher.params = serde_json::from_value(params).unwrap();
        let refused = with_credentials.admit(&collected.work).unwrap_err();
        assert!(refused.contains(message), "{refused}");
    }
}
