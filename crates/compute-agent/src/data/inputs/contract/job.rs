//! Inputs that are results of other jobs, well-meant and hostile.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::Mutex;

use api_types::credential::{CredentialType, Login};
use api_types::job_input::{InputResult, InputResults};
use api_types::protocol::FailureCause;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use peers::kubo::KuboServer;
use peers::s3::{BUCKET, S3Server};
use ring::digest::{SHA256, digest};
use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::data::inputs::job::relay::TestJobs;
use crate::testing::{OfKubo, OfS3, credential};

/// A gzip'd tar of (kind, path, content or target).
fn archive(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, path, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o600);
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        let is_link = matches!(kind, EntryType::Link | EntryType::Symlink);
        if is_link {
            header.set_link_name_literal(content).unwrap();
        }
        let content = if is_link { &[][..] } else { content };
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// What a run publishes: its output, and a result path with this file.
fn published(content: &[u8]) -> Vec<u8> {
    archive(&[
        (EntryType::Regular, "stdout", b"hello\n"),
        (EntryType::Directory, "outputs/", b""),
        (EntryType::Directory, "outputs/sub/", b""),
        (EntryType::Regular, "outputs/sub/table", content),
        (EntryType::Link, "outputs/sub/same", b"outputs/sub/table"),
        (EntryType::Symlink, "outputs/latest", b"sub/table"),
    ])
}

/// Jobs with these archives on nodes, by their indexes.
fn jobs(archives: &[(u32, Vec<u8>)], required: bool) -> TestJobs {
    let result = |(index, _): &(u32, _)| InputResult {
        index: *index,
        execution_id: execution_id(u128::from(*index) + 100),
        source: None,
    };
    let results = InputResults {
        job: "build".to_owned(),
        required,
        results: archives.iter().map(result).collect(),
        credentials: Vec::new(),
    };
    let archives = archives.iter();
    let archives =
        archives.map(|(index, bytes)| (execution_id(u128::from(*index) + 100), bytes.clone()));
    TestJobs { results, archives: archives.collect(), broken: Mutex::default() }
}

fn node_with(jobs: TestJobs) -> Node {
    let node = Node::new(|cache| {
        let settings = Settings::default();
        let client = EgressClient::new(EgressPolicy::from_settings(&settings));
        let s3 = S3::new(Buckets::new(&settings, client, QUICK));
        Sources {
            job: JobResults::new(s3, None, QUICK),
            ..Sources::new(&settings, cache.to_owned())
        }
    });
    Node { other_jobs: OtherJobs::Test(Arc::new(jobs)), ..node }
}

fn asked(params: Value) -> InputSource {
    input(SourceType::Job, params, "/in/it")
}

fn texts(found: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    found.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

#[tokio::test]
async fn the_results_of_all_indexes_are_in_directories_and_those_of_one_at_the_target() {
    let archives = [(0, published(b"zero")), (3, published(b"three"))];
    let node = node_with(jobs(&archives, true));
    for number in [1, 2] {
        let all = node.fetch(number, &asked(json!({ "Path": "outputs/sub" }))).await.unwrap();
        let expected =
            [("0/same", "zero"), ("0/table", "zero"), ("3/same", "three"), ("3/table", "three")];
        assert_eq!(tree(&all.source), texts(&expected), "the second time from the cache");
        assert_eq!(all.target, "/in/it");
    }
    let files = node.fetch(3, &asked(json!({ "Path": "outputs/sub/table" }))).await.unwrap();
    assert_eq!(tree(&files.source), texts(&[("0/table", "zero"), ("3/table", "three")]));

    let node = node_with(jobs(&archives[1..], true));
    let everything = node.fetch(1, &asked(json!({ "Index": 3 }))).await.unwrap();
    let expected = [
        ("outputs/latest", "three"),
        ("outputs/sub/same", "three"),
        ("outputs/sub/table", "three"),
        ("stdout", "hello\n"),
    ];
    assert_eq!(tree(&everything.source), texts(&expected));
    let file = asked(json!({ "Index": "Same", "Path": "outputs/sub/table" }));
    for number in [2, 3] {
        let mounted = node.fetch(number, &file).await.unwrap();
        assert_eq!(fs::read(&mounted.source).unwrap(), b"three");
        assert_eq!(mounted.target, "/in/it");
    }
    let in_directory = InputSource { target: "/in/".to_owned(), ..file };
    assert_eq!(node.fetch(4, &in_directory).await.unwrap().target, "/in/table");
}

#[tokio::test]
async fn what_is_missing_fails_the_task_or_is_left_out() {
    let archives = [(0, published(b"zero")), (1, archive(&[(EntryType::Regular, "stdout", b"")]))];
    let outputs = asked(json!({ "Path": "outputs/sub" }));
    let failure = node_with(jobs(&archives, true)).fetch(1, &outputs).await.unwrap_err();
    assert_eq!(failure.cause, FailureCause::Task);
    let expected = "input 0 (job, for '/in/it'): there is no 'outputs/sub' in the results of job \
                    'build', index 1";
    assert_eq!(failure.message, expected);

    let node = node_with(jobs(&archives, false));
    let all = node.fetch(1, &outputs).await.unwrap();
    assert_eq!(tree(&all.source), texts(&[("0/same", "zero"), ("0/table", "zero")]));
    assert!(!all.source.join("1").exists());
    for jobs in [jobs(&archives[1..], false), jobs(&[], false)] {
        let node = node_with(jobs);
        let one = asked(json!({ "Path": "outputs/sub/table", "Index": 1 }));
        let nothing = node.fetch(1, &one).await.unwrap();
        assert_eq!((tree(&nothing.source), nothing.target.as_str()), (Vec::new(), "/in/it"));
        assert!(nothing.source.is_dir());
        let beside = InputSource { target: "/in/".to_owned(), ..one };
        assert_eq!(node.fetch(2, &beside).await.unwrap().target, "/in/table");
    }
}

#[tokio::test]
async fn a_broken_transfer_is_repeated_and_the_message_says_whose_it_was() {
    let whole = published(&noise(50_000));
    let node = node_with(TestJobs { broken: Mutex::new(2), ..jobs(&[(2, whole.clone())], true) });
    let mounted = node.fetch(1, &asked(json!({ "Index": 2 }))).await.unwrap();
    assert_eq!(fs::read(mounted.source.join("outputs/sub/table")).unwrap(), noise(50_000));
    let node = node_with(TestJobs { broken: Mutex::new(9), ..jobs(&[(2, whole)], true) });
    let failure = node.fetch(1, &asked(json!({ "Index": 2 }))).await.unwrap_err();
    assert_eq!(failure.cause, FailureCause::Fetch);
    let parts = ["the results of job 'build', index 2: the transfer broke off", "(tried 3 times)"];
    assert!(parts.iter().all(|part| failure.message.contains(part)), "{}", failure.message);
}

#[tokio::test]
async fn a_hostile_archive_leaves_its_directory_by_no_name_and_no_link() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "hidden").unwrap();
    let target = secret.to_str().unwrap().as_bytes();
    let folder = outside.path().to_str().unwrap().as_bytes();
    let link = (EntryType::Symlink, "out/link", folder);
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("out", archive(&[(EntryType::Regular, "out/../../../x", b"bad")]), "leads out"),
        ("out", archive(&[link, (EntryType::Regular, "out/link/x", b"bad")]), "leads out"),
        (
            "out",
            archive(&[(EntryType::Link, "out/x", target)]),
            "is another name of a file outside",
        ),
        ("out/x", archive(&[(EntryType::Symlink, "out/x", target)]), "it is a link"),
        ("", archive(&[link, (EntryType::Link, "x", b"out/link/secret")]), "cannot unpack"),
        ("", b"no archive at all".to_vec(), "the transfer broke off"),
    ];
    for (path, bytes, part) in cases {
        let node = node_with(jobs(&[(0, bytes)], true));
        let message = node.refusal(1, &asked(json!({ "Path": path, "Index": 0 }))).await;
        assert!(message.contains(part), "{path}: {message}");
    }
    assert_eq!(tree(outside.path()), texts(&[("secret", "hidden")]));
    // Something on the node that is in the way is not followed either.
    let node = node_with(jobs(&[(0, published(b"x"))], true));
    let root = node.dir(1).input(0);
    fs::create_dir_all(&root).unwrap();
    symlink(outside.path(), root.join("content")).unwrap();
    node.fetch(1, &asked(json!({ "Index": 0 }))).await.unwrap();
    assert_eq!(tree(outside.path()), texts(&[("secret", "hidden")]));
}

#[tokio::test]
async fn only_the_part_that_is_asked_for_counts_against_the_limit() {
    let bytes = archive(&[
        (EntryType::Regular, "stdout", &noise(300_000)),
        (EntryType::Regular, "outputs/small", b"small"),
    ]);
    let node = node_with(jobs(&[(0, bytes)], true));
    let part = asked(json!({ "Path": "outputs", "Index": 0 }));
    node.fetch_within(1, &part, 100_000).await.unwrap();
    let whole = node.fetch_within(2, &asked(json!({ "Index": 0 })), 100_000).await.unwrap_err();
    assert!(whole.message.contains("larger than the 100 kB"), "{}", whole.message);
}

#[tokio::test]
async fn a_file_with_holes_comes_out_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let sparse = directory.path().join("sparse");
    let file = fs::File::create(&sparse).unwrap();
    file.set_len(200 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"end", (200 << 20) - 3).unwrap();
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    tar.append_file("outputs/sparse", &mut fs::File::open(&sparse).unwrap()).unwrap();
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    let node = node_with(jobs(&[(0, bytes)], true));
    let path = json!({ "Path": "outputs/sparse", "Index": 0 });
    let mounted = node.fetch_within(1, &asked(path), 10 << 20).await.unwrap();
    let metadata = fs::metadata(&mounted.source).unwrap();
    assert_eq!(metadata.len(), 200 << 20);
    assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) < 20_000, "its holes stay holes");
}

/// A job whose results are at this source.
fn elsewhere(source: SourceSpec, credentials: Vec<CredentialValue>) -> TestJobs {
    let result = InputResult { index: 0, execution_id: execution_id(100), source: Some(source) };
    let results = InputResults {
        job: "build".to_owned(),
        required: true,
        results: vec![result],
        credentials,
    };
    TestJobs { results, archives: BTreeMap::new(), broken: Mutex::default() }
}

fn in_bucket(server: &S3Server, bytes: &[u8], credentials: &str) -> SourceSpec {
    let params = json!({
        "Bucket": BUCKET, "Key": "k/a.tar.gz", "Endpoint": server.endpoint(),
        "ChecksumSHA256": BASE64_STANDARD.encode(digest(&SHA256, bytes)),
        "Credentials": credentials,
    });
    SourceSpec { source_type: SourceType::S3, params: serde_json::from_value(params).unwrap() }
}

#[tokio::test]
async fn results_in_a_bucket_are_fetched_with_the_credentials_of_their_publisher() {
    let server = S3Server::start().await;
    let bytes = published(b"from a bucket");
    server.put("k/a.tar.gz", &bytes);
    let fetched = async |settings: &Settings, jobs: TestJobs| {
        let client = EgressClient::new(EgressPolicy::from_settings(settings));
        let s3 = S3::new(Buckets::new(settings, client, QUICK));
        let job = JobResults::new(s3, None, QUICK);
        let node = Node::new(|cache| Sources { job, ..Sources::new(settings, cache.to_owned()) });
        let node = Node { other_jobs: OtherJobs::Test(Arc::new(jobs)), ..node };
        let file = asked(json!({ "Path": "outputs/sub/table", "Index": 0 }));
        node.fetch(1, &file).await.map(|mounted| fs::read(mounted.source).unwrap())
    };
    let alone = Settings { allow_private_addresses: true, ..Settings::default() };
    let login = |secret: &str| Login {
        access_key_id: peers::s3::KEY_ID.to_owned(),
        secret_access_key: secret.to_owned(),
        ..Login::default()
    };
    let host = server.endpoint().replace("http://", "");
    let named = |secret: &str| {
        let value = credential(CredentialType::S3, &[&host], login(secret));
        vec![CredentialValue { buckets: vec![BUCKET.to_owned()], ..value }]
    };
    let name = named("")[0].name.clone();
    let good = elsewhere(in_bucket(&server, &bytes, &name), named(peers::s3::SECRET));
    assert_eq!(fetched(&alone, good).await.unwrap(), b"from a bucket");
    // As the node, where the publisher named none.
    let of_node = || elsewhere(in_bucket(&server, &bytes, ""), Vec::new());
    assert_eq!(fetched(&server.good_settings(), of_node()).await.unwrap(), b"from a bucket");
    let failure = fetched(&alone, of_node()).await.unwrap_err();
    assert_eq!(failure.cause, FailureCause::Node);
    // Other bytes than were published.
    server.put("k/a.tar.gz", &published(b"replaced"));
    let failure = fetched(&server.good_settings(), of_node()).await.unwrap_err();
    assert!(failure.message.contains("SHA-256"), "{}", failure.message);
    // The egress policy holds.
    let strict = Settings { allow_private_addresses: false, ..alone };
    let refused = elsewhere(in_bucket(&server, &bytes, &name), named(peers::s3::SECRET));
    let failure = fetched(&strict, refused).await.unwrap_err();
    assert!(failure.message.contains("127.0.0.1"), "{}", failure.message);
}

#[tokio::test]
async fn results_in_ipfs_are_fetched_through_the_node() {
    let server = KuboServer::start().await;
    let cid = server.put(&[("", &published(b"from ipfs"))]);
    let settings = server.settings();
    let client = EgressClient::new(EgressPolicy::from_settings(&settings));
    let s3 = S3::new(Buckets::new(&settings, client, QUICK));
    let job = JobResults::new(s3, Kubo::new(&settings.ipfs.api), QUICK);
    let node = Node::new(|cache| Sources { job, ..Sources::new(&settings, cache.to_owned()) });
    let params = serde_json::from_value(json!({ "CID": cid })).unwrap();
    let source = SourceSpec { source_type: SourceType::Ipfs, params };
    let jobs = elsewhere(source, Vec::new());
    let node = Node { other_jobs: OtherJobs::Test(Arc::new(jobs)), ..node };
    let mounted =
        node.fetch(1, &asked(json!({ "Path": "outputs/sub", "Index": 0 }))).await.unwrap();
    assert_eq!(tree(&mounted.source), texts(&[("same", "from ipfs"), ("table", "from ipfs")]));
}
