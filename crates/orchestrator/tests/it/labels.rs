//! `/api/v1/orchestrator/nodes/:id/labels`: labels that operators give, and what they decide.

use reqwest::Method;
use serde_json::{Value, json};

use crate::joining::Protected;
use crate::node::{node_path, session_request};
use crate::server::{JOBS, Server, text};

/// Join tokens.
const NODE_TOKENS: &str = "/api/v1/orchestrator/nodes/tokens";

crate::covers! {
    "labelNode" => an_operator_labels_a_node_that_has_a_certificate;
}

#[tokio::test]
async fn an_operator_labels_a_node_that_has_a_certificate() {
    let protected = Protected::start().await;
    let token = protected.token(json!({ "Labels": { "zone": "a" } })).await;
    let node = protected.node(&token).await;
    let claims = |labels: Value| {
        let mut request = session_request();
        request["Labels"] = labels;
        request
    };
    let join = async |labels: Value| {
        let path = node_path(&node.id, "/session");
        node.ask(Method::PUT, &path, &claims(labels)).await.ok().clone()
    };
    let labels = async || {
        let path = node_path(&node.id, "");
        protected.ask(Method::GET, &path, &Value::Null).await.ok()["Node"]["Labels"].clone()
    };
    let claimed = json!({
        "disk": "ssd", "operator/pool": "prod", "admin/pool": "prod", "admin/": "x", "zone": "z",
    });
    join(claimed).await;
    let expected = json!({ "disk": "ssd", "zone": "a", "operator/zone": "a", "admin/zone": "a" });
    assert_eq!(labels().await, expected);

    let path = node_path(&node.id, "/labels");
    protected.ask(Method::PUT, &path, &json!({ "Labels": { "pool": "b" } })).await.ok();
    let given = json!({ "disk": "ssd", "pool": "b", "operator/pool": "b", "admin/pool": "b" });
    assert_eq!(labels().await, given);
    join(json!({ "pool": "prod", "zone": "z" })).await;
    let given = json!({ "pool": "b", "operator/pool": "b", "admin/pool": "b", "zone": "z" });
    assert_eq!(labels().await, given);

    for (labels, problem) in [
        (json!({ "": "x" }), "Labels: '': must have a key"),
        (json!({ "operator/pool": "x" }), "Labels: 'operator/pool': the service itself adds"),
        (json!({ "admin/pool": "x" }), "Labels: 'admin/pool': the service itself adds"),
        (json!({ "po\u{202e}ol": "x" }), "Labels: 'po"),
    ] {
        let refused = protected.ask(Method::PUT, &path, &json!({ "Labels": labels })).await;
        assert!(refused.problems()[0].starts_with(problem), "{}", refused.text);
    }
    // On an open listener it is unknown which node it is.
    let open = Server::start().await;
    let plain = crate::node::FakeNode::join(&open).await;
    let path = node_path(&plain.id, "/labels");
    open.put(&path, &json!({ "Labels": { "pool": "b" } })).await.refused(409, "Conflict");
}

#[tokio::test]
async fn a_node_that_claims_every_label_gets_no_work_of_a_namespace_that_excludes_it() {
    let protected = Protected::start().await;
    let namespace = json!({ "Nodes": "pool=ci" });
    let path = "/api/v1/orchestrator/namespaces/ci";
    assert_eq!(
        protected.ask(Method::PUT, path, &namespace).await.ok()["Namespace"]["Nodes"],
        "pool=ci"
    );
    let token = protected.token(json!({ "Labels": { "zone": "a" } })).await;
    let node = protected.node(&token).await;
    let mut request = session_request();
    request["Labels"] = json!({ "pool": "ci", "operator/pool": "ci", "admin/pool": "ci" });
    request["ComputeNodeInfo"]["MaxCapacity"]["CPU"] = json!(100_000.0);
    node.ask(Method::PUT, &node_path(&node.id, "/session"), &request).await.ok();

    let job = crate::server::job_with(json!({ "Namespace": "ci" }));
    let created = protected.ask(Method::PUT, JOBS, &json!({ "Job": job })).await;
    let id = text(&created.ok()["JobID"]);
    let described = protected.ask(Method::GET, &format!("{JOBS}/{id}"), &Value::Null).await;
    let job = &described.ok()["Job"];
    assert_eq!(job["State"]["StateType"], "Queued", "{}", described.text);
    let expected = json!([{ "Key": "admin/pool", "Operator": "in", "Values": ["ci"] }]);
    assert_eq!(job["Constraints"], expected);

    // An operator decides nothing about it, neither with a label nor with a token, and not in advance.
    let operator = protected.operator().await;
    let labels_path = node_path(&node.id, "/labels");
    let labels = json!({ "Labels": { "pool": "ci" } });
    protected
        .ask_as(
            &operator,
            Method::PUT,
            &labels_path,
            &json!({ "Labels": { "pool": "ci", "zone": "a" } }),
        )
        .await
        .ok();
    let token = protected.ask_as(&operator, Method::POST, NODE_TOKENS, &labels).await;
    assert_eq!(token.ok()["NodeToken"]["AdminLabels"], json!([]));
    let of_operator = protected.node(&text(&token.ok()["Secret"])).await;
    of_operator.session().await.ok();
    let described = protected.ask(Method::GET, &format!("{JOBS}/{id}"), &Value::Null).await;
    assert_eq!(described.ok()["Job"]["State"]["StateType"], "Queued", "{}", described.text);

    // Once an admin says so, it gets the work.
    protected.ask(Method::PUT, &labels_path, &labels).await.ok();
    let executions = format!("{JOBS}/{id}/executions");
    let executions = protected.ask(Method::GET, &executions, &Value::Null).await;
    assert_eq!(executions.ok()["Executions"][0]["NodeID"], node.id, "{}", executions.text);

    // The operator keeps the label, and cannot take it away or change it.
    for kept in [json!({ "pool": "ci", "rack": "1" }), json!({ "pool": "ci" })] {
        let body = json!({ "Labels": kept });
        let answer = protected.ask_as(&operator, Method::PUT, &labels_path, &body).await;
        assert_eq!(answer.ok()["Node"]["Labels"]["admin/pool"], "ci");
    }
    for changed in [json!({}), json!({ "pool": "prod" }), json!({ "rack": "1" })] {
        let body = json!({ "Labels": changed });
        let answer = protected.ask_as(&operator, Method::PUT, &labels_path, &body).await;
        answer.refused(403, "Forbidden").says("an admin set the labels pool");
    }

    for nodes in ["pool in", "!tainted", "pool!=prod", "pool notin (a,b),!x"] {
        let refused = protected.ask(Method::PUT, path, &json!({ "Nodes": nodes })).await;
        assert!(refused.problems()[0].starts_with("Nodes: "), "{nodes}: {}", refused.text);
    }
    for nodes in ["admin/pool", "operator/pool=ci,!tainted", ""] {
        protected.ask(Method::PUT, path, &json!({ "Nodes": nodes })).await.ok();
    }
}

#[tokio::test]
async fn a_node_that_never_came_can_be_rejected() {
    let protected = Protected::start().await;
    let token = protected.token(json!({})).await;
    let node = protected.node(&token).await;
    let reject = json!({ "Action": "reject" });
    let rejected = protected.ask(Method::PUT, &node_path(&node.id, ""), &reject).await;
    assert_eq!(rejected.ok()["Node"]["Membership"], "REJECTED");
    let refused = node.session().await;
    refused.refused(403, "Forbidden").says("was revoked");
    protected
        .ask(Method::PUT, &node_path(&node.id, ""), &reject)
        .await
        .refused(404, "NodeNotFound");
}
