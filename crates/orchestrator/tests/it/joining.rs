//! `/api/v1/orchestrator/nodes/tokens`, `/join` and `/:id/certificate`: nodes with certificates.

use std::time::{Duration, Instant};

use orchestrator::Settings;
use orchestrator::settings::Auth;
use pki::NodeKey;
use reqwest::Method;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

use crate::lateness::Lateness;
use crate::node::{node_path, session_request};
use crate::server::{Answer, PATIENCE, Server, answer, text};

crate::covers! {
    "listNodeTokens" => a_join_token_is_listed_without_its_secret_and_revoked;
    "createNodeToken" => a_join_token_is_listed_without_its_secret_and_revoked;
    "revokeNodeToken" => a_join_token_is_listed_without_its_secret_and_revoked;
    "enrolNode" => a_token_makes_one_node_and_says_what_it_is;
    "renewCertificate" => an_expired_certificate_may_only_be_renewed;
}

const TOKENS: &str = "/api/v1/orchestrator/nodes/tokens";
const JOIN: &str = "/api/v1/orchestrator/nodes/join";

/// An orchestrator whose nodes need certificates.
pub(crate) struct Protected {
    server: Server,
    admin: String,
}

/// A node that has joined.
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) key: NodeKey,
    client: reqwest::Client,
    url: String,
}

// === impl Protected ===

impl Protected {
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let server =
            Server::start_with(|settings| change(Settings { auth: Auth::Required, ..settings }))
                .await;
        let admin = std::fs::read_to_string(server.data_dir().join("admin.token"));
        Self { admin: admin.expect("the first token").trim().to_owned(), server }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) async fn restart(&mut self) {
        self.server.restart().await;
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.server.request(method, path).bearer_auth(&self.admin);
        answer(if body.is_null() { request } else { request.json(body) }).await
    }

    /// The token of an operator.
    pub(crate) async fn operator(&self) -> String {
        let body = json!({ "Name": "operator", "Role": "operator" });
        let created = self.ask(Method::POST, "/api/v1/orchestrator/tokens", &body).await;
        text(&created.ok()["Secret"])
    }

    /// As the holder of this token.
    pub(crate) async fn ask_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Answer {
        answer(self.server.request(method, path).bearer_auth(token).json(body)).await
    }

    /// The secret of a new join token.
    pub(crate) async fn token(&self, body: Value) -> String {
        text(&self.ask(Method::POST, TOKENS, &body).await.ok()["Secret"])
    }

    pub(crate) async fn enrol(&self, token: &str, key: &NodeKey, bound: Option<&str>) -> Answer {
        let csr = key.request().expect("a request");
        let mut body = json!({ "Token": token, "CSR": csr });
        if let Some(id) = bound {
            body["NodeID"] = json!(id);
        }
        answer(self.server.request(Method::POST, JOIN).json(&body)).await
    }

    pub(crate) async fn node(&self, token: &str) -> Node {
        let key = NodeKey::make().expect("a key");
        let certified = self.enrol(token, &key, None).await;
        self.holder(key, certified.ok())
    }

    pub(crate) fn holder(&self, key: NodeKey, certified: &Value) -> Node {
        let client = client(certified, &key);
        Node { id: text(&certified["NodeID"]), key, client, url: self.server.url() }
    }
}

/// A client that presents this certificate as an agent does.
fn client(certified: &Value, key: &NodeKey) -> reqwest::Client {
    let mut roots = RootCertStore::empty();
    let pem = text(&certified["CA"]);
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("the CA")).expect("a CA");
    let pem = text(&certified["Certificate"]);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key.private_key().as_bytes()).expect("a key");
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain.expect("certificates"), key)
        .expect("a certificate and its key");
    config.alpn_protocols = vec![b"jobs-agent/1".to_vec()];
    let builder = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(config);
    builder.build().expect("a client")
}

// === impl Node ===

impl Node {
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).timeout(PATIENCE)
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.request(method, path);
        answer(if body.is_null() { request } else { request.json(body) }).await
    }

    pub(crate) async fn session(&self) -> Answer {
        self.ask(Method::PUT, &node_path(&self.id, "/session"), &session_request()).await
    }

    pub(crate) async fn renew(&self, key: &NodeKey) -> Answer {
        let body = json!({ "CSR": key.request().expect("a request") });
        self.ask(Method::POST, &node_path(&self.id, "/certificate"), &body).await
    }
}

#[tokio::test]
async fn a_join_token_is_listed_without_its_secret_and_revoked() {
    let protected = Protected::start().await;
    let body = json!({ "Labels": { "zone": "a" }, "Uses": 2, "TTLSeconds": 60 });
    let created = protected.ask(Method::POST, TOKENS, &body).await;
    let (secret, token) = (text(&created.ok()["Secret"]), &created.ok()["NodeToken"]);
    let id = text(&token["ID"]);
    assert!(secret.starts_with(&format!("jn1.{id}.")), "{secret}");
    assert_eq!((&token["UsesLeft"], &token["Labels"]), (&json!(2), &json!({ "zone": "a" })));
    assert_eq!(
        protected.ask(Method::GET, TOKENS, &Value::Null).await.ok()["NodeTokens"],
        json!([token])
    );

    let path = format!("{TOKENS}/{id}");
    let revoked = protected.ask(Method::DELETE, &path, &Value::Null).await;
    assert_eq!(revoked.ok()["NodeToken"], *token);
    protected.ask(Method::DELETE, &path, &Value::Null).await.refused(404, "TokenNotFound");
    let key = NodeKey::make().unwrap();
    let refused = protected.enrol(&secret, &key, None).await;
    refused.refused(403, "Forbidden").says("the join token is not valid");
}

#[tokio::test]
async fn what_is_wrong_with_a_join_token_is_said() {
    let protected = Protected::start().await;
    let own = protected.server.node_id();
    for (body, problem) in [
        (json!({ "TTLSeconds": 0 }), "TTLSeconds: must be from 1 to"),
        (json!({ "Uses": 0 }), "Uses: must be from 1 to"),
        (json!({ "Labels": { "": "x" } }), "Labels: '': must have a key"),
        (json!({ "MaxCapacity": { "CPU": -1.0 } }), "MaxCapacity.CPU: must be a number of cores"),
        (
            json!({ "NodeID": "n-00000000-0000-4000-8000-000000000000", "Uses": 2 }),
            "Uses: must be 1 for a node",
        ),
    ] {
        let problems = protected.ask(Method::POST, TOKENS, &body).await.problems();
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
    let refused = protected.ask(Method::POST, TOKENS, &json!({ "NodeID": own })).await;
    refused.refused(409, "NodeConflict");
    let token = protected.token(json!({})).await;
    let body = json!({ "Token": token, "CSR": "x" });
    let problems = protected.ask(Method::POST, JOIN, &body).await.problems();
    assert!(problems[0].starts_with("CSR: it is not a certificate request"), "{problems:?}");
}

#[tokio::test]
async fn a_token_makes_one_node_and_says_what_it_is() {
    let protected = Protected::start().await;
    let body = json!({
        "Labels": { "zone": "operators" },
        "MaxCapacity": { "CPU": 2.0, "Memory": 1_000_000_000_u64 },
    });
    let token = protected.token(body).await;
    let node = protected.node(&token).await;
    node.session().await.ok();

    // The operator's words win over the node's own.
    let path = node_path(&node.id, "");
    let record = protected.ask(Method::GET, &path, &Value::Null).await.ok()["Node"].clone();
    assert_eq!(record["Labels"]["zone"], "operators");
    let capacity = &record["ComputeNodeInfo"]["MaxCapacity"];
    assert_eq!((&capacity["CPU"], &capacity["Memory"]), (&json!(2.0), &json!(1_000_000_000)));
    assert_eq!(capacity["Disk"], json!(100_000_000_000_u64));

    // Its answer may be lost, so the same key asks again; another one does not get in.
    let again = protected.enrol(&token, &node.key, None).await;
    assert_eq!(text(&again.ok()["NodeID"]), node.id);
    let other = NodeKey::make().unwrap();
    let refused = protected.enrol(&token, &other, None).await;
    refused.refused(403, "Forbidden").says("is used up");
    assert!(text(&refused.body["Hint"]).contains("jobctl node token"), "{}", refused.text);
    let forged = token.replace(token.split('.').nth(2).unwrap(), &"A".repeat(43));
    protected.enrol(&forged, &other, None).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn an_expired_token_is_refused() {
    let protected = Protected::start().await;
    let token = protected.token(json!({ "TTLSeconds": 1 })).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let refused = protected.enrol(&token, &NodeKey::make().unwrap(), None).await;
    refused.refused(403, "Forbidden").says("the join token has expired");
}

#[tokio::test]
async fn many_nodes_join_with_one_token_at_once_and_none_too_many() {
    let protected = Protected::start().await;
    let token = protected.token(json!({ "Uses": 5 })).await;
    let keys: Vec<_> = (0..8).map(|_| NodeKey::make().unwrap()).collect();
    let joins = keys.iter().map(|key| protected.enrol(&token, key, None));
    let answers = futures_util::future::join_all(joins).await;
    let joined: std::collections::BTreeSet<_> = answers
        .iter()
        .filter(|answer| answer.status == 200)
        .map(|answer| text(&answer.body["NodeID"]))
        .collect();
    assert_eq!(joined.len(), 5, "{answers:?}");
    assert!(answers.iter().all(|answer| [200, 403].contains(&answer.status.as_u16())));
}

#[tokio::test]
async fn a_file_always_has_a_token_for_one_more_node() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("join");
    let mut protected = Protected::start_with(|mut settings| {
        settings.join_token_file.clone_from(&file);
        settings
    })
    .await;
    let read = || std::fs::read_to_string(&file).expect("the file").trim().to_owned();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let first = read();
    protected.server.restart().await;
    assert_eq!(read(), first, "a token that is good stays");
    let node = protected.node(&first).await;
    let replaced = async {
        while read() == first {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, replaced).await.expect("another token");
    assert_ne!(protected.node(&read()).await.id, node.id);
}

#[tokio::test]
async fn a_node_drains_itself_and_undoes_no_decision_of_an_operator() {
    let protected = Protected::start().await;
    let node = protected.node(&protected.token(json!({})).await).await;
    node.session().await.ok();
    let path = node_path(&node.id, "");
    let act = |action: &str| {
        let body = json!({ "Action": action });
        let (node, path) = (&node, &path);
        async move { node.ask(Method::PUT, path, &body).await }
    };
    act("drain").await.ok();
    act("uncordon").await.ok();
    for action in ["approve", "reject", "cordon"] {
        act(action).await.refused(403, "Forbidden");
    }
    protected.ask(Method::PUT, &path, &json!({ "Action": "cordon" })).await.ok();
    act("uncordon").await.refused(403, "Forbidden");
}

#[tokio::test]
async fn an_expired_certificate_may_only_be_renewed() {
    let protected = Protected::start_with(|mut settings| {
        settings.tls.node_lifetime = 3;
        settings
    })
    .await;
    let mut node = protected.node(&protected.token(json!({})).await).await;
    node.session().await.ok();
    let another = NodeKey::make().unwrap();
    let problems = node.renew(&another).await.problems();
    assert!(problems[0].starts_with("CSR: must be for the key of the certificate"), "{problems:?}");

    let deadline = tokio::time::Instant::now() + PATIENCE;
    let refused = loop {
        let answer = node.session().await;
        if answer.status != 200 || tokio::time::Instant::now() > deadline {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    refused.refused(401, "Unauthenticated").says("has expired");
    let renewed = node.renew(&node.key).await;
    node.client = client(renewed.ok(), &node.key);
    node.session().await.ok();

    let path = node_path(&node.id, "/certificate");
    answer(protected.server.request(Method::POST, &path)).await.refused(401, "Unauthenticated");
}

#[tokio::test]
async fn a_rejected_node_is_cut_off_within_a_second() {
    let protected = Protected::start().await;
    let node = protected.node(&protected.token(json!({})).await).await;
    let session = node.session().await.ok()["Session"].clone();
    let path = node_path(&node.id, &format!("/assignments?session={session}"));
    let mut stream = node.request(Method::GET, &path).send().await.expect("a stream");
    assert!(stream.chunk().await.expect("a snapshot").is_some());

    let reject = json!({ "Action": "reject", "Message": "stolen" });
    protected.ask(Method::PUT, &node_path(&node.id, ""), &reject).await.ok();
    let (machine, rejected) = (Lateness::start(), Instant::now());
    let ends = async { while stream.chunk().await.is_ok_and(|chunk| chunk.is_some()) {} };
    tokio::time::timeout(PATIENCE, ends).await.expect("the stream ends");
    let (took, late) = (rejected.elapsed(), machine.longest());
    assert!(took < Duration::from_secs(1) + late, "{took:?}, of which {late:?} idle");
    for answer in [node.session().await, node.renew(&node.key).await] {
        answer.refused(403, "Forbidden").says("was revoked");
    }
}

#[tokio::test]
async fn a_known_node_gets_its_id_back_and_its_old_key_is_refused() {
    let protected = Protected::start().await;
    let node = protected.node(&protected.token(json!({})).await).await;
    node.session().await.ok();

    // One with executions cannot become another node.
    let (key, plain) = (NodeKey::make().unwrap(), protected.token(json!({})).await);
    let refused = protected.enrol(&plain, &key, Some(&node.id)).await;
    refused.refused(409, "Conflict").says("does not give it this ID back");
    assert!(
        text(&refused.body["Hint"]).contains(&format!("--for {}", node.id)),
        "{}",
        refused.text
    );

    let token = protected.token(json!({ "NodeID": node.id })).await;
    let certified = protected.enrol(&token, &key, Some(&node.id)).await;
    let back = protected.holder(key, certified.ok());
    assert_eq!(back.id, node.id);
    back.session().await.ok();
    node.session().await.refused(403, "Forbidden").says("another key has taken its place");
}

#[tokio::test]
async fn an_open_listener_has_no_certificates_to_give() {
    let server = Server::start().await;
    let create = server.request(Method::POST, TOKENS).json(&json!({}));
    answer(create).await.refused(409, "Conflict").says("without certificates");
    let key = NodeKey::make().unwrap();
    let body = json!({ "Token": "jn1", "CSR": key.request().unwrap() });
    let join = server.request(Method::POST, JOIN).json(&body);
    answer(join).await.refused(409, "Conflict");
}
