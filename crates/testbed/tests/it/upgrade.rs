//! What a former release stored is there after the upgrade; and both releases under load.

mod next_format;
mod under_load;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use api_types::execution::ComputeState;
use flate2::read::GzDecoder;
use rustix::fs::Mode;
use serde_json::{Map, Value, json};
use testbed::harness::ClusterSpec;

/// A database that release 0.1.0 wrote, and what that release answered about it.
const FORMER: &str = "release-0.1.0";

/// The format of that database.
const FORMAT: u32 = 8;

/// The node of that database is gone. It is not given up while the test runs.
const NODE_TTL: &str = "3600";

/// What the end of the former process changes.
const OF_THE_CONNECTION: [&str; 2] = ["Connection", "LastHeartbeat"];

fn former(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(FORMER).join(name)
}

/// A data directory with the database of the former release.
fn restored() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut bytes = Vec::new();
    let file = File::open(former("orchestrator.db.gz")).expect("the fixture");
    GzDecoder::new(file).read_to_end(&mut bytes).expect("it is compressed");
    let path = directory.path().join("orchestrator.db");
    fs::write(&path, bytes).expect("the directory is writable");
    rustix::fs::chmod(&path, Mode::RUSR | Mode::WUSR).expect("it is ours");
    directory
}

/// An execution whose process has not ended: 0.1.0 gave its exit code as 0.
fn without_exit_code(old: &Map<String, Value>) -> Option<Map<String, Value>> {
    let state = old.get("ComputeState")?["StateType"].as_u64()?;
    let state = ComputeState::try_from(u8::try_from(state).ok()?).ok()?;
    let mut old = old.clone();
    let code = old.get_mut("RunOutput")?.get_mut("exitCode")?;
    (!state.is_terminal()).then(|| *code = json!(-1))?;
    Some(old)
}

/// What the new answer lacks of the old one. A new release may add fields.
fn missing(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let known = without_exit_code(old);
            let old = known.as_ref().unwrap_or(old);
            for (key, old) in old {
                if !OF_THE_CONNECTION.contains(&key.as_str()) {
                    let new = new.get(key).unwrap_or(&Value::Null);
                    missing(&format!("{path}.{key}"), old, new, found);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                missing(&format!("{path}[{index}]"), old, new, found);
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(format!("{path}: {old} became {new}")),
    }
}

#[tokio::test]
async fn what_release_0_1_0_stored_is_there_after_the_upgrade() {
    let directory = restored();
    let data = directory.path().display().to_string();
    let mut cluster = ClusterSpec::new()
        .setting("ORCHESTRATOR_DATA_DIR", &data)
        .setting("ORCHESTRATOR_NODE_TTL", NODE_TTL)
        // The fixture grows old.
        .setting("ORCHESTRATOR_JOB_RETENTION", "0")
        .setting("ORCHESTRATOR_NODE_RETENTION", "0")
        .start_without_agents()
        .await;
    let text = fs::read_to_string(former("answers.json")).expect("the fixture");
    let answers: Value = serde_json::from_str(&text).expect("JSON");
    let answers = answers.as_object().expect("answers by path");
    assert!(answers.len() > 10, "{:?}", answers.keys());
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    // Once after the upgrade, and once after a start without one.
    for _ in 0..2 {
        let mut found = Vec::new();
        for (path, old) in answers {
            let url = format!("{}{path}", cluster.orchestrator.base_url());
            let answer = http.get(&url).send().await.expect("an answer");
            let new: Value = answer.json().await.expect("JSON");
            missing(path, old, &new, &mut found);
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
        cluster.orchestrator.kill();
        cluster.orchestrator.restart().await;
    }
    assert!(directory.path().join(format!("orchestrator-format-{FORMAT}.db")).exists());
}
