//! Images like those of databases and servers: an entrypoint begins as root, gives a directory to a
//! user, and becomes that user.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use api_types::access::{Permissions, PutNamespace};
use api_types::job::JobStateType;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use testbed::harness::{Cluster, batch};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Of Debian's package `busybox-static`.
const BUSYBOX: &str = "/bin/busybox";

const APPLETS: [&str; 11] =
    ["cat", "chmod", "chown", "echo", "find", "grep", "id", "mkdir", "sh", "stat", "su"];

/// As the images of PostgreSQL and Redis do it, with a `su` in place of their `gosu`.
const ENTRYPOINT: &str = r#"#!/bin/sh
set -e
data=/var/lib/service
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$data/db" /outputs/log
    find "$data" ! -user service -exec chown service:service {} +
    chmod 700 "$data"
    echo "by root" > /outputs/root
    echo "by another" > /outputs/log/other
    chown 1234:1234 /outputs/log/other
    chmod 600 /outputs/root /outputs/log/other
    exec su -s /bin/sh -- service "$0" "$@"
fi
umask 077
echo "$(id -un), $(stat -c '%U %a' "$data"), $(grep CapEff /proc/self/status)"
exec "$@"
"#;

/// An image that is removed when this is dropped.
struct Image(String);

// === impl Image ===

impl Image {
    /// None, with a notice, where the package is missing; with `CI` set that is a failure.
    async fn make(name: &str) -> Option<Self> {
        let Ok(busybox) = std::fs::read(BUSYBOX) else {
            assert!(std::env::var_os("CI").is_none(), "the package busybox-static is missing");
            eprintln!("skipped: the package busybox-static is missing");
            return None;
        };
        let mut tar = tar::Builder::new(Vec::new());
        let mut add = |path: &str, kind: tar::EntryType, mode: u32, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, path, content).expect("it fits into memory");
        };
        let file = tar::EntryType::Regular;
        for directory in ["bin", "etc", "var", "var/lib", "var/lib/service"] {
            add(directory, tar::EntryType::Directory, 0o755, b"");
        }
        add("bin/busybox", file, 0o755, &busybox);
        let users = "root:x:0:0::/:/bin/sh\nservice:x:999:999::/:/bin/false\n";
        add("etc/passwd", file, 0o644, users.as_bytes());
        add("etc/group", file, 0o644, b"root:x:0:\nservice:x:999:\n");
        add("entrypoint.sh", file, 0o755, ENTRYPOINT.as_bytes());
        for applet in APPLETS {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            header.set_size(0);
            let link = tar.append_link(&mut header, format!("bin/{applet}"), "busybox");
            link.expect("it fits into memory");
        }
        let image = Self(format!("testbed-entrypoint:{name}-{}", std::process::id()));
        let changes = ["ENTRYPOINT [\"/entrypoint.sh\"]", "VOLUME /var/lib/service"];
        let mut import = Command::new("docker");
        import.arg("import").args(changes.iter().flat_map(|change| ["--change", *change]));
        import.args(["-", &image.0]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut import = import.spawn().expect("docker's command line");
        let mut input = import.stdin.take().expect("a pipe");
        input.write_all(&tar.into_inner().expect("it is complete")).await.expect("it is read");
        drop(input);
        assert!(import.wait().await.expect("it ends").success());
        Some(image)
    }

    fn job(&self, script: &str) -> Value {
        batch(&self.0, &["sh", "-c", script])
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let mut remove = std::process::Command::new("docker");
        drop(remove.args(["image", "rm", "--force", &self.0]).stdout(Stdio::null()).status());
    }
}

#[tokio::test]
async fn an_image_whose_entrypoint_changes_owners_and_steps_down_runs_and_all_results_are_kept() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let Some(image) = Image::make("runs").await else { return };
    let mut job = image.job(
        "echo works > /var/lib/service/db/table && cat /var/lib/service/db/table && \
         echo 'by the service' > /outputs/own",
    );
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "outputs", "Path": "/outputs" }]);
    job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
    let execution = cluster.run_one(&job).await;
    let expected = "service, service 700, CapEff:\t0000000000000000\nworks\n";
    assert_eq!(execution.run_output.stdout, expected);
    let url = execution.published_result.params["URL"].as_str().expect("a URL");
    let archive = reqwest::get(url).await.expect("it is served").bytes().await.expect("all of it");
    let mut archive = tar::Archive::new(GzDecoder::new(&archive[..]));
    let mut found = Vec::new();
    for entry in archive.entries().expect("a tar") {
        let mut entry = entry.expect("an entry");
        let (path, mut text) = (entry.path().expect("a path").display().to_string(), String::new());
        if entry.header().entry_type().is_file() && path.starts_with("outputs") {
            entry.read_to_string(&mut text).expect("it is complete");
            found.push((path, text));
        }
    }
    found.sort();
    let expected = [
        ("outputs/log/other", "by another\n"),
        ("outputs/own", "by the service\n"),
        ("outputs/root", "by root\n"),
    ];
    assert_eq!(found, expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
    // On the node they belong to the agent, regardless of their owner in the container.
    let kept = cluster.agents[0].data_dir().join("executions").join(execution.id.to_string());
    let mut owners = BTreeMap::new();
    owned(&kept, &mut owners);
    let (own, other) = ("results/outputs/own", "results/outputs/log/other");
    assert!([own, other].iter().all(|path| owners.contains_key(&kept.join(path))), "{owners:?}");
    let agent = std::fs::metadata(cluster.agents[0].data_dir()).expect("it is there").uid();
    assert!(owners.values().all(|owner| *owner == agent), "{owners:?}");
}

/// Adds the owners of everything below a directory.
fn owned(directory: &Path, owners: &mut BTreeMap<PathBuf, u32>) {
    for entry in std::fs::read_dir(directory).expect("it is readable") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("it is there");
        owners.insert(entry.path(), metadata.uid());
        if metadata.is_dir() {
            owned(&entry.path(), owners);
        }
    }
}

#[tokio::test]
async fn the_same_image_fails_in_its_own_words_where_its_namespace_permits_no_capabilities() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let Some(image) = Image::make("fails").await else { return };
    let permissions = Permissions { capabilities: Some(false), ..Permissions::default() };
    let body = PutNamespace { permissions, ..PutNamespace::default() };
    cluster.client().put_namespace("careful", &body).await.expect("a namespace");
    let mut job = image.job("true");
    job["Namespace"] = json!("careful");
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    let output = cluster.execution(id).await.run_output;
    assert!(
        output.stderr.contains("chown") && output.stderr.contains("not permitted"),
        "{output:?}"
    );
}
