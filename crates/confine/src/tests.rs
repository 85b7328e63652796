//! What a confined thread may still do. Rules of Landlock and seccomp hold for the thread that
//! enters them, so each test confines a separate one.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::*;

/// Far more than a test needs: these limits hold for the whole process.
const GENEROUS: Confinement = Confinement {
    read: Vec::new(),
    write: Vec::new(),
    network: false,
    memory_bytes: 64 << 30,
    cpu_seconds: 24 * 3600,
    allow_unconfined: false,
};

fn confined(confinement: Confinement, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        confinement.enter().unwrap();
        work();
    });
    thread.join().unwrap();
}

fn denied<T>(outcome: std::io::Result<T>) -> bool {
    outcome.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn only_named_paths_open() {
    assert!(is_supported(), "these tests need a kernel with Landlock");
    let dir = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| dir.path().join(name));
    for directory in [&own, &other] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), "text").unwrap();
    }
    let secret = dir.path().join("key");
    fs::write(&secret, "secret").unwrap();
    let write = vec![own.clone()];
    confined(Confinement { write, ..GENEROUS }, move || {
        assert!(denied(fs::read(&secret)) && denied(fs::read(other.join("file"))));
        assert!(denied(fs::write(other.join("file"), "new")) && denied(fs::read_dir(&other)));
        fs::hard_link(&secret, own.join("link")).unwrap_err();
        let memory = format!("/proc/{}/mem", std::process::id());
        assert!(denied(fs::read(memory)));
        fs::write(own.join("file"), "new").unwrap();
        fs::create_dir_all(own.join("a/b")).unwrap();
        std::os::unix::fs::symlink(&secret, own.join("a/to-key")).unwrap();
        assert!(denied(fs::read(own.join("a/to-key"))));
    });
    assert_eq!(fs::read_to_string(dir.path().join("own/file")).unwrap(), "new");
}

#[test]
fn a_directory_to_read_is_not_written_and_what_was_written_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().to_owned();
    let [usr, lib] = ["/usr", "/lib"].map(PathBuf::from);
    let read = vec![usr, lib, PathBuf::from("/lib64"), PathBuf::from("/bin")];
    confined(Confinement { read, write: vec![own.clone()], ..GENEROUS }, move || {
        assert!(denied(fs::write("/usr/a-test-of-confine", "")));
        let program = own.join("program");
        fs::copy("/bin/true", &program).unwrap();
        assert!(denied(std::process::Command::new(&program).status()));
        assert!(std::process::Command::new("/bin/true").status().unwrap().success());
    });
}

#[test]
fn no_socket_of_this_machine_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docker.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let read = vec![dir.path().to_owned()];
    let with_network = Confinement { network: true, read: read.clone(), ..GENEROUS };
    let socket = path.clone();
    confined(with_network, move || {
        assert!(denied(UnixStream::connect(&socket)));
        std::net::TcpStream::connect(address).unwrap();
        // Runtimes wake themselves with such a pair, which leads nowhere.
        UnixStream::pair().unwrap();
    });
    confined(Confinement { read, ..GENEROUS }, move || {
        assert!(denied(UnixStream::connect(&path)));
        assert!(denied(std::net::TcpStream::connect(address)));
        assert!(denied(UdpSocket::bind("127.0.0.1:0")));
    });
}

#[test]
fn no_mount_and_no_namespace_is_made() {
    let usr = vec![PathBuf::from("/usr"), PathBuf::from("/lib"), PathBuf::from("/lib64")];
    let write = vec![PathBuf::from("/dev/null")];
    confined(Confinement { read: usr, write, ..GENEROUS }, || {
        for arguments in [&["--user", "/usr/bin/true"][..], &["--mount", "/usr/bin/true"]] {
            let output = std::process::Command::new("/usr/bin/unshare").args(arguments).output();
            let output = output.unwrap();
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(words.contains("Operation not permitted"), "{words}");
        }
    });
}

#[test]
fn a_path_that_does_not_exist_needs_no_right() {
    let read = vec![Path::new("/does/not/exist").to_owned()];
    confined(Confinement { read, ..GENEROUS }, || {});
}

/// The error that this system call ends with, made by a program: 0 if it succeeds.
#[cfg(target_arch = "x86_64")]
fn errno_of(call: i64, arguments: &str) -> i32 {
    let script = format!("my $b = \"\\0\" x 16; $! = 0; syscall({call}{arguments}); exit($! + 0)");
    let status = std::process::Command::new("/usr/bin/perl").args(["-e", &script]).status();
    status.expect("perl is part of every Debian").code().expect("it exits")
}

/// The kernel numbers each call of the x32 interface anew: a filter of plain numbers lets them pass.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_the_x32_interface_are_denied() {
    let read = ["/usr", "/lib", "/lib64", "/etc"].map(PathBuf::from).to_vec();
    let write = vec![PathBuf::from("/dev/null")];
    confined(Confinement { read, write, ..GENEROUS }, || {
        let x32 = 0x4000_0000;
        assert_eq!(errno_of(libc::SYS_getpid, ""), 0);
        for call in [libc::SYS_getpid, libc::SYS_ptrace, libc::SYS_socket, 520, 547] {
            assert_eq!(errno_of(x32 + call, ", 0, 0, 0"), libc::EPERM, "{call}");
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn another_process_is_not_limited_or_scheduled() {
    let read = ["/usr", "/lib", "/lib64", "/etc"].map(PathBuf::from).to_vec();
    let write = vec![PathBuf::from("/dev/null")];
    confined(Confinement { read, write, ..GENEROUS }, || {
        let files = libc::RLIMIT_NOFILE;
        assert_eq!(errno_of(libc::SYS_prlimit64, &format!(", 0, {files}, 0, $b")), 0);
        let of_parent = format!(", getppid(), {files}, 0, $b");
        assert_eq!(errno_of(libc::SYS_prlimit64, &of_parent), libc::EPERM);
        // Of the caller too, unless it says 0: a filter cannot know its number.
        let of_caller = format!(", $$, {files}, 0, $b");
        assert_eq!(errno_of(libc::SYS_prlimit64, &of_caller), libc::EPERM);
        assert_eq!(errno_of(libc::SYS_sched_setscheduler, ", getppid(), 0, $b"), libc::EPERM);
        assert_eq!(errno_of(libc::SYS_sched_setaffinity, ", getppid(), 8, $b"), libc::EPERM);
        assert_eq!(errno_of(libc::SYS_move_pages, ", getppid(), 0, 0, 0, 0, 0"), libc::EPERM);
    });
}
