//! What root in a container may do, and what it cannot reach with it.

use std::os::unix::fs::{PermissionsExt, chown};

use api_types::engine::{NetworkType, PublisherType};
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::Work;
use api_types::source::{InputSource, ResultPath, SourceSpec, SourceType};
use compute_agent::Settings;
use serde_json::json;

use crate::image;
use crate::node::DockerNode;
use crate::publishing::{files, url};
use crate::pulling::remove;

const ALL: &str = "CapEff:\t00000000000000eb\n";
const NONE: &str = "CapEff:\t0000000000000000\n";

async fn output(node: &DockerNode, work: Work) -> String {
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().reported(id, ComputeState::Completed).await;
    report.run_output.expect("its output").stdout
}

fn with_results(mut work: Work, path: &str) -> Work {
    work.task.publisher.publisher_type = PublisherType::Local;
    work.task.result_paths = vec![ResultPath { name: "kept".to_owned(), path: path.to_owned() }];
    work
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entrypoint_gives_files_to_users_becomes_one_and_all_results_are_kept() {
    let Some(node) = DockerNode::start().await else { return };
    let steps = [
        &["status", "CapEff", "write", "/outputs/private", "one", "own", "/outputs/private", "70"],
        &["mode", "/outputs/private", "600", "become", "1000", "status", "CapEff"][..],
        &["read", "/outputs/private", "own", "/outputs/private", "1000", "signal", "1"],
        &["write", "/outputs/own", "two", "mode", "/outputs/own", "600"],
    ];
    let work = with_results(node.work(&steps.concat()), "/outputs");
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().reported(id, ComputeState::Completed).await;
    let printed = report.run_output.clone().expect("its output").stdout;
    let wanted = format!(
        "{ALL}wrote /outputs/private\nown: yes\nmode: yes\nbecome: yes\n{NONE}\
         read: permission denied\nown: operation not permitted\nsignal: operation not permitted\n\
         wrote /outputs/own\nmode: yes\n"
    );
    assert_eq!(printed, wanted.replace("operation not permitted", "permission denied"));
    let archive = crate::http::get(&url(&report)).await.body;
    let found = files(&archive);
    for (path, text) in [("kept/private", "one"), ("kept/own", "two")] {
        assert!(found.contains(&(path.to_owned(), text.to_owned())), "{path} in {found:?}");
    }
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_reaches_neither_the_node_nor_another_task() {
    let Some(node) = DockerNode::start().await else { return };
    let neighbour =
        node.work(&["abstract", "neighbour", "write", "/private", "x", "sleep", "60000"]);
    let neighbour = node.orchestrator().run(neighbour).await;
    node.node.printed(neighbour, "abstract: yes\nwrote /private\n").await;
    let steps = [
        // Its own, and the init that the Engine puts before it.
        &["processes", "connect-abstract", "neighbour", "read", "/private"][..],
        &["connect-socket", "/var/run/docker.sock", "connect-socket", "/run/docker.sock"],
        &["raw-socket", "new-namespace", "device", "flush-rules"],
        &["open", "/proc/sys/kernel/core_pattern", "open", "/proc/sys/vm/drop_caches"],
        &["open", "/proc/sys/net/ipv4/ip_forward", "open", "/sys/class/net/lo/mtu"],
        &["own", "/proc/sys/kernel/core_pattern", "1000"],
    ]
    .concat();
    let no = "permission denied";
    let read_only = "read-only filesystem or storage medium";
    let absent = "entity not found";
    for network in [NetworkType::None, NetworkType::Full] {
        let mut work = node.work(&steps);
        work.task.network.network_type = network;
        let wanted = format!(
            "processes: 2\nconnect-abstract: connection refused\nread: {absent}\n\
             connect-socket: {absent}\nconnect-socket: {absent}\n\
             raw-socket: {no}\nnew-namespace: {no}\ndevice: {no}\nflush-rules: {no}\n\
             open: {read_only}\nopen: {read_only}\nopen: {read_only}\nopen: {read_only}\n\
             own: {read_only}\n"
        );
        assert_eq!(output(&node, work).await, wanted, "{network}");
    }
    // Its control group bounds it under either version.
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let steps: Vec<_> = groups.iter().flat_map(|path| ["open", path]).collect();
    let printed = output(&node, node.work(&steps)).await;
    assert!(printed.contains(read_only) && !printed.contains("yes"), "{printed}");
    node.orchestrator().want_state(neighbour, DesiredState::Stopped, "enough");
    node.orchestrator().reported(neighbour, ComputeState::Cancelled).await;
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_a_directory_of_the_node_has_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let private = directory.path().join("private");
    std::fs::write(&private, "x").expect("write");
    std::fs::set_permissions(&private, PermissionsExt::from_mode(0o600)).expect("chmod");
    // As root of this machine, the task would own it.
    drop(chown(&private, Some(1234), Some(1234)));
    let allow = |settings: &mut Settings| {
        settings.allow_local_paths = vec![directory.path().display().to_string()];
    };
    let Some(node) = DockerNode::start_with(allow).await else { return };
    for mode in ["ReadOnly", "ReadWrite"] {
        let mut work =
            node.work(&["status", "CapEff", "read", "/in/private", "own", "/in/private", "0"]);
        let params = json!({ "SourcePath": directory.path(), "ReadWrite": mode == "ReadWrite" });
        let params = serde_json::from_value(params).expect("an object");
        work.task.input_sources = vec![InputSource {
            source: SourceSpec { source_type: SourceType::LocalDirectory, params },
            target: "/in".to_owned(),
            alias: String::new(),
        }];
        let printed = output(&node, work).await;
        assert!(printed.starts_with(&format!("{NONE}read: permission denied\nown: ")), "{printed}");
        assert!(!printed.contains("yes"), "{mode}: {printed}");
    }
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_names_root_as_its_user_gives_nothing() {
    let Some(node) = DockerNode::start().await else { return };
    let steps = [
        &["copy", "/task", "/root-s", "own", "/root-s", "0", "mode", "/root-s", "6755"][..],
        &["become", "1000", "run", "/root-s", "status", "Uid", "status", "CapEff"],
    ];
    let printed = output(&node, node.work(&steps.concat())).await;
    let wanted = format!(
        "copy: yes\nown: yes\nmode: yes\nbecome: yes\nUid:\t1000\t1000\t1000\t1000\n{NONE}run: yes\n"
    );
    assert_eq!(printed, wanted);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_and_a_namespace_can_give_none() {
    let Some(node) = DockerNode::start().await else { return };
    let steps = ["status", "CapEff", "status", "CapBnd", "own", "/task", "1000"];
    let nothing = format!("{NONE}{}own: permission denied\n", NONE.replace("CapEff", "CapBnd"));
    let mut work = node.work(&steps);
    work.no_capabilities = true;
    assert_eq!(output(&node, work).await, nothing);
    node.nothing_is_left().await;
    let none = |settings: &mut Settings| settings.docker.capabilities.clear();
    let Some(node) = DockerNode::start_with(none).await else { return };
    assert_eq!(output(&node, node.work(&steps)).await, nothing);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_user_may_write_to_a_volume_that_is_a_result_path() {
    let Some(node) = DockerNode::start().await else { return };
    let own = |tar: &mut tar::Builder<Vec<u8>>| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o700);
        header.set_uid(70);
        header.set_gid(71);
        header.set_size(0);
        tar.append_data(&mut header, "data/", std::io::empty()).expect("a directory");
    };
    let instructions = ["VOLUME /data", "VOLUME /made", "USER 1000"];
    let image = image::with(&node.docker, own, &instructions).await;
    for (path, owner) in [("/data", "70:71"), ("/made", "0:0")] {
        let file = format!("{path}/file");
        let mut work = with_results(node.work(&["stat", path, "write", &file, "x"]), path);
        work.task.engine.params["Image"] = json!(image);
        let printed = output(&node, work).await;
        assert_eq!(printed, format!("{owner} 1777\nwrote {file}\n"));
    }
    // A volume that is no result path stays as its image says, and the image's user has nothing.
    let mut work = node.work(&["stat", "/data", "stat", "/made", "status", "CapEff"]);
    work.task.engine.params["Image"] = json!(image);
    assert_eq!(output(&node, work).await, format!("70:71 700\n0:0 755\n{NONE}"));
    node.nothing_is_left().await;
    remove(&node.docker, &image).await;
}
