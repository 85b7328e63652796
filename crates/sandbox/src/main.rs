//! The program in an idle network sandbox: it holds the namespace open for its agent.
//!
//! The agent embeds this program as a static binary, and builds the sandbox image from it. Its
//! arguments:
//!
//! ```text
//! IDLE LEASED                  holds a namespace
//! IDLE LEASED DENIED ALLOWED   first restricts what the namespace reaches (lists of address
//!                              ranges), then gives up its rights
//! addresses                    prints the addresses of its namespace, and ends
//! ```
//!
//! `IDLE` and `LEASED` are times in seconds without a request, after which the program ends, and
//! its container with it: its agent is gone for good.
//!
//! A request is a line on standard input: a word, and a token that the response repeats.
//!
//! ```text
//! inspect TOKEN   TOKEN clean, TOKEN busy WHERE (a socket is left, which the kernel may still
//!                 drop by itself), TOKEN dirty WHICH (a file that it shares with its tasks is not
//!                 what it was), TOKEN used (a restricted namespace is for one task) or
//!                 TOKEN failed WHY (the namespace is not restricted)
//! hold TOKEN      TOKEN held: a task leases it, and it stays without requests; or TOKEN failed WHY
//! ```

mod addresses;
mod guard;
mod inspection;
mod nft;

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use guard::Policy;
use inspection::{Mark, SHARED_FILES, inspect, mark};

/// The smallest stack that the system allows, for a thread that reads lines.
const STACK_BYTES: usize = 64 << 10;

/// `EX_USAGE`.
const BAD_ARGUMENTS: u8 = 64;

/// An unprivileged user and group, by number: the image has no names.
const NOBODY: u32 = 65534;

/// How this program, executed again without rights, knows what became of the restrictions.
const GUARDED: &str = "guarded";
const FAILED: &str = "failed";

/// What this program holds open.
enum Namespace {
    /// One without any network.
    Empty,
    /// One with restrictions.
    Guarded { is_used: bool },
    /// One that should have restrictions.
    Open { reason: String },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["addresses"] => {
            let text: String = addresses::own().iter().map(|own| format!("{own}\n")).collect();
            match io::stdout().write_all(text.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        [idle, leased] => hold(idle, leased, Namespace::Empty),
        [idle, leased, GUARDED, ""] => hold(idle, leased, Namespace::Guarded { is_used: false }),
        [idle, leased, FAILED, reason] => {
            hold(idle, leased, Namespace::Open { reason: (*reason).to_owned() })
        }
        [idle, leased, denied, allowed] => {
            let outcome = Policy::parse(denied, allowed).and_then(Policy::apply);
            let outcome = match &outcome {
                Ok(()) => [GUARDED, ""],
                Err(reason) => [FAILED, reason.as_str()],
            };
            // Another user has none of the capabilities.
            let _ = Command::new("/proc/self/exe")
                .args([idle, leased])
                .args(outcome)
                .uid(NOBODY)
                .gid(NOBODY)
                .exec();
            ExitCode::FAILURE
        }
        _ => ExitCode::from(BAD_ARGUMENTS),
    }
}

/// Responds to requests, until none has come for too long.
fn hold(idle: &str, leased: &str, mut namespace: Namespace) -> ExitCode {
    let (Ok(idle), Ok(leased)) = (idle.parse(), leased.parse()) else {
        return ExitCode::from(BAD_ARGUMENTS);
    };
    let (idle, leased) = (Duration::from_secs(idle), Duration::from_secs(leased));
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
    let mut silence = idle;
    while let Ok(line) = lines.recv_timeout(silence) {
        let (token, answer) = match line.split_once(' ') {
            Some(("inspect", token)) => {
                silence = idle;
                (token, namespace.inspect(&marks))
            }
            Some(("hold", token)) => {
                silence = leased;
                (token, namespace.hold())
            }
            _ => continue,
        };
        let answer = format!("{token} {answer}\n");
        let mut output = io::stdout().lock();
        if output.write_all(answer.as_bytes()).and_then(|()| output.flush()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

// === impl Namespace ===

impl Namespace {
    fn inspect(&self, marks: &[Option<Mark>; SHARED_FILES.len()]) -> String {
        match self {
            Self::Guarded { is_used: true } => "used".to_owned(),
            Self::Open { reason } => format!("{FAILED} {reason}"),
            Self::Empty | Self::Guarded { is_used: false } => inspect(marks),
        }
    }

    fn hold(&mut self) -> String {
        match self {
            Self::Open { reason } => return format!("{FAILED} {reason}"),
            Self::Guarded { is_used } => *is_used = true,
            Self::Empty => {}
        }
        "held".to_owned()
    }
}
