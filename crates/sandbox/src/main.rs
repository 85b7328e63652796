//! The program in an idle network sandbox: it holds the namespace open for its agent.
//!
//! The agent embeds this program as a static binary, and builds the sandbox image from it. Its
//! arguments:
//!
//! ```text
//! IDLE LEASED                  holds a namespace
//! IDLE LEASED DENIED ALLOWED   first restricts what the namespace reaches (lists of address
//!                              ranges), then gives up all rights but the one that it needs
//!                              to remove what tasks leave in the namespace
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
//!                 drop by itself), TOKEN dirty WHAT (a file that it shares with its tasks, or
//!                 what the kernel learnt in it, is not what it was) or TOKEN failed WHY (the
//!                 namespace is not restricted, or cannot be inspected)
//! hold TOKEN      TOKEN held: a task leases it, and it stays without requests; or TOKEN failed WHY
//! ```

mod addresses;
mod guard;
mod inspection;
mod netlink;
mod nft;
mod rights;
mod sockets;
mod traces;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use guard::Policy;
use inspection::{Marks, SHARED_FILES, changed, mark};
use sockets::Sockets;
use traces::Traces;

/// The smallest stack that the system allows, for a thread that reads lines.
const STACK_BYTES: usize = 64 << 10;

/// `EX_USAGE`.
const BAD_ARGUMENTS: u8 = 64;

/// What an answer begins with when a namespace cannot be used.
const FAILED: &str = "failed";

/// What this program holds open.
enum Namespace {
    /// One without any network.
    Empty,
    /// One with restrictions.
    Guarded(Traces),
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
        [idle, leased, denied, allowed] => {
            let namespace = match restrict(denied, allowed) {
                Ok(traces) => Namespace::Guarded(traces),
                Err(reason) => Namespace::Open { reason },
            };
            hold(idle, leased, namespace)
        }
        _ => ExitCode::from(BAD_ARGUMENTS),
    }
}

/// Restricts what this namespace reaches, and then this program.
fn restrict(denied: &str, allowed: &str) -> Result<Traces, String> {
    Policy::parse(denied, allowed)?.apply()?;
    let traces = Traces::open().map_err(|error| format!("cannot open netlink: {error}"))?;
    rights::give_up().map_err(|error| format!("cannot give up its rights: {error}"))?;
    Ok(traces)
}

/// Responds to requests, until none has come for too long.
fn hold(idle: &str, leased: &str, mut namespace: Namespace) -> ExitCode {
    let (Ok(idle), Ok(leased)) = (idle.parse(), leased.parse()) else {
        return ExitCode::from(BAD_ARGUMENTS);
    };
    let (idle, leased) = (Duration::from_secs(idle), Duration::from_secs(leased));
    let (marks, sockets) = (SHARED_FILES.map(mark), Sockets::known());
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
                (token, namespace.inspect(&marks, &sockets))
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
    fn inspect(&mut self, marks: &Marks, sockets: &Sockets) -> String {
        let outcome = match self {
            Self::Open { reason } => Err(format!("{FAILED} {reason}")),
            _ if let Some(path) = changed(marks) => Err(format!("dirty {path}")),
            Self::Empty => match sockets.left() {
                // A connection in this state would keep its port from the next task.
                Ok(lingering) if !lingering.is_empty() => Err("busy tcp".to_owned()),
                Ok(_) => Ok(()),
                Err(place) => Err(format!("busy {place}")),
            },
            Self::Guarded(traces) => renew(traces, sockets),
        };
        match outcome {
            Ok(()) => "clean".to_owned(),
            Err(answer) => answer,
        }
    }

    fn hold(&mut self) -> String {
        match self {
            Self::Open { reason } => format!("{FAILED} {reason}"),
            Self::Empty | Self::Guarded(_) => "held".to_owned(),
        }
    }
}

/// Makes a restricted namespace as good as new; or the answer that says why it is not.
///
/// Without sockets nothing can begin a connection here, and the rules drop what comes in for one
/// that is no longer tracked: so what is gone stays gone.
fn renew(traces: &mut Traces, sockets: &Sockets) -> Result<(), String> {
    let busy = |place: &str| format!("busy {place}");
    let lingering = sockets.left().map_err(busy)?;
    rights::raised(|| traces.remove(&lingering));
    match sockets.left() {
        Ok(lingering) if lingering.is_empty() => {}
        Ok(_) => return Err(busy("tcp")),
        Err(place) => return Err(busy(place)),
    }
    match traces.left() {
        Ok(None) => Ok(()),
        // It may be that of a packet that is just being dropped.
        Ok(Some("conntrack")) => Err(busy("conntrack")),
        Ok(Some(what)) => Err(format!("dirty {what}")),
        Err(reason) => Err(format!("{FAILED} {reason}")),
    }
}
