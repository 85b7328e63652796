//! Tasks that use up a disk in ways that no limit sees immediately, on a file system of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::protocol::Work;
use api_types::source::ResultPath;
use serde_json::json;

use crate::node::Node;
use crate::programs::{endless, module, program, wasm_work};

/// How long a program may take to use up the disk.
const STEP: Duration = Duration::from_millis(500);
const SLOW_STEPS: u32 = 600;

/// An image file with a file system, mounted; dropping it unmounts it.
struct Mounted {
    _image: tempfile::TempDir,
    root: PathBuf,
}

impl Mounted {
    /// None, with a reason, where this machine does not allow it; a panic when `CI` is set.
    fn new(megabytes: u64, inodes: u64) -> Option<Self> {
        let image = tempfile::tempdir().expect("a directory");
        let (file, root) = (image.path().join("image"), image.path().join("root"));
        std::fs::create_dir(&root).expect("a mount point");
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(megabytes << 20));
        made.expect("an image file");
        let done = run("mkfs.ext4", &["-q", "-m", "0", "-N", &inodes.to_string()], &[&file])
            .and_then(|()| run("mount", &["-o", "loop"], &[&file, &root]));
        match done {
            Ok(()) => Some(Self { _image: image, root }),
            Err(reason) if std::env::var_os("CI").is_some() => panic!("{reason}"),
            Err(reason) => {
                eprintln!("skipped: {reason}");
                None
            }
        }
    }
}

impl Mounted {
    /// Whether less than an eighth of it is left.
    fn is_short(&self) -> bool {
        let stat = rustix::fs::statvfs(&self.root).expect("it is mounted");
        stat.f_bavail < stat.f_blocks / 8 || stat.f_favail < stat.f_files / 8
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(reason) = run("umount", &["--lazy"], &[&self.root]) {
            eprintln!("{} may stay mounted: {reason}", self.root.display());
        }
    }
}

fn run(command: &str, arguments: &[&str], paths: &[&Path]) -> Result<(), String> {
    let output = Command::new(command).args(arguments).args(paths).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// A program that writes this many pieces of 60,000 bytes to a file that it has deleted, and goes on.
fn hiding(pieces: u32) -> Vec<u8> {
    program(&format!(
        r#"(data (i32.const 1024) "big")
        (func (export "_start") (local $left i32)
          (call $must (call $open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 3)
            (i32.const 9) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 16)))
          (call $must (call $unlink (i32.const 3) (i32.const 1024) (i32.const 3)))
          (local.set $left (i32.const {pieces}))
          (loop $again
            (call $print (i32.load (i32.const 16)) (i32.const 2048) (i32.const 60000))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $again (local.get $left)))
          (loop $forever (br $forever)))"#
    ))
}

/// A program that makes this many empty files, and goes on. The bits of a number are their names.
fn littering(files: u32) -> Vec<u8> {
    program(&format!(
        r#"(func (export "_start") (local $left i32) (local $bits i32) (local $at i32)
          (local.set $left (i32.const {files}))
          (loop $again
            (local.set $bits (local.get $left))
            (local.set $at (i32.const 1024))
            (loop $name
              (i32.store8 (local.get $at)
                (i32.add (i32.const 97) (i32.and (local.get $bits) (i32.const 15))))
              (local.set $bits (i32.shr_u (local.get $bits) (i32.const 4)))
              (local.set $at (i32.add (local.get $at) (i32.const 1)))
              (br_if $name (i32.lt_u (local.get $at) (i32.const 1029))))
            (call $must (call $open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 5)
              (i32.const 9) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 16)))
            (call $must (call $close (i32.load (i32.const 16))))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $again (local.get $left)))
          (loop $forever (br $forever)))"#
    ))
}

fn writing(program: &[u8]) -> Work {
    let mut work = wasm_work(program, json!({ "EntryModule": module(program, "") }));
    work.resources.cpu = 0.1;
    work.task.result_paths = vec![ResultPath { name: "out".to_owned(), path: "/out".to_owned() }];
    work
}

/// The culprit ends for what it did to the disk, and its neighbour runs on.
async fn ends_alone(disk: &Mounted, culprit: &[u8], words: &str) {
    let node = Node::start(|settings| {
        settings.engines = vec![EngineType::Wasm];
        settings.data_dir = disk.root.join("data");
    })
    .await;
    let neighbour = endless();
    let mut neighbour = wasm_work(&neighbour, json!({ "EntryModule": module(&neighbour, "") }));
    neighbour.resources.cpu = 0.1;
    let neighbour = node.orchestrator.run(neighbour).await;
    node.orchestrator.reported(neighbour, ComputeState::BidAccepted).await;
    let id = node.orchestrator.run(writing(culprit)).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    // A slow machine takes minutes to create this many files.
    for _ in 0..SLOW_STEPS {
        if disk.is_short() || node.phase(id).await.as_deref() != Some("Running") {
            break;
        }
        tokio::time::sleep(STEP).await;
    }
    let report = node.orchestrator.reported(id, ComputeState::Failed).await;
    assert!(report.message.contains(words), "{}", report.message);
    assert_eq!(node.phase(neighbour).await.as_deref(), Some("Running"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_open_file_ends_the_task_that_holds_it_and_no_other() {
    let Some(disk) = Mounted::new(512, 10_000) else { return };
    let words = "are free on the disk of tasks, less than the reserve of ";
    ends_alone(&disk, &hiding(7450), words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_empty_files_end_the_task_that_made_them_and_no_other() {
    let Some(disk) = Mounted::new(400, 23_000) else { return };
    let words = "inodes are free on the disk of tasks, less than the reserve of ";
    ends_alone(&disk, &littering(20_600), words).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn two_hundred_thousand_empty_files_end_the_task_that_made_them_and_no_other() {
    let Some(disk) = Mounted::new(600, 225_000) else { return };
    let words = "inodes are free on the disk of tasks, less than the reserve of ";
    ends_alone(&disk, &littering(204_000), words).await;
}
