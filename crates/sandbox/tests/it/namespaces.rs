//! Two network namespaces of this machine with a link between them, and the program in one.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The link between the two namespaces; what is routed by way of the other one's end; and what is
/// private there.
pub(crate) const OWN: &str = "2001:db8:1::2";
pub(crate) const GATEWAY: &str = "2001:db8:1::1";
pub(crate) const PUBLIC: &str = "2001:db8:2::1";
pub(crate) const PRIVATE: &str = "fd00:9::1";

/// Nothing listens on it, so a host that is reached refuses the connection.
const PORT: u16 = 9;

/// Two namespaces with a link between them; dropping them removes all.
pub(crate) struct Namespaces {
    pub(crate) guarded: String,
    pub(crate) other: String,
}

/// The program in a namespace.
pub(crate) struct Program {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What the function returns, on a thread in this namespace.
pub(crate) fn within<T: Send>(namespace: &str, act: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        let file = File::open(format!("/run/netns/{namespace}")).expect("it exists");
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(file.as_fd(), network).expect("enter the namespace");
        act()
    };
    thread::scope(|scope| scope.spawn(inside).join().expect("it does not panic"))
}

pub(crate) fn ip(arguments: &str) -> Result<(), String> {
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
    pub(crate) fn create() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |of: &str| format!("{of}-{}-{number}", std::process::id());
        let all = Self { guarded: name("guarded"), other: name("other") };
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
    pub(crate) fn failure(namespace: &str, address: &str) -> String {
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

// === impl Program ===

impl Program {
    /// With private addresses denied; `before` are the words before the program's own.
    pub(crate) fn start(namespace: &str, before: &[&str]) -> Self {
        let mut process = Command::new("ip")
            .args(["netns", "exec", namespace])
            .args(before)
            .arg(env!("CARGO_BIN_EXE_sandbox"))
            .args(["60", "60", "fc00::/7,fe80::/10", ""])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the program");
        let requests = process.stdin.take().expect("piped");
        let answers = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, requests, answers }
    }

    pub(crate) fn ask(&mut self, word: &str) -> String {
        writeln!(self.requests, "{word} token").expect("it runs");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        answer.strip_prefix("token ").expect("the token").trim_end().to_owned()
    }

    pub(crate) fn end(self) {
        let Self { mut process, requests, .. } = self;
        drop(requests);
        process.wait().expect("it ends with its agent");
    }
}
