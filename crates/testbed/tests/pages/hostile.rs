//! What a job brings is text: names, labels, messages and output run no script.

use api_types::job::JobStateType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec};

use super::browser::in_browser;

const ATTACK: &str = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

/// A module that prints the attack.
fn printing(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    let module = wat::parse_str(format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 1024) "{escaped}\n")
          (func (export "_start")
            (i32.store (i32.const 0) (i32.const 1024))
            (i32.store (i32.const 4) (i32.const {}))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#,
        text.len() + 1
    ));
    format!("data:application/wasm;base64,{}", STANDARD.encode(module.expect("a module")))
}

#[tokio::test]
async fn names_labels_and_output_run_no_script() {
    let agent = AgentSpec::new().engines("wasm").label("note", ATTACK);
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let module = json!({ "Source": { "Type": "inline", "Params": { "URL": printing(ATTACK) } } });
    let job = json!({
        "Name": ATTACK, "Type": "batch", "Labels": { "note": ATTACK }, "Namespace": "<b>n</b>",
        "Tasks": [{
            "Name": "main", "Engine": { "Type": "wasm", "Params": { "EntryModule": module } },
            "Env": { "NOTE": ATTACK },
        }],
    });
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let node = cluster.agents[0].node_id();
    in_browser(&cluster, async |browser| {
        let tabs = ["", "/timeline", "/logs", "/history", "/results", "/specification"];
        let mut pages: Vec<_> = tabs.iter().map(|tab| format!("/jobs/{id}{tab}")).collect();
        pages.extend(["/", "/jobs", "/nodes", "/events"].map(str::to_owned));
        pages.extend([format!("/nodes/{node}"), format!("/submit?from={id}")]);
        for page in pages {
            browser.visit(&page).await;
            assert_eq!(browser.value("window.hacked ?? null").await, json!(null), "{page}");
            let planted = "document.querySelectorAll('main img, main script').length";
            assert_eq!(browser.value(planted).await, json!(0), "{page}");
            browser.assert_no_fault(&page).await;
        }
        browser.visit(&format!("/jobs/{id}/logs")).await;
        browser.wait_for_text(ATTACK).await;
    })
    .await;
}
