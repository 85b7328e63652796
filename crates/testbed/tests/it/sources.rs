//! Every kind of input source: tasks read byte-identical data.

use api_client::JobLogsQuery;
use api_types::job::JobStateType;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::TryStreamExt;
use peers::forge::{Forge, Service, needs};
use peers::kubo::KuboServer;
use peers::noise;
use peers::pages::{Page, Pages};
use peers::s3::{self, BUCKET, S3Server};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch};

const SIZE_BYTES: usize = 300_000;

pub(crate) fn open_agent() -> AgentSpec {
    AgentSpec::new().setting("COMPUTE_AGENT_ALLOW_PRIVATE_ADDRESSES", "true")
}

/// An agent whose operator lets jobs use its credentials at this endpoint.
pub(crate) fn s3_agent(endpoint: &str) -> AgentSpec {
    open_agent()
        .setting("COMPUTE_AGENT_S3__ENDPOINTS", endpoint)
        .setting("AWS_ACCESS_KEY_ID", s3::KEY_ID)
        .setting("AWS_SECRET_ACCESS_KEY", s3::SECRET)
}

/// A job that prints files of its only input, which is at `/in`.
pub(crate) fn reading(cluster: &Cluster, kind: &str, params: &Value, files: &[&str]) -> Value {
    let parameters: Vec<_> = ["cat"].iter().chain(files).copied().collect();
    let mut job = batch(&cluster.image, &parameters);
    job["Tasks"][0]["InputSources"] =
        json!([{ "Source": { "Type": kind, "Params": params }, "Target": "/in" }]);
    job
}

/// Runs a job and returns its output.
pub(crate) async fn printed(cluster: &Cluster, job: &Value) -> Vec<u8> {
    let id = cluster.submit(job).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let pieces = cluster.client().job_logs_text(id, &JobLogsQuery::default()).await;
    let pieces = pieces.expect("the logs open").try_collect::<Vec<_>>().await;
    pieces.expect("the stream is complete").concat()
}

async fn seen(cluster: &Cluster, kind: &str, params: &Value, files: &[&str]) -> Vec<u8> {
    printed(cluster, &reading(cluster, kind, params, files)).await
}

async fn one(agent: AgentSpec) -> Option<Cluster> {
    ClusterSpec::new().agent(agent).start().await
}

#[tokio::test]
async fn urldownload_follows_redirects_and_resumes_broken_downloads() {
    let pages = Pages::start().await;
    let bytes = noise(SIZE_BYTES);
    let page =
        Page { bytes: bytes.clone().into(), etag: Some("\"1\""), cuts: 2, ..Page::default() };
    let location = Some(pages.put("/file", page));
    let url = pages.put("/moved", Page { location, ..Page::default() });
    let Some(cluster) = one(open_agent()).await else { return };
    assert!(seen(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]).await == bytes);
    assert_eq!(pages.page("/file").ranges.len(), 2, "the download was resumed");
}

#[tokio::test]
async fn localdirectory_is_read_only_unless_the_task_requests_write_access() {
    let root = tempfile::tempdir().unwrap();
    let bytes = noise(SIZE_BYTES);
    std::fs::write(root.path().join("data"), &bytes).unwrap();
    let path = root.path().display().to_string();
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_ALLOW_LOCAL_PATHS", &path);
    let Some(cluster) = one(agent).await else { return };
    let params = json!({ "SourcePath": path });
    assert!(seen(&cluster, "localdirectory", &params, &["/in/data"]).await == bytes);

    let writing = |read_write: bool| {
        let mut job = batch(&cluster.image, &["write", "/in/new", "mine"]);
        let params = json!({ "SourcePath": path, "ReadWrite": read_write });
        job["Tasks"][0]["InputSources"] = json!([
            { "Source": { "Type": "localdirectory", "Params": params }, "Target": "/in" }
        ]);
        job
    };
    let refused = cluster.submit(&writing(false)).await;
    cluster.wait_for_job(refused, JobStateType::Failed).await;
    assert!(!root.path().join("new").exists());
    cluster.run_one(&writing(true)).await;
    assert_eq!(std::fs::read_to_string(root.path().join("new")).unwrap(), "mine\n");
}

#[tokio::test]
async fn s3_fetches_an_object_and_verifies_its_checksum() {
    let server = S3Server::start().await;
    let bytes = noise(SIZE_BYTES);
    server.put("data/object", &bytes);
    let Some(cluster) = one(s3_agent(&server.endpoint())).await else { return };
    let checksum = BASE64_STANDARD.encode(digest(&SHA256, &bytes));
    let params = json!({
        "Bucket": BUCKET, "Key": "data/object", "Endpoint": server.endpoint(),
        "ChecksumSHA256": checksum,
    });
    assert!(seen(&cluster, "s3", &params, &["/in"]).await == bytes);
}

#[tokio::test]
async fn s3_fetches_the_objects_that_match_a_prefix_and_a_filter() {
    let server = S3Server::start().await;
    for key in ["data/part-1", "data/part-2", "data/sub/part-3", "other/part-4"] {
        server.put(key, format!("{key}\n").as_bytes());
    }
    let Some(cluster) = one(s3_agent(&server.endpoint())).await else { return };
    let params = |key: &str, filter: &str| {
        json!({
            "Bucket": BUCKET, "Key": key, "Endpoint": server.endpoint(), "Filter": filter,
        })
    };
    let files = ["/in/part-1", "/in/part-2", "/in/sub/part-3"];
    let all = seen(&cluster, "s3", &params("data/", ""), &files).await;
    assert_eq!(all, b"data/part-1\ndata/part-2\ndata/sub/part-3\n");
    let mut job = reading(&cluster, "s3", &params("data/*", "part-[13]$"), &[]);
    job["Tasks"][0]["Engine"]["Params"]["Parameters"] = json!(["wc", "/in"]);
    let counted = String::from_utf8(printed(&cluster, &job).await).unwrap();
    assert_eq!(counted, "1 1 12 /in/part-1\n1 1 16 /in/sub/part-3\n");
}

#[tokio::test]
async fn s3_keeps_odd_names_below_a_prefix() {
    let server = S3Server::start().await;
    for name in ["a b", "ä/ü €", "...", "a+b%20c"] {
        server.put(&format!("odd keys/{name}"), format!("{name}\n").as_bytes());
    }
    let Some(cluster) = one(s3_agent(&server.endpoint())).await else { return };
    let params = json!({
        "Bucket": BUCKET, "Key": "odd keys/", "Endpoint": server.endpoint(),
    });
    let files = ["/in/a b", "/in/ä/ü €", "/in/...", "/in/a+b%20c"];
    let all = seen(&cluster, "s3", &params, &files).await;
    assert_eq!(String::from_utf8_lossy(&all), "a b\nä/ü €\n...\na+b%20c\n");
}

#[tokio::test]
async fn s3_fetches_the_requested_version() {
    let server = s3::versions().await;
    let Some(cluster) = one(s3_agent(&server.url)).await else { return };
    for (version, expected) in [("1", "version 1"), ("", "version 2")] {
        let params = json!({
            "Bucket": BUCKET, "Key": s3::VERSIONED_KEY, "Endpoint": server.url,
            "VersionID": version,
        });
        assert_eq!(seen(&cluster, "s3", &params, &["/in"]).await, expected.as_bytes());
    }
}

/// Checks a branch, a tag, a commit and the default of a repository.
async fn assert_every_reference(cluster: &Cluster, forge: &Forge, url: &str) {
    let (one, two, three) = (noise(SIZE_BYTES), noise(1000), noise(2000));
    let commit = forge.commit("file", &one, "main");
    forge.commit("file", &two, "topic");
    forge.commit("file", &three, "main");
    forge.in_tree("tag v1");
    forge.in_tree("push --quiet origin v1");
    forge.commit("file", b"newest", "main");
    for (reference, bytes) in
        [("topic", &two[..]), ("v1", &three), (&commit, &one), ("", b"newest")]
    {
        let params = json!({ "Repo": url, "Ref": reference });
        let found = seen(cluster, "repoclone", &params, &["/in/file"]).await;
        assert!(found == bytes, "'{reference}': {} bytes", found.len());
    }
}

#[tokio::test]
async fn repoclone_fetches_a_branch_a_tag_or_a_commit_of_a_repository_on_the_node() {
    let Some(forge) = Forge::new() else { return };
    let path = forge.directory().display().to_string();
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_ALLOW_LOCAL_PATHS", &path);
    let Some(cluster) = one(agent).await else { return };
    assert_every_reference(&cluster, &forge, &forge.url()).await;
}

#[tokio::test]
async fn repoclone_fetches_over_http_and_follows_redirects() {
    let Some(forge) = Forge::new() else { return };
    let (url, _serving) = forge.serve(Service::Smart).await;
    let Some(cluster) = one(open_agent()).await else { return };
    assert_every_reference(&cluster, &forge, &url).await;
}

#[tokio::test]
async fn repoclonelfs_fetches_large_files_and_repoclone_their_pointers() {
    let Some(forge) = Forge::new() else { return };
    let Some(()) = needs("git", &["lfs", "version"]) else { return };
    forge.in_tree("lfs install --local");
    forge.in_tree("lfs track *.bin");
    forge.in_tree(&format!("remote set-url origin {}", forge.url()));
    let bytes = noise(SIZE_BYTES);
    forge.commit("large.bin", &bytes, "main");
    let path = forge.directory().display().to_string();
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_ALLOW_LOCAL_PATHS", &path);
    let Some(cluster) = one(agent).await else { return };
    let params = json!({ "Repo": forge.url() });
    assert!(seen(&cluster, "repoclonelfs", &params, &["/in/large.bin"]).await == bytes);
    let pointer = seen(&cluster, "repoclone", &params, &["/in/large.bin"]).await;
    assert!(pointer.starts_with(b"version https://git-lfs"), "{}", pointer.len());
}

#[tokio::test]
async fn ipfs_fetches_a_file_and_a_directory() {
    let server = KuboServer::start().await;
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_IPFS__API", &server.api());
    let Some(cluster) = one(agent).await else { return };
    let bytes = noise(SIZE_BYTES);
    let file = json!({ "CID": server.put(&[("", &bytes)]) });
    assert!(seen(&cluster, "ipfs", &file, &["/in"]).await == bytes);
    let tree = json!({ "CID": server.put(&[("a", b"one\n"), ("sub/b", b"two\n")]) });
    let found = seen(&cluster, "ipfs", &tree, &["/in/a", "/in/sub/b"]).await;
    assert_eq!(found, b"one\ntwo\n");
}
