//! The contract of every source, tested with each against the real service.

mod ipfs;
mod job;
mod local;
mod repository;
mod s3;
mod url;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api_types::source::SourceSpec;
pub(super) use peers::noise;
use serde_json::Value;

use super::*;
use crate::host::data_dir::DataDir;
use crate::testing::{execution_id, plain_work};

/// Retry delays short enough for a test.
pub(super) const QUICK: RetryPolicy =
    RetryPolicy { tries: 3, first: Duration::from_millis(5), longest: Duration::from_millis(20) };

/// A source type's test content.
pub(super) trait Origin {
    /// The kinds of a node that can reach it.
    fn sources(&self, cache: &Path) -> Sources;
    /// An input whose content is this one file.
    fn file(&self, bytes: &[u8]) -> InputSource;
    /// A missing input, and the expected message.
    fn missing(&self) -> (InputSource, &'static str);
}

/// A node with some sources, whose executions ask for one input each.
pub(super) struct Node {
    pub(super) sources: Sources,
    pub(super) granted: Granted,
    pub(super) other_jobs: OtherJobs,
    data_dir: DataDir,
    _root: tempfile::TempDir,
}

// === impl Node ===

impl Node {
    pub(super) fn new(sources: impl FnOnce(&Path) -> Sources) -> Self {
        let root = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(root.path()).unwrap();
        Self {
            sources: sources(&data_dir.cache()),
            granted: Granted::default(),
            other_jobs: OtherJobs::Test(Arc::default()),
            data_dir,
            _root: root,
        }
    }

    /// As an execution of this number does, after a try that an agent died in.
    pub(super) async fn fetch(
        &self,
        number: u128,
        input: &InputSource,
    ) -> Result<MountedInput, Failure> {
        self.fetch_within(number, input, 0).await
    }

    pub(super) async fn fetch_within(
        &self,
        number: u128,
        input: &InputSource,
        disk_bytes: u64,
    ) -> Result<MountedInput, Failure> {
        self.sources.admit(input).map_err(Failure::task)?;
        let dir = self.dir(number);
        fs::create_dir_all(dir.input(0).join("directory/left over")).unwrap();
        let mut work = plain_work();
        work.task.input_sources = vec![input.clone()];
        work.resources.disk = disk_bytes;
        let (inputs, progress) = (&work.task.input_sources, Progress::silent());
        let given = (&self.granted, &self.other_jobs);
        let mut mounted = self.sources.fetch_all(inputs, &work, given, &dir, &progress).await?;
        assert_eq!(mounted.len(), 1);
        Ok(mounted.remove(0))
    }

    pub(super) fn dir(&self, number: u128) -> ExecutionDir {
        self.data_dir.executions().for_execution(execution_id(number))
    }

    pub(super) async fn refusal(&self, number: u128, input: &InputSource) -> String {
        self.fetch(number, input).await.unwrap_err().message
    }
}

pub(super) fn input(kind: SourceType, params: Value, target: &str) -> InputSource {
    let params = serde_json::from_value(params).unwrap();
    InputSource {
        source: SourceSpec { source_type: kind, params },
        target: target.to_owned(),
        alias: String::new(),
    }
}

#[test]
fn what_turns_out_to_hide_another_input_is_refused() {
    let mounted = |target: &str| MountedInput {
        source: PathBuf::new(),
        target: target.to_owned(),
        writable: false,
    };
    let refusal = |targets: [&str; 3]| refuse_overlaps(&targets.map(mounted));
    refusal(["/in/a", "/in/b", "/in/ab"]).unwrap();
    let equal = refusal(["/in/a", "/in/b", "/in/a"]).unwrap_err().message;
    assert_eq!(equal, "inputs 0 and 2 would both be '/in/a'; give one of them an Alias");
    for (targets, first) in [(["/x", "/in", "/in/a"], "/in"), (["/x", "/in/a", "/in"], "/in/a")] {
        let nested = refusal(targets).unwrap_err().message;
        assert!(nested.starts_with(&format!("inputs 1 and 2, '{first}' and ")), "{nested}");
    }
}

/// Every file below a directory with its bytes, by its path, in order.
pub(super) fn tree(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(directory.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                false => {
                    found.push((path.to_str().unwrap().to_owned(), fs::read(entry.path()).unwrap()))
                }
            }
        }
    }
    found.sort();
    found
}

/// The whole contract.
pub(super) async fn holds(origin: &impl Origin) {
    a_file_is_fetched_byte_for_byte(origin).await;
    an_input_beyond_the_limit_is_refused(origin).await;
    a_missing_input_is_reported(origin).await;
}

async fn a_file_is_fetched_byte_for_byte(origin: &impl Origin) {
    let node = Node::new(|cache| origin.sources(cache));
    let bytes = noise(300_000);
    let at_target = InputSource { target: "/in/data.bin".to_owned(), ..origin.file(&bytes) };
    // The second one may come from the cache.
    for number in [1, 2] {
        let mounted = node.fetch(number, &at_target).await.unwrap();
        assert_eq!(mounted.target, "/in/data.bin");
        assert!(!mounted.writable);
        assert!(fs::read(&mounted.source).unwrap() == bytes, "the bytes are others");
        let mode = fs::metadata(&mounted.source).unwrap().permissions().mode();
        assert_eq!(mode & 0o444, 0o444, "{mode:o}");
    }
    if at_target.source.source_type == SourceType::LocalDirectory {
        return;
    }
    let in_directory = InputSource {
        target: "/in/".to_owned(),
        alias: "other.bin".to_owned(),
        ..origin.file(&bytes)
    };
    let mounted = node.fetch(3, &in_directory).await.unwrap();
    assert_eq!(mounted.target, "/in/other.bin");
    assert!(fs::read(&mounted.source).unwrap() == bytes, "the bytes are others");
    node.dir(3).remove_inputs().unwrap();
    assert!(!mounted.source.exists());
}

async fn an_input_beyond_the_limit_is_refused(origin: &impl Origin) {
    let input = origin.file(&noise(300_000));
    if input.source.source_type == SourceType::LocalDirectory {
        return;
    }
    let node = Node::new(|cache| origin.sources(cache));
    let refused = node.fetch_within(1, &input, 200_000).await.unwrap_err();
    let words = "the inputs are larger than the 200 kB of the task's Resources.Disk; ask for more";
    assert!(refused.message.ends_with(words), "{}", refused.message);
    assert_eq!(refused.cause, api_types::protocol::FailureCause::Task);
    node.fetch_within(1, &input, 1_000_000).await.unwrap();
    // Cached inputs count as well.
    let again = node.fetch_within(2, &input, 200_000).await.unwrap_err();
    assert!(again.message.ends_with(words), "{}", again.message);
    let strict = Node::new(|cache| Sources { max_bytes: 1000, ..origin.sources(cache) });
    let refused = strict.fetch(1, &input).await.unwrap_err();
    let words = "than the 1 kB that this node gives a task that asks for none; ask for enough";
    assert!(refused.message.contains(words), "{}", refused.message);
    assert_eq!(refused.cause, api_types::protocol::FailureCause::Fetch);
}

async fn a_missing_input_is_reported(origin: &impl Origin) {
    let node = Node::new(|cache| origin.sources(cache));
    let (input, told) = origin.missing();
    let failure = node.fetch(1, &input).await.unwrap_err();
    let named = format!("input 0 ({}, for '{}'): ", input.source.source_type, input.target);
    assert!(failure.message.starts_with(&named), "{}", failure.message);
    assert!(failure.message.contains(told), "{}", failure.message);
    assert_eq!(failure.cause, api_types::protocol::FailureCause::Fetch);
}
