//! A listener with TLS, over real connections.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api_client::{Client, ClientError, Credentials, Identity, Options, Trust};
use api_types::{NodeId, Timestamp};
use axum::body::Body;
use axum::response::Response;
use pki::{Authority, Issued, NodeKey, NodeRequest, Peer as Node, server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;
use crate::health::{self, Scheme};

/// A listener whose answer to `alive` is the node that asks, or `OK`.
struct Served {
    address: SocketAddr,
    authority: Authority,
    tls: Arc<Tls>,
    stopping: CancellationToken,
}

fn issue(authority: &Authority) -> Issued {
    let id = NodeId::from_uuid(Uuid::from_u128(9));
    authority.issue_server(id, &["127.0.0.1".to_owned()]).expect("a certificate")
}

async fn served() -> Served {
    let authority = Authority::make().expect("a CA");
    let own = issue(&authority);
    let agents = server::for_agents([authority.public()], &own).expect("a configuration");
    let callers = server::for_callers(&own).expect("a configuration");
    let tls = Arc::new(Tls::new(agents, callers));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("a bound socket");
    let stopping = CancellationToken::new();
    let listening = Listening::new(listener, 8, Some(Arc::clone(&tls)));
    tokio::spawn(serve(listening, stopping.clone(), |request| async move {
        let context =
            RequestContext::from_extensions(request.extensions()).expect("it came from a peer");
        let status = context.certificate.as_ref().map_or("OK".to_owned(), |certificate| {
            Node::read(&certificate.0).expect("a node's certificate").node.to_string()
        });
        assert!(context.peer.is_some(), "the address of the peer");
        Response::new(Body::from(format!("{{\"Status\":\"{status}\"}}")))
    }));
    Served { address, authority, tls, stopping }
}

impl Served {
    async fn ask(
        &self,
        trust: &Authority,
        credentials: Credentials,
    ) -> Result<String, ClientError> {
        let options = Options {
            base_url: format!("https://{}", self.address),
            trust: Trust::AuthorityKey(trust.key()),
            credentials,
            ..Options::default()
        };
        let client = Client::with(options).expect("a client");
        client.alive().await.map(|alive| alive.status)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(SocketAddr) -> T + Send + 'static,
    ) -> T {
        let address = self.address;
        tokio::task::spawn_blocking(move || work(address)).await.expect("it does not panic")
    }
}

fn identity(authority: &Authority) -> (NodeId, Identity) {
    let node = NodeId::from_uuid(Uuid::from_u128(1));
    let key = NodeKey::make().expect("a key");
    let request = key.request().expect("a request");
    let request = NodeRequest::read(&request).expect("a request");
    let certificate =
        authority.sign_node(&request, node, Timestamp(i64::MAX)).expect("a certificate");
    (node, Identity { certificate, key: key.private_key() })
}

#[tokio::test]
async fn the_certificate_of_an_agent_reaches_its_requests() {
    let served = served().await;
    let (node, identity) = identity(&served.authority);
    let shown = served.ask(&served.authority, Credentials::Agent(Some(identity))).await.unwrap();
    assert_eq!(shown, node.to_string());
    for without in [Credentials::Agent(None), Credentials::None] {
        assert_eq!(served.ask(&served.authority, without).await.unwrap(), "OK");
    }
}

#[tokio::test]
async fn callers_get_the_replaced_certificate_and_agents_their_own_ca() {
    let (served, other) = (served().await, Authority::make().unwrap());
    served.tls.replace_callers(server::for_callers(&issue(&other)).unwrap());
    assert_eq!(served.ask(&other, Credentials::None).await.unwrap(), "OK");
    assert_eq!(served.ask(&served.authority, Credentials::Agent(None)).await.unwrap(), "OK");
    for (trust, credentials) in
        [(&served.authority, Credentials::None), (&other, Credentials::Agent(None))]
    {
        let error = served.ask(trust, credentials).await.unwrap_err();
        assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");
    }
}

/// The head and the body of the answer to these bytes, in lower case.
async fn said_in_plain(served: &Served, request: String) -> (String, String) {
    let answer = served
        .blocking(move |address| {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
        .await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn plain_http_is_told_to_use_https() {
    let served = served().await;
    for (request, revokes) in [
        ("GET / HTTP/1.1\r\nhost: h\r\n", false),
        ("GET / HTTP/1.1\r\nhost: h\r\naccept: text/html\r\n", false),
        ("POST /x HTTP/1.1\r\nhost: own\r\naccept: text/html\r\n", false),
        ("GET /x HTTP/1.1\r\nhost: own\r\nauthorization: Bearer t\r\n", true),
        ("PUT /x HTTP/1.1\r\nhost: own\r\ncookie: a=b\r\ncontent-length: 0\r\n", true),
    ] {
        let (head, body) = said_in_plain(&served, format!("{request}\r\n")).await;
        assert!(head.starts_with("http/1.1 400 ") && head.contains("connection: close"), "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["Code"], "InvalidRequest");
        let hint = body["Hint"].as_str().unwrap();
        assert!(hint.starts_with("use https:// instead of http://"), "{hint}");
        assert_eq!(hint.contains("revoke the credentials"), revokes, "{request}");
    }
}

#[tokio::test]
async fn a_browser_that_opens_a_page_in_plain_is_sent_to_https() {
    let served = served().await;
    served.tls.redirect_to(|_, headers| headers.get("host").is_some_and(|host| host == "own:1"));
    for (method, host, status) in [
        ("GET", "own:1", 307),
        ("HEAD", "own:1", 307),
        ("GET", "evil", 400),
        ("POST", "own:1", 400),
    ] {
        let accept = "text/html,application/xhtml+xml;q=0.9";
        let request = format!(
            "{method} /jobs?state=all HTTP/1.1\r\nhost: {host}\r\naccept: {accept}\r\n\r\n"
        );
        let (head, _) = said_in_plain(&served, request).await;
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{method} {host}: {head}");
        let redirects = head.contains("location: https://own:1/jobs?state=all\r\n");
        assert_eq!(redirects, status == 307, "{head}");
        assert_eq!(head.contains("cache-control: no-store"), status == 307, "{head}");
    }
}

#[tokio::test]
async fn a_health_check_works_with_tls() {
    let served = served().await;
    served.blocking(|address| health::ask(Scheme::Https, address, "/readyz")).await.unwrap();
    let plain = served.blocking(|address| health::ask(Scheme::Http, address, "/readyz")).await;
    let error = plain.unwrap_err().to_string();
    assert!(error.contains("this port speaks HTTPS"), "{error}");
}

#[tokio::test]
async fn a_peer_that_never_shakes_hands_delays_no_other_and_no_stop() {
    let served = served().await;
    let silent = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let stuck = tokio::net::TcpStream::connect(served.address).await.unwrap();
    stuck.writable().await.unwrap();
    assert_eq!(stuck.try_write(&[0x16, 3, 1]).unwrap(), 3);
    assert_eq!(served.ask(&served.authority, Credentials::None).await.unwrap(), "OK");
    served.stopping.cancel();
    let mut buffer = [0];
    for stream in [silent, stuck] {
        let ended = tokio::time::timeout(Duration::from_secs(5), async {
            stream.readable().await?;
            stream.try_read(&mut buffer)
        });
        let ended = ended.await.expect("the connection is cut at the stop");
        assert!(ended.is_err() || ended.unwrap() == 0);
    }
}
