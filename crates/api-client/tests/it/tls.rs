//! Connections with TLS: whom a client trusts, and what it says of itself.

use std::sync::Arc;

use api_client::{Client, ClientError, Credentials, Identity, Options, Trust};
use api_types::KeyDigest;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PublicKeyData};
use ring::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::peer::Peer;

const ALIVE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                     content-length: 15\r\nconnection: close\r\n\r\n{\"Status\":\"OK\"}";

struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a server saw of one connection.
struct Seen {
    protocol: Option<Vec<u8>>,
    certificates: usize,
    request: String,
}

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Authority(
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a test peer works"))
            .expect("a test peer works"),
    )
}

impl Authority {
    fn key(&self) -> KeyDigest {
        let info = self.0.key().subject_public_key_info();
        KeyDigest(digest(&SHA256, &info).as_ref().try_into().expect("a test peer works"))
    }

    fn issue(&self, name: &str) -> (CertificateDer<'static>, KeyPair) {
        let key = KeyPair::generate().expect("a test peer works");
        let params = CertificateParams::new([name.to_owned()]).expect("a test peer works");
        (params.signed_by(&key, &self.0).expect("a test peer works").der().clone(), key)
    }

    fn identity(&self) -> Identity {
        let key = KeyPair::generate().expect("a test peer works");
        let certificate =
            CertificateParams::default().signed_by(&key, &self.0).expect("a test peer works");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A server for `name` that sends this CA along, and serves one request.
    async fn server(&self, issuer: &Authority, name: &str) -> (String, JoinHandle<Option<Seen>>) {
        let (certificate, key) = issuer.issue(name);
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a test peer works");
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&crypto))
                .allow_unauthenticated()
                .build()
                .expect("a test peer works");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a test peer works");
        let mut config = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .expect("a test peer works")
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate, self.0.der().clone()], key)
            .expect("a test peer works");
        config.alpn_protocols = vec![b"jobs-agent/1".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a test peer works");
        let url = format!("https://{}", listener.local_addr().expect("a test peer works"));
        (url, tokio::spawn(serve_one(listener, config)))
    }
}

async fn serve_one(listener: TcpListener, config: ServerConfig) -> Option<Seen> {
    let (socket, _) = listener.accept().await.expect("a test peer works");
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(socket).await.ok()?;
    let mut buffer = [0; 4096];
    let mut request = String::new();
    while !request.contains("\r\n\r\n") {
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        request.push_str(std::str::from_utf8(&buffer[..read]).expect("a test peer works"));
    }
    stream.write_all(ALIVE.as_bytes()).await.expect("a test peer works");
    stream.shutdown().await.expect("a test peer works");
    let connection = stream.get_ref().1;
    Some(Seen {
        protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
        certificates: connection.peer_certificates().map_or(0, <[_]>::len),
        request,
    })
}

fn client(base_url: &str, trust: Trust, credentials: Credentials) -> Client {
    Client::with(Options {
        base_url: base_url.to_owned(),
        trust,
        credentials,
        ..Options::default()
    })
    .expect("a test peer works")
}

#[tokio::test]
async fn a_bearer_token_is_sent_with_the_request_and_shown_nowhere() {
    let peer = Peer::json("200 OK", r#"{"Status":"OK"}"#).await;
    let token = Credentials::Bearer("jt1_secret".to_owned());
    let client = client(&peer.base_url, Trust::System, token);
    client.alive().await.unwrap();
    let shown = format!("{client:?}");
    assert!(!shown.contains("secret"), "{shown}");
    let request = peer.request().await.to_lowercase();
    assert!(request.contains("\r\nauthorization: bearer jt1_secret\r\n"), "{request}");
}

#[tokio::test]
async fn a_server_of_the_trusted_ca_is_accepted() {
    let ca = authority();
    for trust in [Trust::Authority(ca.0.pem()), Trust::AuthorityKey(ca.key())] {
        let (url, served) = ca.server(&ca, "127.0.0.1").await;
        client(&url, trust, Credentials::None).alive().await.unwrap();
        let seen = served.await.unwrap().expect("a request");
        assert_eq!((seen.protocol.as_deref(), seen.certificates), (Some(&b"http/1.1"[..]), 0));
    }
}

#[tokio::test]
async fn an_agent_offers_its_protocol_and_presents_its_identity() {
    let ca = authority();
    let trust = Trust::AuthorityKey(ca.key());
    let (url, served) = ca.server(&ca, "127.0.0.1").await;
    let agent = client(&url, trust.clone(), Credentials::Agent(None));
    agent.alive().await.unwrap();
    let seen = served.await.unwrap().expect("a request");
    assert_eq!((seen.protocol.as_deref(), seen.certificates), (Some(&b"jobs-agent/1"[..]), 0));

    let (url, served) = ca.server(&ca, "127.0.0.1").await;
    let agent = client(&url, trust, Credentials::Agent(None));
    agent.replace_identity(ca.identity(), ca.0.pem()).unwrap();
    agent.alive().await.unwrap();
    assert_eq!(served.await.unwrap().expect("a request").certificates, 1);

    // A newer CA takes the place of the one that was trusted before.
    let newer = authority();
    let (url, served) = newer.server(&newer, "127.0.0.1").await;
    let trust = Trust::AuthorityKey(ca.key());
    let agent = client(&url, trust, Credentials::Agent(None));
    agent.replace_identity(newer.identity(), newer.0.pem()).unwrap();
    agent.alive().await.unwrap();
    assert_eq!(served.await.unwrap().expect("a request").certificates, 1);
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_that_is_not_trusted() {
    let (ca, other) = (authority(), authority());
    for (name, trust, issuer, named) in [
        ("another CA", Trust::Authority(other.0.pem()), &ca, "127.0.0.1"),
        ("another key", Trust::AuthorityKey(other.key()), &ca, "127.0.0.1"),
        ("another name", Trust::AuthorityKey(ca.key()), &ca, "127.0.0.2"),
        ("the CA sent along by another", Trust::AuthorityKey(ca.key()), &other, "127.0.0.1"),
    ] {
        let (url, served) = ca.server(issuer, named).await;
        let token = Credentials::Bearer("jt1_secret".to_owned());
        let error = client(&url, trust, token).alive().await.unwrap_err();
        assert!(matches!(error, ClientError::Untrusted { .. }), "{name}: {error}");
        assert!(error.to_string().contains(&url), "{name}: {error}");
        let request = served.await.unwrap().map(|seen| seen.request);
        assert_eq!(request, None, "{name}");
    }
}

#[test]
fn options_that_cannot_work_are_refused() {
    let refused = |base_url: &str, trust: Trust, credentials: Credentials| {
        let options =
            Options { base_url: base_url.to_owned(), trust, credentials, ..Options::default() };
        Client::with(options).unwrap_err().to_string()
    };
    let pin = || Trust::AuthorityKey(KeyDigest([0; 32]));
    let identity = Identity { certificate: "x".to_owned(), key: "x".to_owned() };
    for (error, words) in [
        (refused("http://h", pin(), Credentials::None), "must begin with https://"),
        (refused("https://h", Trust::Authority("x".into()), Credentials::None), "no certificate"),
        (refused("https://h", Trust::System, Credentials::Agent(None)), "name its digest"),
        (refused("https://h", pin(), Credentials::Agent(Some(identity))), "the key is not PEM"),
        (refused("http://h", Trust::System, Credentials::Bearer("a\nb".into())), "the token has"),
    ] {
        assert!(error.contains(words), "{error}");
    }
}
