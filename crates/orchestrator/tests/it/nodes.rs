//! `/api/v1/orchestrator/nodes`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::node::{FakeNode, fresh_node_id, node_path, session_request};
use crate::server::{Answer, JOBS, PATIENCE, Server, list, redacted, text};

crate::covers! {
    "describeNode" => a_node_is_described_as_it_joined;
    "listNodes" => nodes_are_listed_in_every_order_and_in_pages;
    "actOnNode" => an_operator_changes_what_a_node_may_do;
    "forgetNode" => only_a_disconnected_node_can_be_forgotten;
}

const NODES: &str = "/api/v1/orchestrator/nodes";

#[track_caller]
fn ids(answer: &Answer) -> Vec<String> {
    list(&answer.ok()["Nodes"]).iter().map(|node| text(&node["PeerInfo"]["ID"])).collect()
}

async fn join(server: &Server, zone: &str, cpu: f64) -> FakeNode {
    FakeNode::join_with(server, |request| {
        request["Labels"]["zone"] = json!(zone);
        request["ComputeNodeInfo"]["MaxCapacity"]["CPU"] = json!(cpu);
    })
    .await
}

#[tokio::test]
async fn a_node_is_described_as_it_joined() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let answer = server.get(&node_path(&node.id, "")).await;
    assert_eq!(answer.ok()["Node"]["PeerInfo"]["ID"], node.id);
    let capacity =
        json!({ "CPU": 4.0, "Memory": 8_000_000_000_u64, "Disk": 100_000_000_000_u64, "GPU": 0 });
    let expected = json!({ "Node": {
        "PeerInfo": { "ID": "n-…", "Addrs": ["/ip4/10.0.0.1/tcp/1234"] },
        "Name": "node",
        "NodeType": "Compute",
        "Labels": { "zone": "a" },
        "ComputeNodeInfo": {
            "ExecutionEngines": ["docker"], "Publishers": ["noop", "local"],
            "StorageSources": ["inline"], "MaxCapacity": capacity, "AvailableCapacity": capacity,
            "MaxJobRequirements": capacity, "RunningExecutions": 0, "EnqueuedExecutions": 0,
        },
        "ServiceVersion": {
            "Major": "0", "Minor": "1", "GitVersion": "v0.1.0", "GitCommit": "", "BuildDate": "",
            "GOOS": "", "GOARCH": "",
        },
        "Membership": "APPROVED", "Connection": "CONNECTED", "Eligibility": "ELIGIBLE",
        "Health": { "State": "HEALTHY", "Reason": "", "Since": "", "NextTry": "" },
        "ReservedSince": "",
        "LastHeartbeat": "T",
        "IdleSince": "T",
    } });
    assert_eq!(redacted(&answer.body), expected);
}

#[tokio::test]
async fn a_prefix_names_a_node_and_so_does_the_orchestrators_own() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    for (name, kind) in [(&node.id, "Compute"), (&server.node_id(), "Requester")] {
        for prefix in [&name[..10], &name[..15], name] {
            let answer = server.get(&node_path(prefix, "")).await;
            assert_eq!(text(&answer.ok()["Node"]["PeerInfo"]["ID"]), *name);
            assert_eq!(answer.body["Node"]["NodeType"], kind);
        }
    }
    server.get(&node_path("n-1234567", "")).await.refused(404, "NodeNotFound");
}

#[tokio::test]
async fn nodes_are_listed_in_every_order_and_in_pages() {
    let server = Server::start().await;
    let small = join(&server, "a", 1.5).await.id;
    let large = join(&server, "b", 16.0).await.id;
    let medium = join(&server, "c", 4.0).await.id;
    let own = server.node_id();
    let mut sorted = vec![small.clone(), large.clone(), medium.clone(), own.clone()];
    sorted.sort();
    assert_eq!(ids(&server.get(NODES).await), sorted);
    let by_cpu = [own.clone(), small.clone(), medium.clone(), large.clone()];
    assert_eq!(ids(&server.get(&format!("{NODES}?order_by=available_cpu")).await), by_cpu);
    let by_type = ids(&server.get(&format!("{NODES}?order_by=type")).await);
    assert_eq!(by_type[3], own, "Compute comes before Requester");

    for order in
        ["id", "type", "available_cpu", "available_memory", "available_disk", "available_gpu"]
    {
        for reverse in ["0", "1"] {
            let query = format!("order_by={order}&reverse={reverse}");
            let whole = ids(&server.get(&format!("{NODES}?{query}")).await);
            let (mut paged, mut token) = (Vec::new(), String::new());
            loop {
                let page = server.get(&format!("{NODES}?limit=1&{query}&next_token={token}")).await;
                paged.extend(ids(&page));
                token = text(&page.body["NextToken"]);
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(paged, whole, "{query}");
        }
    }
}

#[tokio::test]
async fn labels_select_nodes() {
    let server = Server::start().await;
    let a = join(&server, "a", 1.0).await.id;
    let b = join(&server, "b", 1.0).await.id;
    for (query, expected) in [
        ("labels=zone%3Da", vec![&a]),
        ("labels=zone+notin+(a),zone", vec![&b]),
        ("labels=!zone", vec![&server.node_id()]),
        ("labels=Operating-System=linux", vec![&server.node_id()]),
    ] {
        let found = ids(&server.get(&format!("{NODES}?{query}")).await);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn an_operator_changes_what_a_node_may_do() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let path = node_path(&node.id, "");
    for (action, field, expected) in [
        ("cordon", "Eligibility", "CORDONED"),
        ("Uncordon", "Eligibility", "ELIGIBLE"),
        ("drain", "Eligibility", "DRAINING"),
        ("uncordon", "Eligibility", "ELIGIBLE"),
        ("reject", "Membership", "REJECTED"),
        ("approve", "Membership", "APPROVED"),
    ] {
        let answer = server.put(&path, &json!({ "action": action, "Message": "by hand" })).await;
        assert_eq!(answer.ok()["Node"][field], expected, "{action}");
        assert_eq!(server.get(&path).await.ok()["Node"][field], expected, "{action}");
    }
    let unknown = server.put(&path, &json!({ "Action": "reboot" })).await;
    unknown
        .refused(400, "InvalidRequest")
        .says("'reboot' is not a node action; known: approve, reject, cordon, uncordon, drain");
}

#[tokio::test]
async fn the_orchestrators_own_record_accepts_no_action() {
    let server = Server::start().await;
    let path = node_path(&server.node_id(), "");
    server.put(&path, &json!({ "Action": "drain" })).await.refused(409, "NodeConflict");
    server.delete(&path).await.refused(409, "NodeConflict");
}

#[tokio::test]
async fn only_a_disconnected_node_can_be_forgotten() {
    let server =
        Server::start_with(|settings| orchestrator::Settings { node_ttl: 2, ..settings }).await;
    let node = FakeNode::join(&server).await;
    let path = node_path(&node.id, "");
    server.delete(&path).await.refused(409, "NodeConflict");
    let begin = std::time::Instant::now();
    loop {
        let answer = server.get(&path).await;
        if answer.ok()["Node"]["Connection"] == "DISCONNECTED" {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", answer.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let forgotten = server.delete(&path).await;
    assert_eq!(forgotten.ok()["Node"]["PeerInfo"]["ID"], node.id);
    server.get(&path).await.refused(404, "NodeNotFound");
    let remaining: Vec<Value> = list(&server.get(NODES).await.ok()["Nodes"]).clone();
    assert_eq!(remaining.len(), 1);
}

#[tokio::test]
async fn a_selector_lists_a_bounded_number_of_values() {
    let server = Server::start().await;
    for list in [JOBS, NODES] {
        let path = |values: usize| {
            let values = vec!["a"; values].join(",");
            format!("{list}?labels=x%20in%20({values})&labels=y%20notin%20(b)")
        };
        server.get(&path(255)).await.ok();
        let refused = server.get(&path(256)).await;
        refused.refused(400, "InvalidQuery").says("labels: more than 256 values");
    }
}

#[tokio::test]
async fn a_node_keeps_its_name() {
    let server = Server::start().await;
    let named = |name: &'static str| move |request: &mut Value| request["Name"] = json!(name);
    let first = FakeNode::join_with(&server, named("build")).await;
    let second = FakeNode::join_with(&server, named("build")).await;
    let name = async |id: &str| text(&server.get(&node_path(id, "")).await.ok()["Node"]["Name"]);
    assert_eq!(name(&first.id).await, "build");
    assert_eq!(name(&second.id).await, format!("build-{}", &second.id[2..6]));
    let names: Vec<_> = list(&server.get(NODES).await.ok()["Nodes"])
        .iter()
        .map(|node| text(&node["Name"]))
        .collect();
    assert!(names.contains(&"orchestrator".to_owned()), "{names:?}");
    for odd in ["a b", "n-0123abcd", &"x".repeat(64)] {
        let mut request = session_request();
        request["Name"] = json!(odd);
        let refused = server.put(&node_path(&fresh_node_id(), "/session"), &request).await;
        refused.refused(400, "InvalidRequest").says("Name");
    }
}
