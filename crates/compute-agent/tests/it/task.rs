//! A static program without dependencies, for the image of these tests; compiled by `image.rs`.
//!
//! Its arguments are steps that are carried out one after the other.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

unsafe extern "C" {
    fn socket(domain: i32, kind: i32, protocol: i32) -> i32;
    fn setsockopt(file: i32, level: i32, name: i32, value: *const u8, length: u32) -> i32;
    fn connect(file: i32, address: *const u8, length: u32) -> i32;
    fn send(file: i32, bytes: *const u8, length: usize, flags: i32) -> isize;
    fn recv(file: i32, bytes: *mut u8, length: usize, flags: i32) -> isize;
    fn signal(number: i32, handler: usize) -> usize;
    fn setgroups(count: usize, groups: *const u32) -> i32;
    fn setgid(group: u32) -> i32;
    fn setuid(user: u32) -> i32;
    fn kill(process: i32, signal: i32) -> i32;
    fn mknod(path: *const std::ffi::c_char, mode: u32, device: u64) -> i32;
    fn unshare(flags: i32) -> i32;
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;

const SIGTERM: i32 = 15;
const SIGUSR1: i32 = 10;

static IS_SIGNALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(_: i32) {
    IS_SIGNALLED.store(true, Ordering::Relaxed);
}

/// How long a connection is waited for.
const REACH: Duration = Duration::from_secs(3);
const IGNORE: usize = 1;

fn main() {
    let mut arguments = std::env::args().skip(1);
    while let Some(step) = arguments.next() {
        let mut next = || arguments.next().expect("this step takes an argument");
        match step.as_str() {
            "out" => println!("{}", next()),
            "err" => eprintln!("{}", next()),
            "raw" => {
                // Bytes that are no UTF-8, and no line end.
                std::io::stdout().write_all(&[b'a', 0xFF, b'z']).expect("write");
            }
            "many" => {
                let count: usize = next().parse().expect("a number");
                for line in 0..count {
                    println!("line {line}");
                }
            }
            "env" => {
                let name = next();
                println!("{name}={}", std::env::var(&name).unwrap_or_default());
            }
            "cwd" => println!("{}", std::env::current_dir().expect("a directory").display()),
            "cat" => {
                let mut text = String::new();
                let file = std::fs::File::open(next());
                file.expect("open").read_to_string(&mut text).expect("read");
                print!("{text}");
            }
            "write" => {
                let (path, text) = (next(), next());
                match std::fs::write(&path, text) {
                    Ok(()) => println!("wrote {path}"),
                    Err(error) => println!("cannot write {path}: {}", error.kind()),
                }
            }
            "interfaces" => {
                let listed = std::fs::read_dir("/sys/class/net").expect("list");
                let mut names: Vec<_> = listed
                    .map(|entry| entry.expect("entry").file_name().into_string().expect("text"))
                    .collect();
                names.sort();
                println!("{}", names.join(" "));
            }
            "status" => {
                let text = std::fs::read_to_string("/proc/self/status").expect("read");
                let field = next();
                let line = text.lines().find(|line| line.starts_with(&field)).expect("field");
                println!("{line}");
            }
            "ignore-sigterm" => {
                // SAFETY: `signal` with SIG_IGN installs no handler of ours.
                unsafe { signal(SIGTERM, IGNORE) };
                println!("ignoring");
            }
            "namespace" => {
                let path = format!("/proc/self/ns/{}", next());
                println!("{}", std::fs::read_link(path).expect("read the link").display());
            }
            "entries" => {
                let path = next();
                println!("{path}: {}", std::fs::read_dir(&path).expect("list").count());
            }
            "lines" => {
                let path = next();
                let text = std::fs::read_to_string(&path).expect("read");
                println!("{path}: {}", text.lines().count());
            }
            "listen" => said("listen", TcpListener::bind(format!("127.0.0.1:{}", next()))),
            "connect" => said("connect", TcpStream::connect(format!("127.0.0.1:{}", next()))),
            "reach" => {
                let target = next();
                let address = target.parse().expect("an address and a port");
                said("reach", TcpStream::connect_timeout(&address, REACH));
            }
            "reach-bound" => {
                // A socket that is bound to the interface takes any address for a neighbour.
                said("reach-bound", connect_bound(&next()));
            }
            "dns" => {
                // Any answer to a question for the root's name servers.
                let target = next();
                let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("bind");
                socket.set_read_timeout(Some(REACH)).expect("a timeout");
                let query = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
                let answer = socket.send_to(&query, &target).and_then(|_| {
                    let mut answer = [0; 512];
                    socket.recv_from(&mut answer)
                });
                said("dns", answer);
            }
            "flush-rules" => said("flush-rules", flush_rules()),
            "own" => {
                let (path, user) = (next(), next().parse().expect("a user"));
                said("own", std::os::unix::fs::chown(path, Some(user), Some(user)));
            }
            "mode" => {
                let (path, mode) = (next(), u32::from_str_radix(&next(), 8).expect("a mode"));
                said("mode", std::fs::set_permissions(path, Permissions::from_mode(mode)));
            }
            "stat" => {
                let found = std::fs::metadata(next()).expect("stat");
                println!("{}:{} {:o}", found.uid(), found.gid(), found.mode() & 0o7777);
            }
            "copy" => {
                let (from, to) = (next(), next());
                said("copy", std::fs::copy(from, to));
            }
            // SAFETY: the list of groups is empty.
            "become" => said("become", {
                let user = next().parse().expect("a user");
                unsafe {
                    is_ok(setgroups(0, std::ptr::null()))
                        .and_then(|()| is_ok(setgid(user)))
                        .and_then(|()| is_ok(setuid(user)))
                }
            }),
            "read" => said("read", std::fs::read(next())),
            "open" => said("open", std::fs::OpenOptions::new().write(true).open(next())),
            "processes" => {
                let names = std::fs::read_dir("/proc").expect("list").flatten();
                let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
                let count = names
                    .filter(|entry| entry.file_name().to_str().is_some_and(is_process))
                    .count();
                println!("processes: {count}");
            }
            // SAFETY: signal 0 only asks.
            "signal" => said("signal", unsafe { is_ok(kill(next().parse().expect("one"), 0)) }),
            // SAFETY: neither takes a pointer.
            "raw-socket" => said("raw-socket", unsafe { is_ok(socket(2, 3, 1).min(0)) }),
            "new-namespace" => said("new-namespace", unsafe { is_ok(unshare(1 << 17)) }),
            // SAFETY: the path ends with a zero. The device is the first disk.
            "device" => said("device", unsafe { is_ok(mknod(c"/disk".as_ptr(), 0o60_600, 8 << 8)) }),
            "connect-socket" => said("connect-socket", UnixStream::connect(next())),
            "connect-abstract" => {
                let name = SocketAddr::from_abstract_name(next()).expect("a name");
                said("connect-abstract", UnixStream::connect_addr(&name));
            }
            "run" => {
                let program = next();
                let steps: Vec<_> = arguments.by_ref().collect();
                said("run", std::process::Command::new(program).args(steps).status());
            }
            "serve" => {
                let listener = TcpListener::bind(format!("0.0.0.0:{}", next())).expect("listen");
                println!("serves");
                std::mem::forget(listener);
            }
            "address" => {
                // The address that this host would send from.
                let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("bind");
                socket.connect("8.8.8.8:53").expect("a default route");
                println!("{}", socket.local_addr().expect("an address").ip());
            }
            "abstract" => {
                let name = SocketAddr::from_abstract_name(next()).expect("a name");
                said("abstract", UnixListener::bind_addr(&name));
            }
            "linger" => {
                // The side that closes first keeps the port for a minute.
                let server = TcpListener::bind(format!("127.0.0.1:{}", next())).expect("listen");
                let address = server.local_addr().expect("an address");
                let mut client = TcpStream::connect(address).expect("connect");
                drop(server.accept().expect("accept"));
                assert_eq!(client.read(&mut [0]).expect("read the end"), 0);
                println!("lingers");
            }
            "leave-behind" => {
                let steps: Vec<_> = arguments.by_ref().collect();
                std::process::Command::new("/task").args(steps).spawn().expect("spawn");
            }
            "await" => {
                // SAFETY: the handler has the signature of one, and only stores to an atomic.
                unsafe { signal(SIGUSR1, note_signal as extern "C" fn(i32) as usize) };
                println!("waiting");
                while !IS_SIGNALLED.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            "sleep" => {
                std::thread::sleep(Duration::from_millis(next().parse().expect("a number")));
            }
            "burn" => {
                // This much more CPU time of this process.
                let end = cpu_millis() + next().parse::<i64>().expect("a number");
                while cpu_millis() < end {}
            }
            "hold-memory" => {
                // Written to, since the kernel provides pages when they are used.
                let mebibytes: usize = next().parse().expect("a number");
                let held = std::hint::black_box(vec![1_u8; mebibytes << 20]);
                println!("holds memory");
                std::mem::forget(held);
            }
            "fill-memory" => {
                let mut blocks = Vec::new();
                loop {
                    blocks.push(vec![1_u8; 1 << 20]);
                }
            }
            "exit" => std::process::exit(next().parse().expect("a number")),
            other => panic!("'{other}' is no step"),
        }
    }
}

/// Connects from a socket that is bound to the first interface, or fails within the time limit.
fn connect_bound(target: &str) -> std::io::Result<()> {
    const AF_INET: i32 = 2;
    const SOCK_STREAM: i32 = 1;
    const SOL_SOCKET: i32 = 1;
    const SO_SNDTIMEO: i32 = 21;
    const SO_BINDTODEVICE: i32 = 25;
    let target: std::net::SocketAddrV4 = target.parse().expect("an address and a port");
    let mut address = Vec::new();
    address.extend((AF_INET as u16).to_ne_bytes());
    address.extend(target.port().to_be_bytes());
    address.extend(target.ip().octets());
    address.extend([0; 8]);
    let timeout = [REACH.as_secs() as i64, 0].map(i64::to_ne_bytes).concat();
    let device = b"eth0";
    // SAFETY: every pointer is to as many bytes as its length says, and outlives the call.
    unsafe {
        let file = socket(AF_INET, SOCK_STREAM, 0);
        let (name, length) = (device.as_ptr(), device.len() as u32);
        is_ok(setsockopt(file, SOL_SOCKET, SO_BINDTODEVICE, name, length))?;
        let length = timeout.len() as u32;
        is_ok(setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, timeout.as_ptr(), length))?;
        is_ok(connect(file, address.as_ptr(), address.len() as u32))
    }
}

fn is_ok(outcome: i32) -> std::io::Result<()> {
    match outcome {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Has the kernel delete every nftables table of this network namespace.
fn flush_rules() -> std::io::Result<()> {
    const AF_NETLINK: i32 = 16;
    const SOCK_RAW: i32 = 3;
    const NETLINK_NETFILTER: i32 = 12;
    let message = |kind: u16, flags: u16, family: u8, resource: u16| {
        let mut bytes = Vec::new();
        bytes.extend(20_u32.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([family, 0]);
        bytes.extend(resource.to_be_bytes());
        bytes
    };
    // Begin of a batch, NFT_MSG_DELTABLE with an acknowledgement, end of the batch.
    let batch =
        [message(16, 1, 0, 10), message(10 << 8 | 2, 5, 2, 0), message(17, 1, 0, 10)].concat();
    let mut answer = [0_u8; 512];
    // SAFETY: every pointer is to as many bytes as its length says, and outlives the call.
    let length = unsafe {
        let file = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
        if send(file, batch.as_ptr(), batch.len(), 0) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        recv(file, answer.as_mut_ptr(), answer.len(), 0)
    };
    match (length, answer[16..20].try_into().map(i32::from_ne_bytes)) {
        (20.., Ok(0)) => Ok(()),
        (20.., Ok(error)) => Err(std::io::Error::from_raw_os_error(-error)),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn cpu_millis() -> i64 {
    let mut time = [0; 2];
    // SAFETY: a `timespec` is two 64-bit integers on the platforms of these tests.
    unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time[0] * 1000 + time[1] / 1_000_000
}

/// Holds its resources until it ends.
fn said<T>(step: &str, result: std::io::Result<T>) {
    match result {
        Ok(held) => {
            println!("{step}: yes");
            std::mem::forget(held);
        }
        Err(error) => println!("{step}: {}", error.kind()),
    }
}
