//! A static program without dependencies, for the image of these tests; compiled by `image.rs`.
//!
//! Its arguments are steps that are carried out one after the other.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;

const SIGTERM: i32 = 15;
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
            "listen" => said("listen", TcpListener::bind(format!("127.0.0.1:{}", next()))),
            "connect" => said("connect", TcpStream::connect(format!("127.0.0.1:{}", next()))),
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
