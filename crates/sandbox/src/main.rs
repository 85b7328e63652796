//! The program in an idle network sandbox: it holds the namespace open for its agent.
//!
//! The agent embeds this program as a static binary, and builds the sandbox image from it. A
//! request is a line on standard input: a word, and a token that the response repeats.
//!
//! ```text
//! inspect TOKEN   TOKEN clean, TOKEN busy WHERE (a socket is left, which the kernel may still
//!                 drop by itself) or TOKEN dirty WHICH (a file that it shares with its tasks is
//!                 not what it was); a task that leased it has ended
//! hold TOKEN      TOKEN held: a task leases it, and it stays without requests
//! ```
//!
//! The program ends, and its container with it, when no request has come for a long time: its
//! agent is gone for good. Its two arguments are the timeouts in seconds: one for an idle sandbox,
//! one for a leased one.

mod inspection;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use inspection::{SHARED_FILES, inspect, mark};

/// The smallest stack that the system allows, for a thread that reads lines.
const STACK_BYTES: usize = 64 << 10;

/// `EX_USAGE`.
const BAD_ARGUMENTS: u8 = 64;

fn main() -> ExitCode {
    let mut seconds = std::env::args().skip(1).map(|argument| argument.parse().ok());
    let (Some(Some(idle)), Some(Some(lent))) = (seconds.next(), seconds.next()) else {
        return ExitCode::from(BAD_ARGUMENTS);
    };
    let (idle, lent) = (Duration::from_secs(idle), Duration::from_secs(lent));
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
                (token, inspect(&marks))
            }
            Some(("hold", token)) => {
                silence = lent;
                (token, "held".to_owned())
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
