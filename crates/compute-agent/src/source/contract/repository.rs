//! Inputs from real git repositories: on this machine's disk, and behind real HTTP servers.

use std::process::{Command, Output, Stdio};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::source::repository::{LargeFiles, Programs};

/// A work tree, and the bare repository that it pushes to.
struct Forge {
    dir: tempfile::TempDir,
}

/// None where the program is missing, which a run of the continuous integration must not bear.
fn needs(name: &str, found: bool) -> Option<()> {
    if !found {
        assert!(std::env::var_os("CI").is_none(), "these tests need {name}");
        eprintln!("skipped: this machine has no {name}");
        return None;
    }
    Some(())
}

impl Forge {
    fn new() -> Option<Self> {
        needs("git", Programs::of_this_machine().git)?;
        let forge = Self { dir: tempfile::tempdir().unwrap() };
        forge.git("init --quiet --bare --initial-branch=main bare.git");
        forge.git("init --quiet --initial-branch=main tree");
        forge.in_tree("remote add origin ../bare.git");
        Some(forge)
    }

    fn output(&self, directory: &str, arguments: &[&str]) -> Output {
        Command::new("git")
            .args(arguments)
            .current_dir(self.dir.path().join(directory))
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].iter().flat_map(|who| {
                [(format!("GIT_{who}_NAME"), "a"), (format!("GIT_{who}_EMAIL"), "a@example")]
            }))
            .output()
            .unwrap()
    }

    fn call(&self, directory: &str, arguments: &str) -> String {
        let arguments: Vec<_> = arguments.split(' ').collect();
        let output = self.output(directory, &arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn git(&self, arguments: &str) -> String {
        self.call(".", arguments)
    }

    fn in_tree(&self, arguments: &str) -> String {
        self.call("tree", arguments)
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        fs::write(self.dir.path().join("tree").join(path), bytes).unwrap();
    }

    /// Commits the file and pushes it to the branch; answers with the commit.
    fn commit(&self, path: &str, bytes: &[u8], branch: &str) -> String {
        self.write(path, bytes);
        self.in_tree("add --all");
        self.in_tree("commit --quiet --allow-empty --message=x");
        self.in_tree(&format!("push --quiet --force origin HEAD:refs/heads/{branch}"));
        self.in_tree("rev-parse HEAD")
    }

    fn url(&self) -> String {
        format!("file://{}", self.dir.path().join("bare.git").display())
    }

    fn input(&self, url: &str, reference: &str) -> InputSource {
        let params = json!({ "Repo": url, "Ref": reference });
        input(SourceType::RepoClone, params, "/in/repo")
    }

    fn node(&self) -> Node {
        Node::new(|cache| self.sources(cache))
    }
}

impl Origin for Forge {
    fn sources(&self, cache: &Path) -> Sources {
        let settings = Settings {
            allow_local_paths: vec![self.dir.path().to_str().unwrap().to_owned()],
            ..Settings::default()
        };
        let kind = |large_files| Repository {
            web: Web::new(Reach::Anywhere),
            local: LocalDirectory::new(&settings.allow_local_paths),
            large_files,
            patience: QUICK,
        };
        Sources {
            repository: Some(kind(LargeFiles::Left)),
            repository_lfs: Some(kind(LargeFiles::Fetched)),
            ..Sources::new(&settings, cache.to_owned())
        }
    }

    fn file(&self, bytes: &[u8]) -> InputSource {
        self.commit("file", bytes, "main");
        self.input(&self.url(), "")
    }

    fn missing(&self) -> (InputSource, &'static str) {
        (self.input(&self.url(), "absent"), "has no branch or tag 'absent'; check Ref")
    }
}

/// What the task sees besides git's own directory.
fn files(mounted: &MountedInput) -> Vec<(String, Vec<u8>)> {
    tree(&mounted.source).into_iter().filter(|(path, _)| !path.starts_with(".git/")).collect()
}

fn one(path: &str, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    vec![(path.to_owned(), bytes.to_vec())]
}

#[tokio::test]
async fn the_contract_holds() {
    let Some(forge) = Forge::new() else { return };
    what_is_too_large_is_refused(&forge).await;
    what_is_missing_is_told(&forge).await;
}

/// Every kind of Ref over one URL, twice: the second time from the cache.
async fn every_reference_is_found(forge: &Forge, url: &str) {
    let first = forge.commit("file", b"one", "main");
    forge.in_tree("tag --annotate --message=x v1");
    forge.in_tree("push --quiet origin v1");
    forge.commit("file", b"two", "topic/a");
    forge.commit("file", b"three", "main");
    forge.git("--git-dir=bare.git update-server-info");
    let node = forge.node();
    for (reference, bytes) in
        [("", &b"three"[..]), ("topic/a", b"two"), ("v1", b"one"), (&first, b"one")]
    {
        for number in [1, 2] {
            let mounted = node.fetch(number, &forge.input(url, reference)).await.unwrap();
            assert_eq!((mounted.target.as_str(), mounted.writable), ("/in/repo", false));
            assert_eq!(files(&mounted), one("file", bytes), "{reference}");
            let head = forge.output(mounted.source.to_str().unwrap(), &["rev-parse", "HEAD"]);
            assert!(head.status.success(), "it is a repository for the task too: {head:?}");
        }
    }
    // A branch that moved is fetched anew.
    forge.commit("file", b"four", "topic/a");
    forge.git("--git-dir=bare.git update-server-info");
    let mounted = node.fetch(1, &forge.input(url, "topic/a")).await.unwrap();
    assert_eq!(files(&mounted), one("file", b"four"));
}

#[tokio::test]
async fn a_repository_of_the_node_is_cloned_when_its_path_is_allowed() {
    let Some(forge) = Forge::new() else { return };
    every_reference_is_found(&forge, &forge.url()).await;
    let node = forge.node();
    let mounted = node.fetch(1, &forge.input(&forge.url(), "")).await.unwrap();
    assert!(mounted.source.join(".git/shallow").exists(), "only one commit should have come");
    let strict = Node::new(|cache| {
        let sources = forge.sources(cache);
        let repository = Repository { local: None, ..sources.repository.unwrap() };
        Sources { repository: Some(repository), ..Sources::new(&Settings::default(), cache.into()) }
    });
    let told = strict.refusal(1, &forge.input(&forge.url(), "")).await;
    assert!(told.contains("allow no repositories of its own"), "{told}");
    let told = forge.node().refusal(1, &forge.input("file:///etc", "")).await;
    assert!(told.contains("is not below a path that this node's settings allow"), "{told}");
}

/// How a server gives out the repository.
#[derive(Clone, Copy)]
enum Service {
    /// As `git http-backend`.
    Smart,
    /// As plain files.
    Dumb,
}

async fn serve(forge: &Forge, service: Service) -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/moved/bare.git", listener.local_addr().unwrap());
    let root = forge.dir.path().to_owned();
    let router = axum::Router::new().fallback(answer).with_state((root, service));
    let stopping = tokio_util::sync::CancellationToken::new();
    (url, tokio::spawn(crate::http::serve(listener, router, stopping)))
}

async fn answer(State((root, service)): State<(PathBuf, Service)>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let respond = |status, body: Body| Response::builder().status(status).body(body).unwrap();
    if let Some(path) = parts.uri.to_string().strip_prefix("/moved") {
        let moved = Response::builder().status(StatusCode::FOUND).header("location", path);
        return moved.body(Body::empty()).unwrap();
    }
    if let Service::Dumb = service {
        let path = root.join(parts.uri.path().trim_start_matches('/'));
        return match fs::read(path) {
            Ok(bytes) => respond(StatusCode::OK, bytes.into()),
            Err(_) => respond(StatusCode::NOT_FOUND, Body::empty()),
        };
    }
    let header =
        |name: &str| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&body).await.unwrap();
    let output = child.wait_with_output().await.unwrap().stdout;
    let split = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..split]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(&value[..3]),
            _ => response.header(name, value),
        };
    }
    response.body(Body::from(output[split + 4..].to_vec())).unwrap()
}

#[tokio::test]
async fn a_repository_behind_http_is_cloned_also_when_it_moved() {
    for service in [Service::Smart, Service::Dumb] {
        let Some(forge) = Forge::new() else { return };
        let (url, serving) = serve(&forge, service).await;
        every_reference_is_found(&forge, &url).await;
        let unknown = "12".repeat(20);
        let told = forge.node().refusal(1, &forge.input(&url, &unknown)).await;
        let words = format!("has no commit '{unknown}'; check Ref");
        assert!(told.ends_with(&words), "it is told at once: {told}");
        let absent = url.replace("/moved/bare.git", "/absent.git");
        let told = forge.node().refusal(1, &forge.input(&absent, "")).await;
        assert!(told.contains("does not exist (404 Not Found); check the URL"), "{told}");
        serving.abort();
    }
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused() {
    let Some(forge) = Forge::new() else { return };
    let strict = Node::new(|cache| {
        let repository = Repository {
            web: Web::new(Reach::PublicOnly),
            local: None,
            large_files: LargeFiles::Left,
            patience: QUICK,
        };
        Sources { repository: Some(repository), ..Sources::new(&Settings::default(), cache.into()) }
    });
    for url in ["http://127.0.0.1:9/x.git", "http://localhost:9/x.git"] {
        let told = strict.refusal(1, &forge.input(url, "")).await;
        assert!(told.contains("a loopback address, which this node's settings"), "{told}");
    }
    for (url, reference, told) in [
        ("ssh://git@example.com/x.git", "", "https, http and file work"),
        ("ext::sh -c id", "", "https, http and file work"),
        ("http://example.com/x.git", "--upload-pack=id", "is no branch, tag or commit"),
    ] {
        let refused = strict.refusal(1, &forge.input(url, reference)).await;
        assert!(refused.contains(told), "{refused}");
    }
}

#[tokio::test]
async fn large_files_come_with_lfs_and_stay_pointers_without() {
    let Some(forge) = Forge::new() else { return };
    let Some(()) = needs("git-lfs", Programs::of_this_machine().git_lfs) else { return };
    forge.in_tree("lfs install --local");
    forge.in_tree("lfs track *.bin");
    forge.in_tree(&format!("remote set-url origin {}", forge.url()));
    let bytes = noise(200_000);
    forge.commit("large.bin", &bytes, "main");
    let asked = forge.input(&forge.url(), "main");
    let mut with_lfs = asked.clone();
    with_lfs.source.source_type = SourceType::RepoCloneLfs;
    let node = forge.node();
    let pointer = node.fetch(1, &asked).await.unwrap();
    let text = fs::read_to_string(pointer.source.join("large.bin")).unwrap();
    assert!(text.starts_with("version https://git-lfs"), "{text}");
    for number in [2, 3] {
        let mounted = node.fetch(number, &with_lfs).await.unwrap();
        assert!(fs::read(mounted.source.join("large.bin")).unwrap() == bytes, "other bytes");
    }
    // An object that the store of large files lost.
    fs::remove_dir_all(forge.dir.path().join("bare.git/lfs")).unwrap();
    let told = forge.node().refusal(4, &with_lfs).await;
    assert!(told.contains("git lfs of "), "{told}");
}

#[test]
fn a_machine_without_the_programs_does_not_offer_them() {
    let sources = Sources::with_programs(&Settings::default(), "cache".into(), Programs::default());
    let offered = sources.offered();
    assert!(!offered.contains(&SourceType::RepoClone), "{offered:?}");
    let programs = Programs { git: true, git_lfs: false };
    let offered = Sources::with_programs(&Settings::default(), "cache".into(), programs).offered();
    assert!(offered.contains(&SourceType::RepoClone), "{offered:?}");
    assert!(!offered.contains(&SourceType::RepoCloneLfs), "{offered:?}");
}
