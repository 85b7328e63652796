//! What a task's connections leave in a restricted namespace, and what meets the next task.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::net::{AddressFamily, SocketType, socket};

use crate::namespaces::{Namespaces, PUBLIC, Program, ip, within};

/// Behind a link that takes short packets alone.
const NARROW: &str = "2001:db8:3::1";

/// A namespace of a task that has ended and closed its sockets becomes clean within this time.
const LIMIT: Duration = Duration::from_secs(10);

/// A packet crosses the link within this time.
const CROSSING: Duration = Duration::from_millis(300);

/// What is left of connections, as `ip` and the kernel's tables show it.
#[derive(Debug, PartialEq)]
struct Left {
    tracked: String,
    metrics: usize,
    tcp: usize,
}

fn left(namespace: &str) -> Left {
    let output = std::process::Command::new("ip")
        .args(["-n", namespace, "tcp_metrics", "show"])
        .output()
        .expect("run ip");
    let metrics = String::from_utf8_lossy(&output.stdout).lines().count();
    let read = |path: &str| fs::read_to_string(path).expect("the kernel has it");
    let (tracked, tcp) = within(namespace, || {
        let tcp = read("/proc/thread-self/net/tcp6").lines().count() - 1;
        (read("/proc/sys/net/netfilter/nf_conntrack_count").trim().to_owned(), tcp)
    });
    Left { tracked, metrics, tcp }
}

/// A closed socket may live a moment longer: a child that another test has just forked holds a
/// copy of each descriptor until its program starts.
fn becomes(program: &mut Program, expected: &str) {
    let begin = Instant::now();
    loop {
        let answer = program.ask("inspect");
        if answer == expected {
            return;
        }
        assert!(answer.starts_with("busy ") && begin.elapsed() < LIMIT, "{answer}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn becomes_clean(program: &mut Program) {
    becomes(program, "clean");
}

/// A connection from one namespace to the other.
fn connected(namespaces: &Namespaces) -> (TcpStream, TcpStream) {
    let Namespaces { guarded, other } = namespaces;
    let listener = within(other, || TcpListener::bind((PUBLIC, 0)).expect("listen"));
    let target = listener.local_addr().expect("an address");
    let mut client = within(guarded, || TcpStream::connect(target).expect("connect"));
    let (mut server, _) = listener.accept().expect("accept");
    client.write_all(b"question").expect("send");
    server.read_exact(&mut [0; 8]).expect("receive");
    server.write_all(b"answer").expect("send");
    client.read_exact(&mut [0; 6]).expect("receive");
    (client, server)
}

#[test]
fn after_an_inspection_nothing_is_left_of_connections() {
    let Some(namespaces) = Namespaces::create() else { return };
    let guarded = &namespaces.guarded;
    let mut program = Program::start(guarded, &[]);
    becomes_clean(&mut program);

    let (client, server) = connected(&namespaces);
    assert_eq!(program.ask("inspect"), "busy tcp6");
    drop(client);
    drop(server);
    let closed = Left { tracked: "1".to_owned(), metrics: 1, tcp: 1 };
    let begin = Instant::now();
    while left(guarded) != closed {
        assert!(begin.elapsed() < LIMIT, "{:?}", left(guarded));
        thread::sleep(Duration::from_millis(20));
    }

    becomes_clean(&mut program);
    assert_eq!(left(guarded), Left { tracked: "0".to_owned(), metrics: 0, tcp: 0 });
    // The rules still hold, and connections are still possible.
    assert_eq!(Namespaces::failure(guarded, crate::PRIVATE), "No route to host");
    drop(connected(&namespaces));
    becomes_clean(&mut program);
    program.end();
}

#[test]
fn a_late_packet_of_an_old_peer_reaches_nobody() {
    let Some(namespaces) = Namespaces::create() else { return };
    let Namespaces { guarded, other } = &namespaces;
    let mut program = Program::start(guarded, &[]);
    assert_eq!(program.ask("hold"), "held");
    let peer = within(other, || UdpSocket::bind((PUBLIC, 0)).expect("bind"));
    let to = peer.local_addr().expect("an address");
    let bind = |port: u16| {
        let begin = Instant::now();
        loop {
            match within(guarded, || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port))) {
                Ok(socket) => {
                    socket.set_read_timeout(Some(CROSSING)).expect("a timeout");
                    return socket;
                }
                // As above: the closed socket may live a moment longer.
                Err(error) => {
                    assert!(error.kind() == ErrorKind::AddrInUse, "{error}");
                    assert!(begin.elapsed() < LIMIT, "{error}");
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
    };
    let first = bind(0);
    first.send_to(b"question", to).expect("send");
    let (_, from) = peer.recv_from(&mut [0; 8]).expect("receive");
    drop(first);

    // Before an inspection the next socket on the port gets what was meant for the last one.
    let next = bind(from.port());
    peer.send_to(b"late", from).expect("send");
    assert_eq!(next.recv(&mut [0; 8]).expect("it is tracked"), 4);
    drop(next);
    becomes_clean(&mut program);
    let next = bind(from.port());
    peer.send_to(b"late", from).expect("send");
    assert!(next.recv(&mut [0; 8]).is_err(), "nothing tracks it");
    drop(next);
    program.end();
}

#[test]
fn a_peer_that_does_not_end_its_connection_gets_no_answer_from_the_next_task() {
    let Some(namespaces) = Namespaces::create() else { return };
    let guarded = &namespaces.guarded;
    let mut program = Program::start(guarded, &[]);
    assert_eq!(program.ask("hold"), "held");
    // How long the kernel waits for the peer's end.
    within(guarded, || fs::write("/proc/sys/net/ipv4/tcp_fin_timeout", "1")).expect("write");
    let (client, mut server) = connected(&namespaces);
    drop(client);
    assert_eq!(program.ask("inspect"), "busy tcp6", "the kernel waits for the peer");
    becomes_clean(&mut program);
    for _ in 0..2 {
        // If anything answered the first, that would be a reset, and the second would fail.
        server.write_all(b"late").expect("nothing answers");
        thread::sleep(CROSSING);
    }
    assert_eq!(left(guarded), Left { tracked: "0".to_owned(), metrics: 0, tcp: 0 });
    program.end();
}

#[test]
fn a_socket_that_another_process_holds_keeps_a_namespace_busy() {
    let Some(namespaces) = Namespaces::create() else { return };
    let guarded = &namespaces.guarded;
    let mut program = Program::start(guarded, &[]);
    becomes_clean(&mut program);
    // This process is outside of the namespace.
    let held = within(guarded, || UdpSocket::bind("[::1]:0").expect("bind"));
    assert_eq!(program.ask("inspect"), "busy udp6");
    drop(held);
    becomes_clean(&mut program);
    // No table has it, but whoever holds it could connect to the next task.
    let family = (AddressFamily::INET6, SocketType::STREAM);
    let held = within(guarded, || socket(family.0, family.1, None).expect("a socket"));
    assert_eq!(program.ask("inspect"), "busy sockstat");
    drop(held);
    let family = (AddressFamily::NETLINK, SocketType::RAW);
    let held = within(guarded, || {
        let held = socket(family.0, family.1, None).expect("a socket");
        let any = rustix::net::netlink::SocketAddrNetlink::new(0, 0);
        rustix::net::bind(&held, &any).expect("bind");
        held
    });
    becomes(&mut program, "busy netlink");
    drop(held);
    becomes_clean(&mut program);
    program.end();
}

#[test]
fn a_namespace_in_which_the_kernel_learnt_a_route_is_not_clean() {
    let Some(namespaces) = Namespaces::create() else { return };
    let Namespaces { guarded, other } = &namespaces;
    within(other, || fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")).expect("write");
    for arguments in [
        "link add narrow mtu 1280 type veth peer name end mtu 1280",
        "link set narrow up",
        "link set end up",
        "-6 route add 2001:db8:3::/64 dev narrow",
    ] {
        ip(&format!("-n {other} {arguments}")).expect("configure");
    }
    let mut program = Program::start(guarded, &[]);
    assert_eq!(program.ask("hold"), "held");
    within(guarded, || {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("bind");
        socket.send_to(&[0; 1400], (NARROW, 9)).expect("send");
    });
    thread::sleep(CROSSING);
    assert_eq!(program.ask("inspect"), "dirty routes");
    program.end();
}

#[test]
fn a_program_without_the_right_to_remove_traces_says_so() {
    let Some(namespaces) = Namespaces::create() else { return };
    for (lost, reason) in [
        ("net_admin", "failed the kernel does not take its nftables"),
        ("setpcap", "failed cannot give up its rights"),
        ("setuid", "failed cannot give up its rights"),
    ] {
        let lost = format!("-{lost}");
        let before = ["setpriv", "--bounding-set", &lost, "--inh-caps", &lost];
        let mut program = Program::start(&namespaces.guarded, &before);
        for word in ["inspect", "hold"] {
            let answer = program.ask(word);
            assert!(answer.starts_with(reason), "{lost}: {answer}");
        }
        program.end();
        let _ = ip(&format!("netns exec {} nft flush ruleset", namespaces.guarded));
    }
}
