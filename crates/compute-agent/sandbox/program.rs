//! What runs in an idle network sandbox: it holds the network namespace open, and tells whether
//! anything of the last task is left in it.
//!
//! For each line `look TOKEN` on its input it prints `TOKEN clean`, `TOKEN busy WHERE` (a socket
//! is left, which the kernel may still drop by itself) or `TOKEN dirty WHICH` (a file that it
//! shares with its tasks is not what it was). It ends when nobody has looked for long: whoever
//! made it is gone for good.

use std::ffi::{CString, c_char};
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Its agent looks once a minute; one that is restarted or upgraded is back sooner than this.
const SILENCE: Duration = Duration::from_secs(30 * 60);

/// The files that the Engine gives to every container of a network namespace, writable.
const SHARED_FILES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/// The kernel's tables of this namespace's sockets: a line of titles, then one per socket, those
/// without a process included.
const SOCKET_TABLES: [&str; 12] = [
    "tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6", "unix",
    "packet",
];

/// All that a task could leave in a file, but for the times of its last read and change: the
/// Engine itself touches the latter whenever a container joins.
#[derive(PartialEq)]
struct Mark {
    content: Vec<u8>,
    attributes: Vec<u8>,
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
}

/// Far more than the Engine writes to any of them.
const MOST_BYTES: u64 = 64 << 10;

unsafe extern "C" {
    fn listxattr(path: *const c_char, list: *mut c_char, size: usize) -> isize;
}

/// The smallest that the system allows, for a thread that reads lines.
const STACK_BYTES: usize = 64 << 10;

fn main() -> ExitCode {
    let marks = SHARED_FILES.map(mark);
    let (sender, lines) = mpsc::sync_channel(1);
    let reading = move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    if thread::Builder::new().stack_size(STACK_BYTES).spawn(reading).is_err() {
        return ExitCode::FAILURE;
    }
    while let Ok(line) = lines.recv_timeout(SILENCE) {
        let Some(token) = line.strip_prefix("look ") else { continue };
        let answer = format!("{token} {}\n", look(&marks));
        let mut output = io::stdout().lock();
        if output.write_all(answer.as_bytes()).and_then(|()| output.flush()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn look(marks: &[Option<Mark>; SHARED_FILES.len()]) -> String {
    for (path, before) in SHARED_FILES.iter().zip(marks) {
        if mark(path) != *before {
            return format!("dirty {path}");
        }
    }
    for table in SOCKET_TABLES {
        // A kernel without the protocol has no table of it.
        let Ok(text) = fs::read_to_string(format!("/proc/self/net/{table}")) else { continue };
        if text.lines().nth(1).is_some() {
            return format!("busy {table}");
        }
    }
    "clean".to_owned()
}

/// None when the file is not there, or larger than it can have been.
fn mark(path: &str) -> Option<Mark> {
    let file = fs::metadata(path).ok()?;
    if file.len() > MOST_BYTES {
        return None;
    }
    Some(Mark {
        content: fs::read(path).ok()?,
        attributes: attributes(path),
        inode: file.ino(),
        mode: file.mode(),
        owner: (file.uid(), file.gid()),
        modified: (file.mtime(), file.mtime_nsec()),
    })
}

/// The names of a file's extended attributes; what cannot be listed differs from any list.
fn attributes(path: &str) -> Vec<u8> {
    let mut names = vec![0_u8; 4096];
    let Ok(path) = CString::new(path) else { return names };
    // SAFETY: the path ends with a NUL, and no more is written than the list has room for.
    let length = unsafe { listxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(usize::try_from(length).unwrap_or(1));
    names
}
