//! Certificates in real handshakes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use api_client::{Client, ClientError, Credentials, Identity, Options, Trust};
use api_types::{NodeId, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ECDSA_P384_SHA384};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                      content-length: 15\r\nconnection: close\r\n\r\n{\"Status\":\"OK\"}";

const LATE: Timestamp = Timestamp(4_000_000_000_000_000_000);
const PAST: Timestamp = Timestamp(1_600_000_000_000_000_000);

fn node(number: u128) -> NodeId {
    NodeId::from_uuid(Uuid::from_u128(number))
}

fn server_of(authority: &Authority, names: &[&str]) -> ServerConfig {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let own = authority.issue_server(node(9), &names).expect("a certificate");
    server::for_agents([authority.public()], &own).expect("a configuration")
}

/// Serves one request, and returns the node that sent it; `None` within when it showed no
/// certificate, `None` when there was no request.
async fn serving(
    mut config: ServerConfig,
    ip: Ipv4Addr,
) -> (SocketAddr, JoinHandle<Option<Option<Peer>>>) {
    config.alpn_protocols = vec![b"jobs-agent/1".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind((ip, 0)).await.expect("a loopback port");
    let address = listener.local_addr().expect("a bound socket");
    let served = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.ok()?;
        let mut stream = TlsAcceptor::from(Arc::new(config)).accept(socket).await.ok()?;
        let mut buffer = [0; 4096];
        stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        stream.write_all(ANSWER.as_bytes()).await.ok()?;
        stream.shutdown().await.ok()?;
        let certificates = stream.get_ref().1.peer_certificates();
        Some(certificates.map(|chain| Peer::read(&chain[0]).expect("a node's certificate")))
    });
    (address, served)
}

fn agent(address: SocketAddr, authority: &Authority, identity: Option<Identity>) -> Client {
    Client::with(Options {
        base_url: format!("https://{address}"),
        trust: Trust::AuthorityKey(authority.key()),
        credentials: Credentials::Agent(identity),
        ..Options::default()
    })
    .expect("a client")
}

fn identity(authority: &Authority, id: NodeId, until: Timestamp) -> (Identity, NodeKey) {
    let key = NodeKey::make().expect("a key");
    let request = key.request().expect("a request");
    let request = NodeRequest::read(&request).expect("a request");
    assert_eq!(request.key(), key.digest());
    let certificate = authority.sign_node(&request, id, until).expect("a certificate");
    (Identity { certificate, key: key.private_key() }, key)
}

#[tokio::test]
async fn a_node_and_its_orchestrator_prove_each_other_who_they_are() {
    let authority = Authority::make().unwrap();
    let authority = Authority::load(authority.certificate(), &authority.private_key()).unwrap();
    let config = server_of(&authority, &["127.0.0.1", "localhost"]);
    let (address, served) = serving(config, Ipv4Addr::LOCALHOST).await;
    let (identity, key) = identity(&authority, node(1), LATE);
    agent(address, &authority, Some(identity)).alive().await.unwrap();
    let peer = served.await.unwrap().unwrap().unwrap();
    let ca_ends = Timestamp::parse("2040-01-01T00:00:00Z").unwrap();
    assert_eq!(peer, Peer { node: node(1), key: key.digest(), expires: ca_ends });
    let key = NodeKey::load(&key.private_key()).unwrap();
    assert_eq!(peer.key, key.digest());
}

#[tokio::test]
async fn an_agent_without_a_certificate_may_connect() {
    let authority = Authority::make().unwrap();
    let (address, served) =
        serving(server_of(&authority, &["127.0.0.1"]), Ipv4Addr::LOCALHOST).await;
    agent(address, &authority, None).alive().await.unwrap();
    assert_eq!(served.await.unwrap(), Some(None));
}

#[tokio::test]
async fn an_expired_certificate_still_says_whose_it_is() {
    let authority = Authority::make().unwrap();
    let (address, served) =
        serving(server_of(&authority, &["127.0.0.1"]), Ipv4Addr::LOCALHOST).await;
    let (identity, key) = identity(&authority, node(1), PAST);
    agent(address, &authority, Some(identity)).alive().await.unwrap();
    let peer = served.await.unwrap().unwrap().unwrap();
    assert_eq!(peer, Peer { node: node(1), key: key.digest(), expires: PAST });
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused() {
    let (authority, other) = (Authority::make().unwrap(), Authority::make().unwrap());
    let (address, served) =
        serving(server_of(&authority, &["127.0.0.1"]), Ipv4Addr::LOCALHOST).await;
    let (mut identity, _) = identity(&other, node(1), LATE);
    // The right CA in the chain does not help.
    identity.certificate.push_str(authority.certificate());
    let error = agent(address, &authority, Some(identity)).alive().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert_eq!(served.await.unwrap(), None);
}

#[tokio::test]
async fn an_orchestrator_under_another_name_or_of_another_ca_is_refused() {
    let (authority, other) = (Authority::make().unwrap(), Authority::make().unwrap());
    for (config, reason) in [
        (server_of(&authority, &["127.0.0.2", "localhost"]), "not valid for name"),
        (server_of(&other, &["127.0.0.1"]), "UnknownIssuer"),
    ] {
        let (address, served) = serving(config, Ipv4Addr::LOCALHOST).await;
        let error = agent(address, &authority, None).alive().await.unwrap_err();
        assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(served.await.unwrap(), None);
    }
}

/// Chains that lead from the newest of these CAs, which are in order of their age, to the oldest.
fn successors(authorities: Vec<Authority>) -> Authority {
    let mut path = authorities[0].certificate().to_owned();
    for pair in authorities.windows(2) {
        path.insert_str(0, &pair[0].certify(&pair[1]).expect("a certificate"));
    }
    authorities.into_iter().next_back().expect("a CA").by_way_of(path)
}

#[tokio::test]
async fn who_trusts_an_older_ca_accepts_its_successors() {
    let all: Vec<_> = (0..MAX_AUTHORITIES).map(|_| Authority::make().unwrap()).collect();
    let known: Vec<_> = all.iter().map(|ca| ca.public().clone()).collect();
    let newest = successors(all);
    let own = newest.issue_server(node(7), &["127.0.0.1".to_owned()]).unwrap();
    for ca in &known {
        for trust in [Trust::Authority(ca.pem().to_owned()), Trust::AuthorityKey(ca.key())] {
            let config = server::for_agents(&known, &own).unwrap();
            let (address, served) = serving(config, Ipv4Addr::LOCALHOST).await;
            let client = Client::with(Options {
                base_url: format!("https://{address}"),
                trust,
                credentials: Credentials::Agent(None),
                ..Options::default()
            });
            client.unwrap().alive().await.unwrap();
            assert_eq!(served.await.unwrap(), Some(None));
        }
    }
    // Who knows none of them is not convinced by a chain.
    let (address, _served) =
        serving(server::for_agents(&known, &own).unwrap(), Ipv4Addr::LOCALHOST).await;
    let error = agent(address, &Authority::make().unwrap(), None).alive().await.unwrap_err();
    assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");
}

#[tokio::test]
async fn nodes_of_an_older_ca_are_known_until_it_is_no_longer_trusted() {
    let (old, new) = (Authority::make().unwrap(), Authority::make().unwrap());
    let (identity, key) = identity(&old, node(1), LATE);
    let both = [new.public().clone(), old.public().clone()];
    let new = successors(vec![old, new]);
    let own = new.issue_server(node(7), &["127.0.0.1".to_owned()]).unwrap();
    for (trusted, known) in [(&both[..], true), (&both[..1], false)] {
        let config = server::for_agents(trusted, &own).unwrap();
        let (address, served) = serving(config, Ipv4Addr::LOCALHOST).await;
        let answer = agent(address, &new, Some(identity.clone())).alive().await;
        assert_eq!(answer.is_ok(), known);
        let peer = served.await.unwrap().map(|peer| peer.unwrap().key);
        assert_eq!(peer, known.then(|| key.digest()));
    }
}

#[tokio::test]
async fn a_node_cannot_pass_for_the_orchestrator() {
    let authority = Authority::make().unwrap();
    let (Identity { certificate, key }, _) = identity(&authority, node(9), LATE);
    let config = server::for_callers(&Issued { certificate, key }).unwrap();
    let (address, served) = serving(config, Ipv4Addr::LOCALHOST).await;
    let error = agent(address, &authority, None).alive().await.unwrap_err();
    assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");
    assert_eq!(served.await.unwrap(), None);
}

#[test]
fn what_a_request_asks_for_is_ignored() {
    let authority = Authority::make().unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["orchestrator.example".to_owned(), "10.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    let other = format!("urn:jobs:node:{}", node(2));
    params.subject_alt_names.push(rcgen::SanType::URI(other.try_into().unwrap()));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = NodeRequest::read(&request).unwrap();
    let signed = authority.sign_node(&request, node(1), LATE).unwrap();
    let (_, pem) = x509_parser::pem::parse_x509_pem(signed.as_bytes()).unwrap();
    assert_eq!(Peer::read(&pem.contents).unwrap().node, node(1));
    let certificate = pem.parse_x509().unwrap();
    assert!(!certificate.is_ca());
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names.len(), 1, "{names:?}");
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth);
}

#[test]
fn a_request_that_proves_no_key_is_refused() {
    let authority = Authority::make().unwrap();
    let request = NodeKey::make().unwrap().request().unwrap();
    let mut tampered: Vec<char> = request.chars().collect();
    let index = request.find("-----END").unwrap() - 12;
    tampered[index] = if tampered[index] == 'A' { 'B' } else { 'A' };
    let tampered: String = tampered.into_iter().collect();
    let long = "x".repeat(1 << 20);
    for request in ["", "not a request", authority.certificate(), &tampered, &long] {
        assert!(NodeRequest::read(request).is_err(), "{request}");
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let request = CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let error = NodeRequest::read(&request).unwrap_err();
    assert!(matches!(error, RequestError::Algorithm), "{error}");
}

#[test]
fn an_authority_needs_its_own_key() {
    let (authority, other) = (Authority::make().unwrap(), Authority::make().unwrap());
    let error = Authority::load(authority.certificate(), &other.private_key()).unwrap_err();
    assert!(matches!(error, AuthorityError::OtherKey), "{error}");
    assert!(Authority::load(authority.certificate(), "x").is_err());
    assert!(Authority::load("x", &authority.private_key()).is_err());
    assert_ne!(authority.key(), other.key());
}

#[test]
fn a_certificate_and_a_key_that_cannot_serve_are_refused() {
    let authority = Authority::make().unwrap();
    let issue = || authority.issue_server(node(1), &["localhost".to_owned()]).unwrap();
    let (own, other) = (issue(), issue());
    server::for_callers(&own).unwrap();
    for (certificate, key, words) in [
        (own.certificate.clone(), other.key.clone(), "do not belong together"),
        (String::new(), own.key.clone(), "no certificate"),
        (own.certificate.clone(), "x".to_owned(), "the key is not PEM"),
        (own.key.clone(), own.key.clone(), "no certificate"),
    ] {
        let error = server::for_callers(&Issued { certificate, key }).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
