//! What connections that are passed on cost a follower: memory and files, both limited.
//!
//! Each test runs in a process of its own, where no other test takes any.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use control_plane::store::{Exposure, Leader};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Cluster;
use super::passing::Following;
use crate::server::PATIENCE;

/// In the environment of a process that runs one test.
const VARIABLE: &str = "RUNS_ALONE";

const CONNECTIONS: usize = 1000;

/// Opened before the first reading, so that what the process takes once is not counted.
const EARLIER: usize = 100;

const MOST_BYTES: usize = 32 * 1024;

/// Files that are kept for other purposes than connections.
const OTHER_FILES: u64 = 256;

/// Runs a test of this module in another process.
fn alone(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(VARIABLE).is_some() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        return runtime.block_on(test);
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let name = format!("leading::cost::{name}");
    command.args(["--exact", &name, "--nocapture"]).env(VARIABLE, "1");
    let output = command.output().expect("run this program again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

fn limit_files(current: Option<u64>) {
    setrlimit(Resource::Nofile, Rlimit { current, ..getrlimit(Resource::Nofile) })
        .expect("change the limit of open files");
}

/// A leader that only counts what is passed on to it.
fn counting_leader(cluster: &Cluster) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a bound socket").to_string();
    let pass_key = [7; 32];
    cluster.database.pretend(Leader { address, exposure: Exposure::OpenLoopback, pass_key });
    let passed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&passed);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let stream = stream.expect("accept");
            // A connection that only shows whether this leader accepts any sends nothing.
            if stream.peek(&mut [0]).is_ok_and(|seen| seen > 0) {
                kept.push(stream);
                counted.store(kept.len(), Ordering::Release);
            }
        }
    });
    let database = cluster.database.clone();
    tokio::spawn(async move {
        loop {
            database.beat();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    passed
}

fn connected(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("connect");
    stream.write_all(b"GET ").expect("send");
    stream
}

async fn until(passed: &AtomicUsize, expected: usize) {
    let begun = Instant::now();
    loop {
        let now = passed.load(Ordering::Acquire);
        assert!(now <= expected, "{now} are passed on");
        if now == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE * 3, "{now} are passed on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_passed_connection_takes_at_most_32_kilobytes() {
    alone("a_passed_connection_takes_at_most_32_kilobytes", async {
        limit_files(getrlimit(Resource::Nofile).maximum);
        let cluster = Cluster::new();
        let passed = counting_leader(&cluster);
        let follower = Following::of(cluster.follow("b").await);
        let mut open = Vec::new();
        let mut resident_with = async |connections: usize| {
            open.extend((open.len()..connections).map(|_| connected(follower.address)));
            until(&passed, connections).await;
            resident_bytes()
        };
        let before = resident_with(EARLIER).await;
        let after = resident_with(EARLIER + CONNECTIONS).await;
        let each = after.saturating_sub(before) / CONNECTIONS;
        println!("{each} bytes per connection");
        assert!(each <= MOST_BYTES, "{each} bytes per connection");
    });
}

#[test]
fn a_follower_passes_on_half_as_many_connections_as_files_allow() {
    alone("a_follower_passes_on_half_as_many_connections_as_files_allow", async {
        let half = 20;
        limit_files(Some(OTHER_FILES + 2 * half));
        let half = usize::try_from(half).expect("a small number");
        let cluster = Cluster::new();
        let passed = counting_leader(&cluster);
        let follower = Following::of(cluster.follow("b").await);
        let mut open: Vec<_> = (0..half).map(|_| connected(follower.address)).collect();
        until(&passed, half).await;
        let waiting = connected(follower.address);
        tokio::time::sleep(Duration::from_millis(500)).await;
        until(&passed, half).await;
        // It waits in the backlog until another one ends, here by a reset: a leader that keeps its end
        // of a connection keeps that connection.
        let reset = open.pop().expect("there are some");
        set_socket_linger(&reset, Some(Duration::ZERO)).expect("a socket");
        drop(reset);
        until(&passed, half + 1).await;
        drop(waiting);
    });
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("read /proc");
    let pages: usize = text.split(' ').nth(1).expect("a field").parse().expect("a number");
    pages * rustix::param::page_size()
}
