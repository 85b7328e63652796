//! Inputs from real git repositories: on this machine's disk, and behind real HTTP servers.

use api_types::credential::{CredentialType, Login};
use peers::forge::{Forge, Service, needs};
use serde_json::json;

use super::*;
use crate::data::inputs::repository::{LargeFiles, Programs};
use crate::testing::credential;

/// A node that may reach the forge, and its inputs.
trait Reached {
    fn input(&self, url: &str, reference: &str) -> InputSource;
    fn node(&self) -> Node;
}

impl Reached for Forge {
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
            allow_local_paths: vec![self.directory().to_str().unwrap().to_owned()],
            ..Settings::default()
        };
        let kind = |large_files| Repository {
            client: EgressClient::new(EgressPolicy::Anywhere),
            local: LocalDirectory::new(&settings.allow_local_paths),
            large_files,
            retry: QUICK,
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

/// The files that the task sees, except git's own directory.
fn files(mounted: &MountedInput) -> Vec<(String, Vec<u8>)> {
    tree(&mounted.source).into_iter().filter(|(path, _)| !path.starts_with(".git/")).collect()
}

fn one(path: &str, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    vec![(path.to_owned(), bytes.to_vec())]
}

#[tokio::test]
async fn the_contract_holds() {
    let Some(forge) = Forge::new() else { return };
    an_input_beyond_the_limit_is_refused(&forge).await;
    a_missing_input_is_reported(&forge).await;
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
    // A branch that moved is fetched again.
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
    let message = strict.refusal(1, &forge.input(&forge.url(), "")).await;
    assert!(message.contains("allow no local repositories"), "{message}");
    let message = forge.node().refusal(1, &forge.input("file:///etc", "")).await;
    assert!(message.contains("is not below a path that this node's settings allow"), "{message}");
}

#[tokio::test]
async fn a_repository_behind_http_is_cloned_through_redirects() {
    for service in [Service::Smart, Service::Dumb] {
        let Some(forge) = Forge::new() else { return };
        let (url, serving) = forge.serve(service).await;
        every_reference_is_found(&forge, &url).await;
        let unknown = "12".repeat(20);
        let message = forge.node().refusal(1, &forge.input(&url, &unknown)).await;
        let words = format!("has no commit '{unknown}'; check Ref");
        assert!(message.ends_with(&words), "the failure is immediate: {message}");
        let absent = url.replace("/moved/bare.git", "/absent.git");
        let message = forge.node().refusal(1, &forge.input(&absent, "")).await;
        assert!(message.contains("does not exist (404 Not Found); check the URL"), "{message}");
        drop(serving);
    }
}

#[tokio::test]
async fn a_private_repository_opens_for_credentials_of_its_host() {
    let Some(forge) = Forge::new() else { return };
    forge.commit("file", b"private", "main");
    let (url, serving) = forge.serve(Service::SmartFor("Basic YWRhOmh1c2g=")).await;
    let host = serving.address.to_string();
    let login = Login { username: "ada".into(), password: "hush".into(), ..Login::default() };
    let own = |hosts: &[&str]| {
        let mut node = forge.node();
        node.granted = Granted::with(credential(CredentialType::Git, hosts, login.clone()));
        node
    };
    let mut named = forge.input(&url, "main");
    named.source.params.insert("Credentials".to_owned(), json!("own"));
    let node = own(&[&host]);
    let mounted = node.fetch(1, &named).await.unwrap();
    assert_eq!(files(&mounted), one("file", b"private"));
    // What the task gets of the repository does not have them.
    for (path, bytes) in tree(&mounted.source) {
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(!has(b"hush") && !has(b"YWRhOmh1c2g="), "{path}");
    }
    for (node, input) in [(own(&[&host]), forge.input(&url, "main")), (own(&["h.example"]), named)]
    {
        let message = node.refusal(2, &input).await;
        assert!(message.contains("may not be read (401 Unauthorized)"), "{message}");
    }
}

#[tokio::test]
async fn non_public_addresses_are_refused() {
    let Some(forge) = Forge::new() else { return };
    let strict = Node::new(|cache| {
        let repository = Repository {
            client: EgressClient::new(EgressPolicy::PublicOnly),
            local: None,
            large_files: LargeFiles::Left,
            retry: QUICK,
        };
        Sources { repository: Some(repository), ..Sources::new(&Settings::default(), cache.into()) }
    });
    for url in ["http://127.0.0.1:9/x.git", "http://localhost:9/x.git"] {
        let message = strict.refusal(1, &forge.input(url, "")).await;
        assert!(message.contains("a loopback address, which this node's settings"), "{message}");
    }
    for (url, reference, message) in [
        ("ssh://git@example.com/x.git", "", "https, http and file work"),
        ("ext::sh -c id", "", "https, http and file work"),
        ("http://example.com/x.git", "--upload-pack=id", "is not a branch, tag or commit"),
    ] {
        let refused = strict.refusal(1, &forge.input(url, reference)).await;
        assert!(refused.contains(message), "{refused}");
    }
}

#[tokio::test]
async fn large_files_are_fetched_with_lfs_and_stay_pointers_without() {
    let Some(forge) = Forge::new() else { return };
    let Some(()) = needs("git", &["lfs", "version"]) else { return };
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
    fs::remove_dir_all(forge.directory().join("bare.git/lfs")).unwrap();
    let message = forge.node().refusal(4, &with_lfs).await;
    assert!(message.contains("git lfs of "), "{message}");
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
