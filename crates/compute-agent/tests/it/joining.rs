//! The first connection of a new node: to the right orchestrator, or nothing is sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_types::access::Identity;
use api_types::engine::EngineType;
use api_types::joining::{JoinToken, NodeCertificate, RenewRequest};
use api_types::{ApiError, Code, NodeId, Timestamp, routes};
use axum::body::{Body, to_bytes};
use axum::response::{IntoResponse, Response};
use compute_agent::{Agent, EnrolError, Settings, StartError};
use daemon::http::{Listening, RequestContext, Tls};
use http::StatusCode;
use http_body_util::BodyExt;
use pki::{Authority, NodeRequest, Peer, server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::node::eventually;

const NODE: &str = "n-00000000-0000-0000-0000-000000000007";
const GOOD: &str = "good";

/// The path of a request, and the node that its certificate names.
type Request = (String, Option<NodeId>);

/// Certifies who has the good token, and refuses everybody else.
struct Certifier {
    authority: Arc<Authority>,
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Tokens whose holders it was asked about.
    presented: Arc<Mutex<Vec<String>>>,
    _stop: tokio_util::sync::DropGuard,
}

fn refusal(code: Code, message: &str) -> Response {
    let error = ApiError::new(code, message);
    let status = StatusCode::from_u16(error.status).expect("a status");
    (status, serde_json::to_string(&error).expect("plain data")).into_response()
}

fn certified(authority: &Authority, csr: &str, lifetime_seconds: u64) -> Response {
    let node_id = NODE.parse().expect("an ID");
    let request = NodeRequest::read(csr).expect("a request");
    let certificate =
        authority.sign_node(&request, node_id, Timestamp(i64::MAX)).expect("a certificate");
    let ca = authority.certificate().to_owned();
    let answer = NodeCertificate { node_id, certificate, ca, lifetime_seconds };
    Body::from(serde_json::to_vec(&answer).expect("plain data")).into_response()
}

/// Tokens are named by their role, after the prefix.
fn identity(bearer: &str) -> Response {
    let role = bearer.rsplit('_').next().unwrap_or_default();
    let Ok(role) = role.parse() else {
        return refusal(Code::Unauthenticated, "it is not valid");
    };
    let identity = Identity {
        name: "it".to_owned(),
        role,
        namespaces: Vec::new(),
        token_id: String::new(),
        expire_time: String::new(),
    };
    Body::from(serde_json::to_vec(&identity).expect("plain data")).into_response()
}

impl Certifier {
    async fn start(lifetime_seconds: u64) -> Self {
        let authority = Arc::new(Authority::make().expect("a CA"));
        let id = "n-00000000-0000-0000-0000-000000000001".parse().expect("an ID");
        let own = authority.issue_server(id, &["127.0.0.1".to_owned()]).expect("a certificate");
        let agents = server::for_agents([authority.public()], &own).expect("a configuration");
        let callers = server::for_callers(&own).expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let url = format!("https://{}", listener.local_addr().expect("a bound socket"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stopping = CancellationToken::new();
        let tls = Some(Arc::new(Tls::new(agents, callers)));
        let listening = Listening::new(listener, 16, tls);
        let presented = Arc::new(Mutex::new(Vec::new()));
        let (signer, seen) = (Arc::clone(&authority), Arc::clone(&requests));
        let tokens = Arc::clone(&presented);
        let answer = move |request: http::Request<daemon::http::RequestBody>| {
            let (signer, seen) = (Arc::clone(&signer), Arc::clone(&seen));
            let tokens = Arc::clone(&tokens);
            async move {
                let (parts, body) = request.into_parts();
                let shown = RequestContext::from_extensions(&parts.extensions)
                    .and_then(|context| context.certificate.as_ref());
                let node = shown.map(|shown| Peer::read(&shown.0).expect("a node's").node);
                let path = parts.uri.path().to_owned();
                if path == routes::IDENTITY {
                    let bearer = parts.headers.get("authorization").map(|it| it.to_str());
                    let bearer = bearer.and_then(Result::ok).unwrap_or_default();
                    tokens.lock().expect("no panic").push(bearer.to_owned());
                    return identity(bearer);
                }
                seen.lock().expect("no panic").push((path.clone(), node));
                let body = Body::new(body.map_err(axum::Error::new));
                let body = to_bytes(body, 1 << 20).await.expect("a body");
                if path == routes::NODE_JOIN {
                    let asked: api_types::joining::EnrolRequest =
                        serde_json::from_slice(&body).expect("a request");
                    return match asked.token.contains(GOOD) {
                        true => certified(&signer, &asked.csr, lifetime_seconds),
                        false => refusal(Code::Forbidden, "it is used up"),
                    };
                }
                if path == routes::fill(routes::NODE_CERTIFICATE, NODE) {
                    let asked: RenewRequest = serde_json::from_slice(&body).expect("a request");
                    return certified(&signer, &asked.csr, 3600);
                }
                refusal(Code::Unauthenticated, "it has expired")
            }
        };
        tokio::spawn(daemon::http::serve(listening, stopping.clone(), answer));
        Self { authority, url, requests, presented, _stop: stopping.drop_guard() }
    }

    fn token(&self, secret: &str) -> JoinToken {
        let (id, secret) = ("1".to_owned(), secret.to_owned());
        JoinToken { id, secret, ca: self.authority.key() }
    }

    fn settings(&self, dir: &tempfile::TempDir) -> Settings {
        Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            data_dir: dir.path().join("data"),
            orchestrator: self.url.clone(),
            engines: vec![EngineType::Noop],
            ..Settings::default()
        }
    }

    fn presented(&self) -> Vec<String> {
        self.presented.lock().expect("no panic").clone()
    }

    fn requested(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }
}

async fn refused(settings: Settings) -> EnrolError {
    match Agent::start(settings).await {
        Err(StartError::Enrol(error)) => error,
        other => panic!("the agent joined: {other:?}"),
    }
}

fn secret(token: &JoinToken) -> compute_agent::settings::Secret {
    compute_agent::settings::Secret::new(token.to_string())
}

#[tokio::test]
async fn the_secret_is_sent_to_the_orchestrator_of_the_token_alone() {
    let (certifier, other) = (Certifier::start(3600).await, Certifier::start(3600).await);
    let dir = tempfile::tempdir().unwrap();
    let settings = certifier.settings(&dir);
    let token = secret(&other.token(GOOD));
    let error = refused(Settings { join_token: token, ..settings }).await;
    assert!(matches!(error, EnrolError::OtherCa(_)), "{error}");
    assert!(error.to_string().contains("names another CA"), "{error}");
    assert_eq!(certifier.requested(), []);
}

#[tokio::test]
async fn a_node_without_a_token_or_with_a_refused_one_does_not_start() {
    let certifier = Certifier::start(3600).await;
    let dir = tempfile::tempdir().unwrap();
    let error = refused(certifier.settings(&dir)).await;
    assert!(matches!(error, EnrolError::NoToken), "{error}");

    let token = secret(&certifier.token("bad"));
    let error = refused(Settings { join_token: token, ..certifier.settings(&dir) }).await;
    assert!(error.to_string().contains("it is used up"), "{error}");

    let join_token_file = dir.path().join("join");
    let settings = Settings { join_token_file, ..certifier.settings(&dir) };
    let error = refused(settings).await;
    assert!(matches!(error, EnrolError::TokenFile { .. }), "{error}");
}

#[tokio::test]
async fn a_token_that_was_used_by_another_node_is_replaced_in_its_file() {
    let certifier = Certifier::start(3600).await;
    let dir = tempfile::tempdir().unwrap();
    let join_token_file = dir.path().join("join");
    std::fs::write(&join_token_file, certifier.token("bad").to_string()).unwrap();
    let settings =
        Settings { join_token_file: join_token_file.clone(), ..certifier.settings(&dir) };
    let starting = tokio::spawn(Agent::start(settings));
    eventually("the token to be refused", async || !certifier.requested().is_empty()).await;
    std::fs::write(&join_token_file, format!("{}\n", certifier.token(GOOD))).unwrap();
    let agent = starting.await.unwrap().expect("the agent starts");
    assert_eq!(agent.node_id, NODE.parse().unwrap());
    agent.shutdown().await;
}

#[tokio::test]
async fn a_node_keeps_its_certificate_and_renews_it() {
    let certifier = Certifier::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let settings = certifier.settings(&dir);
    let join_token = secret(&certifier.token(GOOD));
    let agent = Agent::start(Settings { join_token, ..settings.clone() }).await.unwrap();
    let node: NodeId = NODE.parse().unwrap();
    assert_eq!(agent.node_id, node);
    let renewal = (routes::fill(routes::NODE_CERTIFICATE, NODE), Some(node));
    eventually("a renewal", async || certifier.requested().contains(&renewal)).await;
    agent.shutdown().await;

    // Without a token from now on.
    let before = certifier.requested().len();
    let agent = Agent::start(settings).await.unwrap();
    assert_eq!(agent.node_id, node);
    let joined = routes::fill(routes::NODE_SESSION, NODE);
    eventually("a session", async || {
        certifier.requested()[before..].contains(&(joined.clone(), Some(node)))
    })
    .await;
    // What the orchestrator calls expired is renewed immediately, whatever the clock says.
    eventually("another renewal", async || certifier.requested()[before..].contains(&renewal))
        .await;
    tokio::time::timeout(Duration::from_secs(20), agent.shutdown()).await.expect("it stops");
}

/// What a caller of the agent's port is answered.
async fn status(agent: &compute_agent::RunningAgent, path: &str, token: &str) -> u16 {
    let request = reqwest::Client::new().get(format!("http://{}{path}", agent.listen_addr));
    let request = if token.is_empty() { request } else { request.bearer_auth(token) };
    request.send().await.expect("an answer").status().as_u16()
}

fn local_token(dir: &tempfile::TempDir) -> String {
    let text = std::fs::read_to_string(dir.path().join("data/agent.token")).expect("a token");
    text.trim().to_owned()
}

#[tokio::test]
async fn the_token_in_the_data_directory_opens_the_agent_until_its_next_start() {
    let certifier = Certifier::start(3600).await;
    let dir = tempfile::tempdir().unwrap();
    let join_token = secret(&certifier.token(GOOD));
    let settings = Settings { join_token, ..certifier.settings(&dir) };
    let agent = Agent::start(settings.clone()).await.unwrap();
    for path in [routes::ALIVE, routes::VERSION, routes::LIVEZ] {
        assert_eq!(status(&agent, path, "").await, 200, "{path}");
    }
    let logs = routes::fill(routes::AGENT_EXECUTION_LOGS, NODE.replace('n', "e"));
    let closed =
        [routes::AGENT_NODE, routes::AGENT_EXECUTIONS, routes::METRICS, routes::OPENAPI, &logs];
    let first = local_token(&dir);
    for path in closed {
        assert_eq!(status(&agent, path, "").await, 401, "{path}");
        let forged = format!("{first}x");
        assert_eq!(status(&agent, path, &forged).await, 401, "{path}");
        let expected = if path == logs { 404 } else { 200 };
        assert_eq!(status(&agent, path, &first).await, expected, "{path}");
    }
    agent.shutdown().await;

    let agent = Agent::start(settings).await.unwrap();
    assert_eq!(status(&agent, routes::AGENT_NODE, &first).await, 401);
    assert_eq!(status(&agent, routes::AGENT_NODE, &local_token(&dir)).await, 200);
    assert_eq!(certifier.presented(), Vec::<String>::new(), "it stays on the node");
    agent.shutdown().await;
}

/// A node that is shown a token can use it, so none is taken that opens more than metrics.
#[tokio::test]
async fn an_agent_takes_the_tokens_of_monitors_alone_and_for_metrics_alone() {
    let certifier = Certifier::start(3600).await;
    let dir = tempfile::tempdir().unwrap();
    let join_token = secret(&certifier.token(GOOD));
    let settings = Settings { join_token, ..certifier.settings(&dir) };
    let agent = Agent::start(settings).await.unwrap();
    for token in
        ["jt1_operator", "jt1_admin", "jt1_monitor", "js1_admin", "operator", "jm1", "jn1.x"]
    {
        for path in [routes::METRICS, routes::AGENT_NODE, routes::AGENT_EXECUTIONS] {
            assert_eq!(status(&agent, path, token).await, 401, "{path} {token}");
        }
    }
    // None of them was even sent to the orchestrator.
    assert_eq!(certifier.presented(), Vec::<String>::new());

    assert_eq!(status(&agent, routes::METRICS, "jm1_monitor").await, 200);
    for path in [routes::AGENT_NODE, routes::AGENT_EXECUTIONS, routes::OPENAPI] {
        assert_eq!(status(&agent, path, "jm1_monitor").await, 403, "{path}");
    }
    assert_eq!(status(&agent, routes::METRICS, "jm1_forged").await, 401);
    // What the orchestrator says of the token counts, not its prefix.
    for role in ["viewer", "operator", "admin"] {
        assert_eq!(status(&agent, routes::METRICS, &format!("jm1_{role}")).await, 403, "{role}");
    }
    agent.shutdown().await;
}
