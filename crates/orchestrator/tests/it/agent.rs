//! `/api/v1/agent`: what the orchestrator reports about itself.

use serde_json::json;

use crate::server::{Server, redacted, text};

crate::covers! {
    "isAlive" => it_is_alive;
    "describeVersion" => the_version_is_reported;
    "describeOwnNode" => its_node_record_is_not_wrapped;
}

#[tokio::test]
async fn it_is_alive() {
    let server = Server::start().await;
    let answer = server.get("/api/v1/agent/alive").await;
    assert_eq!(answer.ok(), &json!({ "Status": "OK" }));
    assert_eq!(answer.text, r#"{"Status":"OK"}"#);
}

#[tokio::test]
async fn the_version_is_reported() {
    let server = Server::start().await;
    let answer = server.get("/api/v1/agent/version").await;
    let version = answer.ok();
    let keys: Vec<_> = version.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["BuildDate", "GOARCH", "GOOS", "GitCommit", "GitVersion", "Major", "Minor"];
    assert_eq!(keys, expected);
    assert_eq!(version["GitVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    assert_eq!(version["GOOS"], "linux");
}

#[tokio::test]
async fn its_node_record_is_not_wrapped() {
    let server = Server::start().await;
    let answer = server.get("/api/v1/agent/node").await;
    let mut node = redacted(answer.ok());
    assert_eq!(text(&answer.ok()["PeerInfo"]["ID"]), server.node_id());
    for (place, key) in [("Labels", "hostname"), ("Labels", "Architecture")] {
        assert!(!text(&node[place][key].take()).is_empty());
    }
    node["ServiceVersion"] = json!(null);
    let nothing = json!({ "CPU": 0.0, "Memory": 0, "Disk": 0, "GPU": 0 });
    let expected = json!({
        "PeerInfo": {
            "ID": "n-…",
            "Addrs": [format!("/ip4/127.0.0.1/tcp/{}", server.address().port())],
        },
        "Name": "orchestrator",
        "NodeType": "Requester",
        "Labels": { "Operating-System": "linux", "Architecture": null, "hostname": null },
        "ComputeNodeInfo": {
            "ExecutionEngines": [], "Publishers": [], "StorageSources": [],
            "MaxCapacity": nothing, "AvailableCapacity": nothing, "MaxJobRequirements": nothing,
            "RunningExecutions": 0, "EnqueuedExecutions": 0,
        },
        "ServiceVersion": null,
        "Membership": "APPROVED", "Connection": "CONNECTED", "Eligibility": "ELIGIBLE",
        "Health": { "State": "HEALTHY", "Reason": "", "Since": "", "NextTry": "" },
        "ReservedSince": "",
        "LastHeartbeat": "T",
    });
    assert_eq!(node, expected);
}

#[tokio::test]
async fn its_identity_survives_a_restart() {
    let mut server = Server::start().await;
    let (id, key) = identity(&server).await;
    server.restart().await;
    assert_eq!(identity(&server).await, (id, key));
}

/// The node ID and the public key, as jobs carry them.
async fn identity(server: &Server) -> (String, String) {
    let job = server.submit(crate::server::plain_job()).await;
    let answer = server.get(&crate::server::job_path(&job)).await;
    let meta = &answer.ok()["Job"]["Meta"];
    let id = text(&meta["service.org/requester.id"]);
    assert_eq!(id, server.node_id());
    (id, text(&meta["service.org/requester.publicKey"]))
}
