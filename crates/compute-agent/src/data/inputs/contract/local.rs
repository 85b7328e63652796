//! Inputs that lie on the node.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

struct Shelf {
    /// The settings allow its directory `shelf`.
    dir: tempfile::TempDir,
}

impl Shelf {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("shelf")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        Self { dir }
    }

    fn path(&self, below: &str) -> String {
        self.dir.path().join("shelf").join(below).to_str().unwrap().to_owned()
    }

    fn input(&self, below: &str) -> InputSource {
        let params = json!({ "SourcePath": self.path(below) });
        input(SourceType::LocalDirectory, params, "/in/it")
    }

    fn node(&self) -> Node {
        Node::new(|cache| self.sources(cache))
    }
}

impl Origin for Shelf {
    fn sources(&self, cache: &Path) -> Sources {
        let allow_local_paths = vec!["/nowhere".to_owned(), self.path("")];
        let settings = Settings { allow_local_paths, ..Settings::default() };
        Sources::new(&settings, cache.to_owned())
    }

    fn file(&self, bytes: &[u8]) -> InputSource {
        fs::write(self.path("file"), bytes).unwrap();
        self.input("file")
    }

    fn missing(&self) -> (InputSource, &'static str) {
        (self.input("absent"), "does not exist on this node")
    }
}

#[tokio::test]
async fn the_contract_holds() {
    holds(&Shelf::new()).await;
}

#[tokio::test]
async fn a_local_directory_is_mounted_directly_and_writable_only_on_request() {
    let shelf = Shelf::new();
    fs::create_dir(shelf.path("data")).unwrap();
    let mut input = shelf.input("data");
    let node = shelf.node();
    let mounted = node.fetch(1, &input).await.unwrap();
    assert_eq!(mounted.source, Path::new(&shelf.path("data")).canonicalize().unwrap());
    assert_eq!((mounted.target.as_str(), mounted.writable), ("/in/it", false));
    input.source.params.insert("ReadWrite".to_owned(), json!(true));
    assert!(node.fetch(1, &input).await.unwrap().writable);
    // Cleanup removes the destination of the input, never the node's own directory.
    node.dir(1).remove_inputs().unwrap();
    assert!(Path::new(&shelf.path("data")).exists());
}

#[tokio::test]
async fn paths_outside_the_allowed_ones_are_refused() {
    let shelf = Shelf::new();
    symlink(shelf.dir.path(), shelf.path("up")).unwrap();
    symlink("../secret", shelf.path("link")).unwrap();
    fs::create_dir(shelf.dir.path().join("shelf-2")).unwrap();
    let node = shelf.node();
    for below in ["link", "up", "up/secret", "../secret", "../shelf-2", "a/../../secret"] {
        let message = node.refusal(1, &shelf.input(below)).await;
        assert!(
            message.contains("is not below a path that this node's settings allow"),
            "{message}"
        );
    }
    fs::write(shelf.path("real"), "inside").unwrap();
    symlink("real", shelf.path("alias")).unwrap();
    let mounted = node.fetch(1, &shelf.input("alias")).await.unwrap();
    assert!(mounted.source.ends_with("shelf/real"), "{mounted:?}");
}

#[test]
fn a_node_without_allowed_paths_does_not_offer_local_directories() {
    let sources = Sources::new(&Settings::default(), "cache".into());
    assert!(!sources.offered().contains(&SourceType::LocalDirectory));
}

#[tokio::test]
async fn no_input_lies_below_a_directory_that_another_task_may_write_to() {
    let shelf = Shelf::new();
    fs::create_dir_all(shelf.path("data/sub")).unwrap();
    let writing = |below: &str| {
        let mut input = shelf.input(below);
        input.source.params.insert("ReadWrite".to_owned(), json!(true));
        input
    };
    let node = shelf.node();
    node.fetch(1, &writing("data")).await.unwrap();
    // Otherwise the first task could replace it by a link to anywhere before it is mounted.
    for input in [shelf.input("data/sub"), writing("data/sub")] {
        let message = node.refusal(2, &input).await;
        assert!(message.contains("/data', which another task may write to"), "{message}");
    }
    // The same directory, and what is below it for the same task, are no way out.
    node.fetch(3, &writing("data")).await.unwrap();
    node.fetch(3, &shelf.input("data")).await.unwrap();
    for number in [1, 3] {
        node.sources.release(execution_id(number));
    }
    node.fetch(2, &shelf.input("data/sub")).await.unwrap();
    let message = node.refusal(4, &writing("data")).await;
    assert!(message.contains("/data/sub' below it is the input of another task"), "{message}");
    node.fetch(4, &shelf.input("data")).await.unwrap();

    // A task that outlives its agent keeps what it has.
    let next = shelf.node();
    next.sources.hold_again(execution_id(1), &[writing("data")]);
    let message = next.refusal(2, &shelf.input("data/sub")).await;
    assert!(message.contains("which another task may write to"), "{message}");
}
