//! What ends with a node that is rejected.

use pki::NodeKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::joining::{Node, Protected};
use crate::node::node_path;
use crate::server::{Answer, text};

const NODE_TOKENS: &str = "/api/v1/orchestrator/nodes/tokens";

async fn act(protected: &Protected, node: &str, action: &str) -> Answer {
    protected.ask(Method::PUT, &node_path(node, ""), &json!({ "Action": action })).await
}

/// The IDs of the join tokens that a rejection revoked.
fn revoked(answer: &Answer) -> Vec<String> {
    let tokens = answer.ok()["RevokedNodeTokens"].as_array().cloned().unwrap_or_default();
    tokens.iter().map(|token| text(&token["ID"])).collect()
}

fn id_of(token: &str) -> String {
    token.split('.').nth(1).expect("an ID").to_owned()
}

async fn rejoin(protected: &Protected, token: &str, node: &Node) -> Answer {
    protected.enrol(token, &node.key, None).await
}

#[tokio::test]
async fn neither_key_nor_token_of_a_rejected_node_lets_it_in_again() {
    let protected = Protected::start().await;
    let token = protected.token(json!({ "Uses": 5, "Labels": { "pool": "ci" } })).await;
    let node = protected.node(&token).await;
    let neighbour = protected.node(&token).await;
    node.session().await.ok();
    let rejected = act(&protected, &node.id, "reject").await;
    assert_eq!(rejected.ok()["Node"]["Membership"], "REJECTED");
    assert_eq!(revoked(&rejected), [id_of(&token)]);
    assert_eq!(rejected.ok()["RevokedNodeTokens"][0]["UsesLeft"], 3);

    // With the token it came with, its own key or another one.
    rejoin(&protected, &token, &node).await.refused(403, "Forbidden");
    let another = NodeKey::make().unwrap();
    protected.enrol(&token, &another, None).await.refused(403, "Forbidden");
    // With another token, for any node or for this one.
    let plain = protected.token(json!({})).await;
    let refused = rejoin(&protected, &plain, &node).await;
    refused.refused(403, "Forbidden").says("was rejected together with node");
    assert!(text(&refused.body["Hint"]).contains("identity.json"), "{}", refused.text);
    let bound = protected.token(json!({ "NodeID": node.id })).await;
    rejoin(&protected, &bound, &node).await.refused(403, "Forbidden");
    for answer in [node.session().await, node.renew(&node.key).await] {
        answer.refused(403, "Forbidden").says("was revoked");
    }
    // The neighbour that came with the same token is not concerned.
    neighbour.session().await.ok();

    // A machine that is good again comes back with another key.
    act(&protected, &node.id, "approve").await.ok();
    rejoin(&protected, &bound, &node).await.refused(403, "Forbidden");
    let certified = protected.enrol(&bound, &another, Some(&node.id)).await;
    protected.holder(another, certified.ok()).session().await.ok();
}

#[tokio::test]
async fn a_token_that_would_give_a_rejected_node_its_id_back_ends_too() {
    let protected = Protected::start().await;
    let token = protected.token(json!({})).await;
    let node = protected.node(&token).await;
    node.session().await.ok();
    let bound = protected.token(json!({ "NodeID": node.id })).await;
    let foreign = protected.token(json!({ "Uses": 2 })).await;
    let mut ended = revoked(&act(&protected, &node.id, "reject").await);
    ended.sort();
    let mut expected = [id_of(&token), id_of(&bound)];
    expected.sort();
    assert_eq!(ended, expected);
    let key = NodeKey::make().unwrap();
    protected.enrol(&bound, &key, Some(&node.id)).await.refused(403, "Forbidden");
    let left = protected.ask(Method::GET, NODE_TOKENS, &Value::Null).await;
    let left: Vec<_> = left.ok()["NodeTokens"].as_array().unwrap().iter().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["ID"], id_of(&foreign));
}

/// The key outlasts a restart and the node's record, and does so for a node that never came.
#[tokio::test]
async fn a_rejected_key_is_remembered() {
    let mut protected = Protected::start().await;
    let node = protected.node(&protected.token(json!({})).await).await;
    let rejected = act(&protected, &node.id, "reject").await;
    assert_eq!(revoked(&rejected).len(), 1);
    protected.restart().await;
    let other = protected.token(json!({})).await;
    rejoin(&protected, &other, &node).await.refused(403, "Forbidden").says("was rejected");

    let seen = protected.node(&protected.token(json!({})).await).await;
    seen.session().await.ok();
    act(&protected, &seen.id, "reject").await.ok();
    protected.ask(Method::DELETE, &format!("{}?now", node_path(&seen.id, "")), &Value::Null).await;
    rejoin(&protected, &other, &seen).await.refused(403, "Forbidden").says("was rejected");
}

/// Whatever a renewal or a join on its way does, the rejection takes effect.
#[tokio::test]
async fn a_rejection_wins_over_renewals_and_joins_at_the_same_time() {
    let protected = Protected::start().await;
    for _ in 0..8 {
        let token = protected.token(json!({ "Uses": 20 })).await;
        let node = protected.node(&token).await;
        node.session().await.ok();
        let renewals = (0..6).map(|_| node.renew(&node.key));
        let rejoins = (0..6).map(|_| rejoin(&protected, &token, &node));
        let (_, _, rejected) = tokio::join!(
            futures_util::future::join_all(renewals),
            futures_util::future::join_all(rejoins),
            act(&protected, &node.id, "reject"),
        );
        assert_eq!(revoked(&rejected), [id_of(&token)]);
        node.renew(&node.key).await.refused(403, "Forbidden");
        node.session().await.refused(403, "Forbidden");
        let other = protected.token(json!({})).await;
        rejoin(&protected, &other, &node).await.refused(403, "Forbidden");
    }
}
