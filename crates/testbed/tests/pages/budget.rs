//! What the pages cost: bytes on the network, for the first view and in all.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec};

use super::browser::in_browser;

/// Compressed bytes that the first view may take.
const FIRST_VIEW_BYTES: u64 = 60_000;

/// Compressed bytes of all files together.
const ALL_BYTES: u64 = 170_000;

/// Compressed bytes of the page and everything that it has loaded from the server's files.
const LOADED: &str = "performance.getEntriesByType('navigation')
    .concat(performance.getEntriesByType('resource').filter((e) => e.name.includes('/ui/')))
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0)";

fn files(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("read the directory") {
        let path = entry.expect("read an entry").path();
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push(path);
        }
    }
}

#[tokio::test]
async fn the_first_view_and_all_files_stay_within_their_budgets() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let base_url = cluster.orchestrator.base_url();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/assets");
    let mut all = Vec::new();
    files(&assets, &mut all);
    let names = all.iter().map(|file| file.strip_prefix(&assets).expect("below the folder"));
    let names = names.map(|name| name.display().to_string());
    // The style sheets are served as one.
    let names = names.filter(|name| name != "index.html" && !name.ends_with(".css"));
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut bytes = 0;
    for name in names.chain(["style.css".to_owned()]) {
        let request = http.get(format!("{base_url}/ui/{name}")).header("Accept-Encoding", "gzip");
        let response = request.send().await.expect("reach the orchestrator");
        assert_eq!(response.status(), 200, "{name}");
        bytes += response.bytes().await.expect("a body").len() as u64;
    }
    assert!(all.len() > 20 && bytes > 0, "{} files, {bytes} bytes", all.len());
    assert!(bytes <= ALL_BYTES, "all files together have {bytes} bytes");
    in_browser(&cluster, async |browser| {
        browser.visit("/").await;
        let first = browser.value(LOADED).await.as_u64().expect("a number");
        assert!(first > 0, "the browser has measured nothing");
        assert!(first <= FIRST_VIEW_BYTES, "the first view takes {first} bytes");
        assert_eq!(browser.value("window.faults").await, json!([]));
    })
    .await;
}
