//! The contract of every publisher, tested with each against the real service.

mod ipfs;
mod local;
mod s3;

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::time::Duration;

use api_types::NodeId;
use api_types::source::ResultPath;
use flate2::read::GzDecoder;
use serde_json::Value;
use uuid::Uuid;

use super::*;
use crate::data::credentials::{Granted, Grantor};
use crate::host::data_dir::{DataDir, ExecutionDir};
use crate::testing::{execution_id, plain_work};

/// Retry delays short enough for a test.
pub(super) const QUICK: RetryPolicy =
    RetryPolicy { tries: 3, first: Duration::from_millis(5), longest: Duration::from_millis(20) };

/// Where results go, and how a user gets at them.
pub(super) trait Shelf {
    const KIND: PublisherType;

    fn publishers(&self, data_dir: &DataDir) -> Publishers;
    /// The `Params` of a task that publishes here.
    fn params(&self) -> Value;
    /// Downloads a published result.
    async fn bytes(&self, data_dir: &DataDir, result: &PublishedResult) -> Vec<u8>;
}

/// A run on a node, as it was collected.
pub(super) struct Collected {
    pub(super) data_dir: DataDir,
    pub(super) work: Work,
    pub(super) dir: ExecutionDir,
    pub(super) grantor: Grantor,
    _root: tempfile::TempDir,
}

/// Type, path, mode, and contents or target of an entry.
pub(super) type Entry = (tar::EntryType, String, u32, Vec<u8>);

// === impl Collected ===

impl Collected {
    /// A run that printed something and left a tree, with this much in one of its files.
    pub(super) fn new<S: Shelf>(shelf: &S, size_bytes: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(root.path()).unwrap();
        let dir = data_dir.executions().for_execution(execution_id(7));
        let mut work = plain_work();
        work.task.publisher.publisher_type = S::KIND;
        work.task.publisher.params = serde_json::from_value(shelf.params()).unwrap();
        let path = |name: &str| ResultPath { name: name.to_owned(), path: format!("/{name}") };
        work.task.result_paths = vec![path("outputs"), path("never-made")];
        let outputs = dir.results().join("outputs");
        fs::create_dir_all(outputs.join("deep")).unwrap();
        fs::write(dir.stdout(), "printed\n").unwrap();
        fs::write(outputs.join("deep/data"), peers::noise(size_bytes)).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o750);
        fs::set_permissions(outputs.join("deep/data"), executable).unwrap();
        symlink("deep/data", outputs.join("link")).unwrap();
        Self { data_dir, work, dir, grantor: Grantor::Test(Ok(Granted::default())), _root: root }
    }

    pub(super) fn run(&self) -> Publication<'_> {
        Publication {
            id: execution_id(7),
            node_id: NodeId::from_uuid(Uuid::from_u128(9)),
            work: &self.work,
            exit_code: 3,
            dir: &self.dir,
            grantor: &self.grantor,
        }
    }

    pub(super) async fn publish(
        &self,
        publishers: &Publishers,
    ) -> Result<PublishedResult, Failure> {
        publishers.admit(&self.work).map_err(Failure::task)?;
        match publishers.publish(&self.run()).await {
            Publishing::Done(result) => Ok(result),
            Publishing::Failed(failure) => Err(failure),
            Publishing::NotAsked => panic!("it was asked"),
        }
    }
}

pub(super) fn entries(archive: &[u8]) -> Vec<Entry> {
    let mut tar = tar::Archive::new(GzDecoder::new(archive));
    tar.entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let (kind, mode) = (header.entry_type(), header.mode().unwrap() & 0o7777);
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let target = entry.link_name().unwrap();
            let mut contents =
                target.map_or_else(Vec::new, |target| target.to_str().unwrap().as_bytes().to_vec());
            entry.read_to_end(&mut contents).unwrap();
            (kind, path, mode, contents)
        })
        .collect()
}

/// The whole contract.
pub(super) async fn holds<S: Shelf>(shelf: &S) {
    const SIZE_BYTES: usize = 300_000;
    use tar::EntryType::{Directory, Regular, Symlink};
    let collected = Collected::new(shelf, SIZE_BYTES);
    let publishers = shelf.publishers(&collected.data_dir);
    assert!(publishers.offered().contains(&S::KIND));
    let result = collected.publish(&publishers).await.unwrap();
    assert_eq!(result.publisher_type, S::KIND);
    let bytes = shelf.bytes(&collected.data_dir, &result).await;
    let entry =
        |kind, path: &str, mode, contents: &[u8]| (kind, path.to_owned(), mode, contents.to_vec());
    let expected = [
        entry(Regular, "stdout", 0o644, b"printed\n"),
        entry(Regular, "stderr", 0o644, b""),
        entry(Regular, "exitCode", 0o644, b"3"),
        entry(Directory, "outputs", 0o755, b""),
        entry(Directory, "outputs/deep", 0o755, b""),
        entry(Regular, "outputs/deep/data", 0o750, &peers::noise(SIZE_BYTES)),
        entry(Symlink, "outputs/link", 0o777, b"deep/data"),
    ];
    assert!(entries(&bytes) == expected, "the archive is another");
    assert!(!collected.dir.archive().exists());

    // As after the death of the agent: the same once more, with the same bytes.
    let again = collected.publish(&publishers).await.unwrap();
    assert_eq!(without_version(&again), without_version(&result));
    assert!(shelf.bytes(&collected.data_dir, &again).await == bytes, "the bytes are others");
}

/// A bucket that keeps versions counts the second try as another one.
fn without_version(result: &PublishedResult) -> PublishedResult {
    let mut result = result.clone();
    result.params.remove("VersionID");
    result
}

#[tokio::test]
async fn a_task_without_a_publisher_publishes_nothing() {
    struct Nowhere;
    impl Shelf for Nowhere {
        const KIND: PublisherType = PublisherType::Noop;
        fn publishers(&self, data_dir: &DataDir) -> Publishers {
            let settings = Settings::default();
            Publishers::new(&settings, data_dir.published(), settings.listen)
        }
        fn params(&self) -> Value {
            Value::Object(serde_json::Map::new())
        }
        async fn bytes(&self, _: &DataDir, _: &PublishedResult) -> Vec<u8> {
            Vec::new()
        }
    }
    let collected = Collected::new(&Nowhere, 1);
    let publishers = Nowhere.publishers(&collected.data_dir);
    publishers.admit(&collected.work).unwrap();
    assert_eq!(publishers.publish(&collected.run()).await, Publishing::NotAsked);
    assert!(!collected.dir.archive().exists());
}
