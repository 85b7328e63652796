//! Inputs from a bucket, against a real S3 server, and a simulated one that keeps versions.

use api_types::credential::{CredentialType, Login};
use api_types::source::S3SourceParams;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use peers::s3::{BUCKET, S3Server};
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::*;
use crate::testing::{OfS3, credential};

/// The sources of a node, with short retry delays.
fn sources(settings: &Settings, cache: &Path) -> Sources {
    let buckets =
        Buckets::new(settings, EgressClient::new(EgressPolicy::from_settings(settings)), QUICK);
    Sources { s3: S3::new(buckets), ..Sources::new(settings, cache.to_owned()) }
}

fn asked(server: &S3Server, change: impl FnOnce(&mut S3SourceParams)) -> InputSource {
    let mut params = S3SourceParams {
        bucket: BUCKET.to_owned(),
        endpoint: server.endpoint(),
        ..S3SourceParams::default()
    };
    change(&mut params);
    input(SourceType::S3, serde_json::to_value(params).unwrap(), "/in/it")
}

fn keyed(server: &S3Server, key: &str) -> InputSource {
    asked(server, |params| params.key = key.to_owned())
}

fn node(server: &S3Server) -> Node {
    Node::new(|cache| server.sources(cache))
}

impl Origin for S3Server {
    fn sources(&self, cache: &Path) -> Sources {
        sources(&self.good_settings(), cache)
    }

    fn file(&self, bytes: &[u8]) -> InputSource {
        self.put("a/file", bytes);
        keyed(self, "a/file")
    }

    fn missing(&self) -> (InputSource, &'static str) {
        let words = "there is no object 'a/absent' in bucket 'bucket' at http://127.0.0.1:";
        (keyed(self, "a/absent"), words)
    }
}

#[tokio::test]
async fn the_contract_holds() {
    holds(&S3Server::start().await).await;
}

#[tokio::test]
async fn a_prefix_fetches_every_object_below_it() {
    let server = S3Server::start().await;
    // More than one page of a listing.
    for number in 0..1100 {
        server.put(&format!("many/{number:04}"), b"x");
    }
    for key in ["data/part-1", "data/part-2", "data/sub/part-3", "data/other", "database"] {
        server.put(key, key.as_bytes());
    }
    let node = node(&server);
    for (key, filter, expected) in [
        ("data/", "", &["other", "part-1", "part-2", "sub/part-3"][..]),
        ("data/*", "", &["other", "part-1", "part-2", "sub/part-3"]),
        ("data/part-*", "", &["part-1", "part-2"]),
        ("data/", "part-[13]$", &["part-1", "sub/part-3"]),
        ("dat*", "", &["data/other", "data/part-1", "data/part-2", "data/sub/part-3", "database"]),
    ] {
        let asked = asked(&server, |params| {
            key.clone_into(&mut params.key);
            filter.clone_into(&mut params.filter);
        });
        // The second time from the cache.
        for number in [1, 2] {
            let mounted = node.fetch(number, &asked).await.unwrap();
            assert_eq!(mounted.target, "/in/it");
            let found = tree(&mounted.source);
            let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, expected, "{key} {filter}");
            assert!(
                found.iter().all(|(name, bytes)| {
                    String::from_utf8_lossy(bytes).ends_with(name.as_str())
                })
            );
        }
    }
    let mounted = node.fetch(3, &keyed(&server, "many/")).await.unwrap();
    assert_eq!(tree(&mounted.source).len(), 1100);
    let message = node.refusal(4, &keyed(&server, "nothing/*")).await;
    assert!(message.contains("there are no objects in bucket 'bucket' at "), "{message}");
}

#[tokio::test]
async fn a_changed_object_is_fetched_again() {
    let server = S3Server::start().await;
    let node = node(&server);
    server.put("k", b"old");
    let first = node.fetch(1, &keyed(&server, "k")).await.unwrap();
    assert_eq!(fs::read(first.source).unwrap(), b"old");
    server.put("k", b"newer");
    let second = node.fetch(2, &keyed(&server, "k")).await.unwrap();
    assert_eq!(fs::read(second.source).unwrap(), b"newer");
}

#[tokio::test]
async fn a_checksum_mismatch_reports_both_checksums() {
    let server = S3Server::start().await;
    server.put("k", b"content");
    let node = node(&server);
    let right = BASE64_STANDARD.encode(digest(&SHA256, b"content"));
    let wrong = BASE64_STANDARD.encode(digest(&SHA256, b"other"));
    let with = |checksum: &str| {
        asked(&server, |params| {
            params.key = "k".to_owned();
            checksum.clone_into(&mut params.checksum_sha256);
        })
    };
    node.fetch(1, &with(&right)).await.unwrap();
    let message = node.refusal(2, &with(&wrong)).await;
    let words = format!("its SHA-256 is {right}, the job's ChecksumSHA256 is {wrong}");
    assert!(message.ends_with(&words), "{message}");
    assert!(!node.dir(2).input(0).join("directory/k").exists());
}

#[tokio::test]
async fn a_refusal_of_the_service_is_reported() {
    let server = S3Server::start().await;
    server.put("k", b"content");
    let wrong = Node::new(|cache| sources(&server.settings("wrong"), cache));
    let message = wrong.refusal(1, &keyed(&server, "k")).await;
    assert!(message.contains("is not open to this node; check the AWS_… variables"), "{message}");
    let elsewhere = asked(&server, |params| {
        params.bucket = "absent".to_owned();
        params.key = "k".to_owned();
    });
    let message = node(&server).refusal(1, &elsewhere).await;
    assert!(message.contains("'absent'"), "{message}");
}

/// A node without credentials, for a task that names some.
fn node_for(server: &S3Server, hosts: &[&str], buckets: &[&str], secret: &str) -> Node {
    let settings = Settings { allow_private_addresses: true, ..Settings::default() };
    let mut node = Node::new(|cache| sources(&settings, cache));
    let login = Login {
        access_key_id: peers::s3::KEY_ID.to_owned(),
        secret_access_key: secret.to_owned(),
        ..Login::default()
    };
    let mut value = credential(CredentialType::S3, hosts, login);
    value.buckets = buckets.iter().map(|bucket| (*bucket).to_owned()).collect();
    node.granted = Granted::with(value);
    server.put("k", b"content");
    node
}

#[tokio::test]
async fn credentials_of_a_task_sign_its_requests_to_their_hosts_and_buckets() {
    let server = S3Server::start().await;
    let host = server.endpoint().replace("http://", "");
    let own = asked(&server, |params| {
        params.key = "k".to_owned();
        params.credentials = "own".to_owned();
    });
    let good = node_for(&server, &[&host], &[BUCKET], peers::s3::SECRET);
    assert!(!good.sources.offered().contains(&SourceType::S3));
    let mounted = good.fetch(1, &own).await.unwrap();
    assert_eq!(fs::read(mounted.source).unwrap(), b"content");
    let message = good.refusal(2, &keyed(&server, "k")).await;
    assert!(message.starts_with("not supported on this node"), "{message}");
    for (node, expected) in [
        (node_for(&server, &[&host], &[], "wrong"), "is not open to the credentials 'own'"),
        (node_for(&server, &["s3.example"], &[], peers::s3::SECRET), "their Hosts are s3.example"),
        (node_for(&server, &[&host], &["other"], peers::s3::SECRET), "their Buckets are other"),
    ] {
        let message = node.refusal(1, &own).await;
        assert!(message.contains(expected), "{expected}: {message}");
    }
    // The node's own credentials are not used as well.
    let mut lent = Node::new(|cache| sources(&server.good_settings(), cache));
    lent.granted = node_for(&server, &[&host], &[], "wrong").granted;
    let message = lent.refusal(1, &own).await;
    assert!(message.contains("is not open to the credentials 'own'"), "{message}");
}

#[tokio::test]
async fn broken_connections_are_retried() {
    let server = S3Server::start().await;
    server.put("k", b"content");
    let node = node(&server);
    server.break_connections(2);
    node.fetch(1, &keyed(&server, "k")).await.unwrap();
    server.break_connections(usize::MAX);
    let message = node.refusal(2, &keyed(&server, "k")).await;
    assert!(message.contains("'k' in bucket 'bucket' at http://127.0.0.1:"), "{message}");
}

#[tokio::test]
async fn the_egress_policy_applies_to_endpoints_of_jobs_but_not_of_the_operator() {
    let server = S3Server::start().await;
    server.put("k", b"content");
    let mut settings = server.good_settings();
    settings.allow_private_addresses = false;
    settings.s3.endpoints.clear();
    let strict = Node::new(|cache| sources(&settings, cache));
    let port = server.endpoint().rsplit(':').next().unwrap().to_owned();
    for endpoint in [server.endpoint(), format!("http://localhost:{port}")] {
        let asked = asked(&server, |params| {
            params.key = "k".to_owned();
            params.endpoint = endpoint;
        });
        let message = strict.refusal(1, &asked).await;
        assert!(message.contains("a loopback address, which this node's settings"), "{message}");
    }
    settings.aws.0.insert("AWS_ENDPOINT_URL".to_owned(), server.endpoint());
    let own = Node::new(|cache| sources(&settings, cache));
    let mut asked = keyed(&server, "k");
    own.fetch(1, &asked).await.unwrap();
    asked.source.params.remove("Endpoint");
    own.fetch(2, &asked).await.unwrap();
}

#[test]
fn contradictory_params_are_declined() {
    let settings = Settings::default();
    assert!(!Sources::new(&settings, "cache".into()).offered().contains(&SourceType::S3));
    let mut settings = settings;
    settings.aws.0.insert("AWS_SKIP_SIGNATURE".to_owned(), "true".to_owned());
    let sources = Sources::new(&settings, "cache".into());
    for (params, message) in [
        (json!({"Key": "k"}), "need a Bucket"),
        (json!({"Bucket": "b"}), "need a Key"),
        (json!({"Bucket": "b", "Key": "k", "Filter": "x"}), "end it with '/' or '*'"),
        (json!({"Bucket": "b", "Key": "k/", "Filter": "("}), "not a regular expression"),
        (json!({"Bucket": "b", "Key": "k/", "VersionID": "1"}), "names a prefix"),
        (json!({"Bucket": "b", "Key": "k", "ChecksumSHA256": "abc"}), "not the base64"),
        (json!({"Bucket": "b", "Key": "k", "Endpoint": "ftp://x"}), "is no web URL"),
        (json!({"Bucket": "../b", "Key": "k"}), "not the name of a bucket"),
        (json!({"Bucket": "b?x", "Key": "k"}), "not the name of a bucket"),
        (json!({"Bucket": "b", "Key": "k", "Region": "x@127.0.0.1:9/?"}), "the name of a region"),
    ] {
        let refused = sources.admit(&input(SourceType::S3, params, "/x")).unwrap_err();
        assert!(refused.contains(message), "{refused}");
    }
}

#[tokio::test]
async fn a_version_is_requested_by_its_id() {
    let server = peers::s3::versions().await;
    let settings = S3Server::start().await.good_settings();
    let node = Node::new(|cache| sources(&settings, cache));
    for (version, expected) in [("", "version 2"), ("1", "version 1"), ("2", "")] {
        let params = json!({
            "Bucket": BUCKET, "Key": "k", "Endpoint": server.url, "VersionID": version,
        });
        let outcome = node.fetch(1, &input(SourceType::S3, params, "/x")).await;
        match outcome {
            Ok(mounted) => assert_eq!(fs::read_to_string(mounted.source).unwrap(), expected),
            Err(failure) => {
                assert_eq!(expected, "", "{}", failure.message);
                assert!(failure.message.ends_with("check Key and VersionID"), "{failure:?}");
            }
        }
    }
}

#[tokio::test]
async fn no_key_leads_out_of_the_input() {
    let settings = S3Server::start().await.good_settings();
    let node = Node::new(|cache| sources(&settings, cache));
    let outside = tempfile::tempdir().unwrap();
    let absolute = format!("other{}/file", outside.path().display());
    for (key, message) in [
        // Cut by the length of the prefix it was absolute, and that is where it was written.
        (absolute.as_str(), "does not begin with 'data/'"),
        ("other", "does not begin with 'data/'"),
        ("data/../../../file", "it has a part that no path may have"),
    ] {
        let server = peers::s3::listing(&["data/good", key]).await;
        let params = json!({"Bucket": BUCKET, "Key": "data/", "Endpoint": server.url});
        let refused = node.refusal(1, &input(SourceType::S3, params, "/in")).await;
        assert!(refused.contains(message), "{key}: {refused}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn odd_keys_keep_their_names() {
    let names = ["...", ".hidden", "[x] (1).csv", "a b", "a+b%20c", "q'&<", "ä/ü €.txt", "日本語"];
    let server = S3Server::start().await;
    for name in names {
        server.put(&format!("odd keys/{name}"), name.as_bytes());
    }
    let node = node(&server);
    let mounted = node.fetch(1, &keyed(&server, "odd keys/")).await.unwrap();
    let expected = names.map(|name| (name.to_owned(), name.as_bytes().to_vec()));
    assert_eq!(tree(&mounted.source), expected);
    let mounted = node.fetch(2, &keyed(&server, "odd keys/a b")).await.unwrap();
    assert_eq!(fs::read(mounted.source).unwrap(), b"a b");
}

/// A bucket has no directories, so it may have both.
#[tokio::test]
async fn a_key_that_would_be_a_file_and_a_directory_is_named() {
    let settings = S3Server::start().await.good_settings();
    let node = Node::new(|cache| sources(&settings, cache));
    for keys in [["data/it", "data/it/below"], ["data/it/", "data/it/below"]] {
        let server = peers::s3::listing(&keys).await;
        let params = json!({"Bucket": BUCKET, "Key": "data/", "Endpoint": server.url});
        let refused = node.refusal(1, &input(SourceType::S3, params, "/in")).await;
        let reasons =
            ["there is a file where it needs a directory", "there is a directory in its place"];
        assert!(refused.contains("'data/it"), "{refused}");
        assert!(reasons.iter().any(|reason| refused.contains(reason)), "{refused}");
    }
}

#[tokio::test]
async fn a_listing_without_end_is_cut_off() {
    let settings = S3Server::start().await.good_settings();
    let node = Node::new(|cache| sources(&settings, cache));
    let server = peers::s3::endless_listing().await;
    let params = json!({"Bucket": BUCKET, "Key": "data/", "Endpoint": server.url});
    let refused = node.refusal(1, &input(SourceType::S3, params, "/in")).await;
    assert!(refused.contains("larger than 16777216 bytes"), "{refused}");
}

#[tokio::test]
async fn credentials_go_only_where_the_operator_lists() {
    let server = S3Server::start().await;
    server.put("k", b"content");
    let mut settings = server.good_settings();
    settings.s3.endpoints.clear();
    let unlisted = Node::new(|cache| sources(&settings, cache));
    // The server asks for a signature, and there is none.
    let message = unlisted.refusal(1, &keyed(&server, "k")).await;
    assert!(message.contains("its operator can list it in s3.endpoints"), "{message}");
    let mut settings = server.good_settings();
    settings.s3.buckets = vec!["team-*".to_owned()];
    let other = Node::new(|cache| sources(&settings, cache));
    let message = other.refusal(1, &keyed(&server, "k")).await;
    assert!(message.contains("'bucket' is not one that this node's settings allow"), "{message}");
    settings.s3.buckets = vec!["team-*".to_owned(), "buck*".to_owned()];
    let listed = Node::new(|cache| sources(&settings, cache));
    listed.fetch(1, &keyed(&server, "k")).await.unwrap();
}
