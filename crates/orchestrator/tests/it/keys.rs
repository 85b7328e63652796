//! `/api/v1/orchestrator/keys`: keys of the cluster, and how they are replaced.

use std::time::Duration;

use pki::NodeKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::joining::{Node, Protected};
use crate::server::{PATIENCE, Server, list, text};

crate::covers! {
    "listKeys" => keys_are_replaced_and_values_stay;
    "rotateKey" => keys_are_replaced_and_values_stay;
}

const KEYS: &str = "/api/v1/orchestrator/keys";
const SECRET: &str = "/api/v1/orchestrator/secrets/db";

async fn keys(protected: &Protected, purpose: &str) -> Vec<Value> {
    let mut keys = list(&protected.ask(Method::GET, KEYS, &Value::Null).await.ok()["Keys"]).clone();
    keys.retain(|key| key["Purpose"] == purpose);
    keys
}

async fn rotate(protected: &Protected, purpose: &str) {
    protected.ask(Method::POST, KEYS, &json!({ "Purpose": purpose })).await.ok();
}

/// Waits until one key of this purpose is left, and returns its ID.
async fn only(protected: &Protected, purpose: &str) -> String {
    let left = async {
        loop {
            match &keys(protected, purpose).await[..] {
                [key] => return text(&key["ID"]),
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, left).await.expect("one key is left")
}

#[tokio::test]
async fn keys_are_replaced_and_values_stay() {
    let mut protected = Protected::start().await;
    let refused = protected.ask(Method::POST, KEYS, &json!({ "Purpose": "secrets" })).await;
    refused.refused(409, "Conflict").says("no such key yet");
    let body = json!({ "Value": "hidden" });
    protected.ask(Method::PUT, SECRET, &body).await.ok();
    let before = only(&protected, "secrets").await;
    rotate(&protected, "secrets").await;
    let after = only(&protected, "secrets").await;
    assert_ne!(after, before);

    let before = only(&protected, "cluster").await;
    rotate(&protected, "cluster").await;
    let cluster = only(&protected, "cluster").await;
    assert_ne!(cluster, before);
    let data = protected.server().data_dir();
    assert!(
        data.join(format!("cluster.key.old-{before}")).exists()
            && !data.join("cluster.key.next").exists()
    );
    protected.restart().await;
    assert_eq!(only(&protected, "cluster").await, cluster);
    assert_eq!(only(&protected, "secrets").await, after);
    protected.ask(Method::PUT, SECRET, &body).await.ok();
    assert_eq!(only(&protected, "secrets").await, after);

    let listed = protected.ask(Method::GET, "/api/v1/orchestrator/audit", &Value::Null).await;
    let done = list(&listed.ok()["Records"]).iter();
    let done: Vec<_> = done.filter(|record| record["Operation"] == "rotateKey").collect();
    let objects: Vec<_> = done.iter().map(|record| text(&record["Object"])).collect();
    assert_eq!(objects, ["secrets", "cluster"]);
}

#[tokio::test]
async fn without_tls_there_is_no_ca_to_replace() {
    let server = Server::start().await;
    let body = json!({ "Purpose": "ca" });
    let request = server.request(Method::POST, KEYS).json(&body);
    let refused = crate::server::answer(request).await;
    refused.refused(409, "Conflict").says("serves plain HTTP");
    let body = json!({ "Purpose": "cluster" });
    let request = server.request(Method::POST, KEYS).json(&body);
    crate::server::answer(request).await.refused(409, "Conflict").says("no such key yet");
    let body = json!({ "Purpose": "other" });
    let request = server.request(Method::POST, KEYS).json(&body);
    assert_eq!(crate::server::answer(request).await.status, 400);
}

#[tokio::test]
async fn a_cluster_key_that_cannot_be_written_is_said() {
    let protected = Protected::start().await;
    let next = protected.server().data_dir().join("cluster.key.next");
    std::fs::write(&next, "half").unwrap();
    let body = json!({ "Purpose": "cluster" });
    let refused = protected.ask(Method::POST, KEYS, &body).await;
    refused.refused(409, "Conflict").says("cluster.key.next is not a cluster key");
    std::fs::remove_file(&next).unwrap();
    std::fs::create_dir(&next).unwrap();
    let refused = protected.ask(Method::POST, KEYS, &body).await;
    refused.refused(409, "Conflict").says("cluster.key.next: ");
}

#[tokio::test]
async fn nodes_of_the_former_ca_are_served_until_its_last_certificate_has_expired() {
    let protected = Protected::start_with(|mut settings| {
        settings.tls.node_lifetime = 3;
        settings
    })
    .await;
    let token = protected.token(json!({})).await;
    let key = NodeKey::make().unwrap();
    let certified = protected.enrol(&token, &key, None).await.ok().clone();
    let former = only(&protected, "ca").await;
    assert_eq!(keys(&protected, "ca").await[0]["Nodes"], 1);
    rotate(&protected, "ca").await;
    let now = keys(&protected, "ca").await;
    let seen: Vec<_> = now.iter().map(|it| (text(&it["State"]), it["Nodes"].clone())).collect();
    let expected = [("active".to_owned(), json!(0)), ("retiring".to_owned(), json!(1))];
    assert_eq!(seen, expected);
    assert_eq!(now[1]["ID"], former.as_str());
    assert!(text(&now[0]["LastExpiry"]).is_empty() && !text(&now[1]["LastExpiry"]).is_empty());

    // Neither the node nor its trust has changed.
    let reconnected = |certified: &Value| -> Node { protected.holder(again(&key), certified) };
    let node = reconnected(&certified);
    node.session().await.ok();
    let renewed = node.renew(&key).await.ok().clone();
    assert_ne!(renewed["CA"], certified["CA"]);
    reconnected(&renewed).session().await.ok();

    let current = only(&protected, "ca").await;
    assert_ne!(current, former);
    let path = format!("/api/v1/orchestrator/nodes/{}/certificate", node.id);
    let body = json!({ "CSR": key.request().unwrap() });
    reconnected(&renewed).ask(Method::POST, &path, &body).await.ok();
    let file = std::fs::read_to_string(protected.server().data_dir().join("ca.crt")).unwrap();
    assert_eq!(file, text(&renewed["CA"]));
    // What trusts only the former CA does not reach it any more.
    assert!(reconnected(&certified).request(Method::GET, "/livez").send().await.is_err());
}

#[tokio::test]
async fn a_former_ca_stays_for_as_long_as_a_node_has_a_certificate_of_it() {
    let mut protected = Protected::start_with(|mut settings| {
        settings.tls.node_lifetime = 3;
        settings
    })
    .await;
    let token = protected.token(json!({})).await;
    let key = NodeKey::make().unwrap();
    let certified = protected.enrol(&token, &key, None).await.ok().clone();
    for _ in 1..pki::MAX_AUTHORITIES {
        rotate(&protected, "ca").await;
    }
    let refused = protected.ask(Method::POST, KEYS, &json!({ "Purpose": "ca" })).await;
    refused.refused(409, "Conflict").says("CAs are trusted already");
    // Its certificate has expired, and may still be renewed.
    tokio::time::sleep(Duration::from_secs(4)).await;
    protected.restart().await;
    assert_eq!(keys(&protected, "ca").await.len(), pki::MAX_AUTHORITIES);
    let renewed = protected.holder(again(&key), &certified).renew(&key).await.ok().clone();
    protected.holder(again(&key), &renewed).session().await.ok();
}

fn again(key: &NodeKey) -> NodeKey {
    NodeKey::load(&key.private_key()).expect("a key")
}
