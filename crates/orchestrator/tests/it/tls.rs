//! TLS of a listener beyond loopback: real processes, and clients that trust their CA.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use api_client::{Client, ClientError, Options, Trust};
use pki::Authority;
use rustix::process::{Pid, Signal, kill_process};

/// A daemon that listens everywhere, on a free port.
struct Daemon {
    child: Child,
    log: std::io::Lines<BufReader<ChildStderr>>,
    address: SocketAddr,
}

fn command(data_dir: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
    command
        .env_clear()
        .env("ORCHESTRATOR_LISTEN", "0.0.0.0:0")
        .env("ORCHESTRATOR_DATA_DIR", data_dir)
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn refused(data_dir: &Path, variables: &[(&str, &str)]) -> String {
    let Output { status, stderr, .. } =
        command(data_dir, variables).output().expect("run the daemon");
    let said = String::from_utf8(stderr).expect("UTF-8");
    assert_eq!(status.code(), Some(64), "{said}");
    said
}

// === impl Daemon ===

impl Daemon {
    fn start(data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = command(data_dir, variables).spawn().expect("start the daemon");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let serving = next(&mut log, "serving address=");
        let port = serving.split("address=0.0.0.0:").nth(1).expect("the address");
        let port = port.split_whitespace().next().expect("a port").parse().expect("a number");
        Self { child, log, address: ([127, 0, 0, 1], port).into() }
    }

    fn client(&self, trust: Trust) -> Client {
        let base_url = format!("https://{}", self.address);
        Client::with(Options { base_url, trust, ..Options::default() }).expect("a client")
    }

    /// Waits for a line of the log with this text.
    fn says(&mut self, text: &str) -> String {
        next(&mut self.log, text)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn next(log: &mut std::io::Lines<BufReader<ChildStderr>>, text: &str) -> String {
    let mut lines = log.map_while(Result::ok);
    lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("the log lacks {text:?}"))
}

fn ca(data_dir: &Path) -> Trust {
    Trust::Authority(fs::read_to_string(data_dir.join("ca.crt")).expect("the CA"))
}

fn plain(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n").expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("receive");
    answer
}

/// Writes a certificate of another CA for this address, with its key.
fn own_certificate(dir: &Path) -> Authority {
    let authority = Authority::make().expect("a CA");
    let id = "n-00000000-0000-0000-0000-000000000001".parse().expect("an ID");
    let issued = authority.issue_server(id, &["127.0.0.1".to_owned()]).expect("a certificate");
    fs::write(dir.join("cert.pem"), issued.certificate).expect("write it");
    fs::write(dir.join("key.pem"), issued.key).expect("write it");
    authority
}

#[tokio::test]
async fn a_listener_beyond_loopback_serves_tls_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(dir.path(), &[]);
    let said = daemon.says("serving over TLS");
    let digest = said.split("ca=").nth(1).unwrap().split_whitespace().next().unwrap();
    let pinned = Trust::AuthorityKey(digest.parse().unwrap());
    for trust in [ca(dir.path()), pinned.clone()] {
        assert_eq!(daemon.client(trust).alive().await.unwrap().status, "OK");
    }
    let answer = plain(daemon.address);
    assert!(answer.starts_with("HTTP/1.0 400 ") && answer.contains("use https://"), "{answer}");

    let listen = daemon.address.to_string().replace("127.0.0.1", "0.0.0.0");
    let health =
        command(dir.path(), &[("ORCHESTRATOR_LISTEN", &listen)]).arg("--health").output().unwrap();
    assert!(health.status.success(), "{health:?}");

    drop(daemon);
    let restarted = Daemon::start(dir.path(), &[]);
    restarted.client(pinned).alive().await.unwrap();
}

#[test]
fn an_insecure_listener_serves_plain_http() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), &[("ORCHESTRATOR_INSECURE", "true")]);
    let answer = plain(daemon.address);
    assert!(answer.starts_with("HTTP/1.0 200 ") || answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(!dir.path().join("ca.key").exists());
}

#[tokio::test]
async fn an_operators_certificate_is_served_and_reloaded() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let variables = [
        ("ORCHESTRATOR_TLS__CERT", cert.to_str().unwrap()),
        ("ORCHESTRATOR_TLS__KEY", key.to_str().unwrap()),
    ];
    let data = dir.path().join("data");
    let said = refused(&data, &variables);
    assert!(said.contains("cannot read tls.cert at ") && said.contains("cert.pem"), "{said}");

    let first = own_certificate(dir.path());
    let mut daemon = Daemon::start(&data, &variables);
    daemon.client(Trust::AuthorityKey(first.key())).alive().await.unwrap();
    let error = daemon.client(ca(&data)).alive().await.unwrap_err();
    assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");

    let second = own_certificate(dir.path());
    daemon.signal(Signal::HUP);
    daemon.says("serving with this certificate");
    daemon.client(Trust::AuthorityKey(second.key())).alive().await.unwrap();

    fs::write(&key, "no key").unwrap();
    daemon.signal(Signal::HUP);
    let said = daemon.says("cannot serve with the new certificate");
    assert!(said.contains("the key is not PEM"), "{said}");
    daemon.client(Trust::AuthorityKey(second.key())).alive().await.unwrap();
    drop(daemon);

    let said = refused(&data, &variables);
    assert!(said.contains("key.pem cannot serve: the key is not PEM"), "{said}");
}

#[test]
fn a_restored_database_is_of_no_use_without_the_cluster_key() {
    let (dir, restored) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(Daemon::start(dir.path(), &[]));
    for file in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
        let name = file.file_name().into_string().unwrap();
        if name.starts_with("orchestrator.db") {
            fs::copy(file.path(), restored.path().join(name)).unwrap();
        }
    }
    let said = refused(restored.path(), &[]);
    assert!(said.contains("cluster.key is missing"), "{said}");
    assert!(!restored.path().join("ca.crt").exists());
    fs::copy(dir.path().join("cluster.key"), restored.path().join("cluster.key")).unwrap();
    drop(Daemon::start(restored.path(), &[]));
    let certificate = |dir: &Path| fs::read_to_string(dir.join("ca.crt")).unwrap();
    assert_eq!(certificate(restored.path()), certificate(dir.path()));
}

#[test]
fn without_its_cluster_key_an_orchestrator_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    drop(Daemon::start(dir.path(), &[]));
    fs::rename(dir.path().join("cluster.key"), dir.path().join("kept")).unwrap();
    let said = refused(dir.path(), &[]);
    assert!(said.contains("cluster.key is missing"), "{said}");
    let kept = dir.path().join("kept");
    drop(Daemon::start(dir.path(), &[("ORCHESTRATOR_CLUSTER_KEY_FILE", kept.to_str().unwrap())]));
}

/// A suite of TLS 1.2 that authenticates with ECDSA, agrees on its keys anew for each connection, and
/// encrypts and authenticates in one step.
const STRONG: [u16; 3] = [0xc02b, 0xc02c, 0xcca9];

/// The first message of a client that knows this version and this suite.
fn client_hello(version: [u8; 2], suite: u16) -> Vec<u8> {
    let counted = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("a short message").to_be_bytes();
        [&length[..], bytes].concat()
    };
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &counted(body)].concat();
    let extensions = [
        // Curves, their form, and signatures that suites of every age need.
        extension(10, &counted(&[0x00, 0x17, 0x00, 0x18, 0x00, 0x1d])),
        extension(11, &[1, 0]),
        extension(13, &counted(&[0x04, 0x03, 0x05, 0x03, 0x04, 0x01, 0x02, 0x01, 0x02, 0x03])),
        extension(23, &[]),
    ];
    let body = [
        &version[..],
        &[7; 32],
        &[0],
        &counted(&suite.to_be_bytes()),
        &[1, 0],
        &counted(&extensions.concat()),
    ];
    let body = body.concat();
    let length = u32::try_from(body.len()).expect("a short message").to_be_bytes();
    let handshake = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &counted(&handshake)].concat()
}

/// Whether the server goes on with a client that knows only this.
fn accepts(address: SocketAddr, version: [u8; 2], suite: u16) -> bool {
    const HANDSHAKE: u8 = 22;
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.write_all(&client_hello(version, suite)).expect("send");
    let mut kind = [0];
    stream.read(&mut kind).expect("an answer") == 1 && kind == [HANDSHAKE]
}

#[test]
fn only_strong_suites_of_new_versions_are_offered() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), &[]);
    // All that were ever assigned to TLS up to 1.2: NULL, export, RC4, DES, CBC, RSA key exchange.
    let all = (0x0000..0x0100).chain(0xc000..0xc100).chain(0xcca0..0xccb0);
    for version in [[3, 0], [3, 1], [3, 2]] {
        for suite in all.clone() {
            assert!(!accepts(daemon.address, version, suite), "{version:?} with {suite:#06x}");
        }
    }
    let accepted: Vec<u16> = all.filter(|suite| accepts(daemon.address, [3, 3], *suite)).collect();
    assert_eq!(accepted, STRONG.to_vec());
}
