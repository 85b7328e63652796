//! The program as it restricts a network namespace of this machine, over IPv6: Docker seldom has it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// The link between the two namespaces; what is routed by way of the other one's end; and what is
/// private there.
const OWN: &str = "2001:db8:1::2";
const GATEWAY: &str = "2001:db8:1::1";
const PUBLIC: &str = "2001:db8:2::1";
const PRIVATE: &str = "fd00:9::1";

/// Nobody listens on it, so a host that is reached refuses the connection.
const PORT: u16 = 9;

/// Two namespaces with a link between them; dropping them removes all.
struct Namespaces {
    guarded: String,
    other: String,
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .map_err(|error| format!("cannot run ip (package iproute2): {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Without the permission it prints the reason and returns `None`, or panics when `CI` is set.
    fn create() -> Option<Self> {
        let process = std::process::id();
        let all = Self { guarded: format!("guarded-{process}"), other: format!("other-{process}") };
        match all.set_up() {
            Ok(()) => Some(all),
            Err(reason) if std::env::var_os("CI").is_some() => panic!("{reason}"),
            Err(reason) => {
                eprintln!("skipped: {reason}");
                None
            }
        }
    }

    fn set_up(&self) -> Result<(), String> {
        let Self { guarded, other } = self;
        for namespace in [guarded, other] {
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        ip(&format!("-n {guarded} link add eth0 type veth peer name eth0 netns {other}"))?;
        for (namespace, device, address) in [
            (guarded, "eth0", format!("{OWN}/64")),
            (other, "eth0", format!("{GATEWAY}/64")),
            (other, "lo", format!("{PUBLIC}/128")),
            (other, "lo", format!("{PRIVATE}/128")),
        ] {
            ip(&format!("-n {namespace} link set {device} up"))?;
            ip(&format!("-n {namespace} -6 address add {address} dev {device} nodad"))?;
        }
        ip(&format!("-n {guarded} -6 route add default via {GATEWAY}"))
    }

    /// Why a connection from this namespace failed.
    fn failure(namespace: &str, address: &str) -> String {
        let connect = format!("exec 3<>/dev/tcp/{address}/{PORT}");
        let arguments = ["netns", "exec", namespace, "timeout", "2", "bash", "-c", &connect];
        let output = Command::new("ip").args(arguments).output().expect("run ip");
        assert!(!output.status.success(), "something listens at {address}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ["Connection refused", "No route to host"]
            .into_iter()
            .find(|reason| said.contains(reason))
            .unwrap_or("no answer")
            .to_owned()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for namespace in [&self.guarded, &self.other] {
            drop(ip(&format!("netns del {namespace}")));
        }
    }
}

#[test]
fn a_guarded_namespace_reaches_public_addresses_alone_over_ipv6() {
    let Some(namespaces) = Namespaces::create() else { return };
    let Namespaces { guarded, other } = &namespaces;
    for address in [PUBLIC, PRIVATE, GATEWAY] {
        assert_eq!(Namespaces::failure(guarded, address), "Connection refused", "{address}");
    }
    assert_eq!(Namespaces::failure(other, OWN), "Connection refused");

    let program = env!("CARGO_BIN_EXE_sandbox");
    let mut sandbox = Command::new("ip")
        .args(["netns", "exec", guarded, program, "60", "60", "fc00::/7,fe80::/10", ""])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the program");
    let mut requests = sandbox.stdin.take().expect("piped");
    requests.write_all(b"hold it\n").expect("it runs");
    let mut answer = String::new();
    let answers = sandbox.stdout.take().expect("piped");
    BufReader::new(answers).read_line(&mut answer).expect("it answers");
    assert_eq!(answer, "it held\n");

    assert_eq!(Namespaces::failure(guarded, PUBLIC), "Connection refused");
    // The gateway is an address of the node.
    for address in [PRIVATE, GATEWAY] {
        assert_eq!(Namespaces::failure(guarded, address), "No route to host", "{address}");
    }
    assert_eq!(Namespaces::failure(other, OWN), "no answer");
    drop(requests);
    sandbox.wait().expect("it ends with its agent");
}
