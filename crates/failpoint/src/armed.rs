//! The places of a process that tests can arm.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::{CRASH, DELAY, DIRECTORY_VARIABLE, ERROR, Fault, HANG, TWICE};

/// Longer than anything here takes by itself, shorter than any lease.
const DELAY_TIME: Duration = Duration::from_millis(600);

/// Longer than the watchdogs of tests wait.
const HANG_TIME: Duration = Duration::from_secs(8);

/// How often a test's wish is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

enum Action {
    Crash,
    Delay(Duration),
    Fault(Fault),
}

pub(crate) fn listen() {
    let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) else { return };
    let directory = DIRECTORY.get_or_init(|| directory.into());
    let looking = thread::Builder::new().name("failpoints".to_owned()).spawn(|| {
        loop {
            thread::sleep(LOOK_EVERY);
            take_wish(directory);
        }
    });
    looking.expect("a test build may fail for want of a thread");
}

/// Arms what `arm` says; that the file is gone tells the test that it is in force.
fn take_wish(directory: &Path) {
    let path = directory.join("arm");
    let Ok(wish) = fs::read_to_string(&path) else { return };
    let (place, actions) = wish.split_once('=').expect("a wish is written place=actions");
    fail::cfg(place, actions).expect("a wish is in the grammar of the fail crate");
    fs::remove_file(&path).expect("the wish was just read");
}

pub(crate) fn reach_blocking(place: &'static str) -> Option<Fault> {
    match evaluate(place)? {
        Action::Crash => crash(),
        Action::Delay(time) => {
            thread::sleep(time);
            None
        }
        Action::Fault(fault) => Some(fault),
    }
}

pub(crate) async fn reach(place: &'static str) -> Option<Fault> {
    match evaluate(place)? {
        Action::Crash => crash(),
        Action::Delay(time) => {
            tokio::time::sleep(time).await;
            None
        }
        Action::Fault(fault) => Some(fault),
    }
}

fn evaluate(place: &'static str) -> Option<Action> {
    fail::fail_point!(place, |argument| {
        let argument = argument.unwrap_or_default();
        let action = match argument.as_str() {
            CRASH => Action::Crash,
            DELAY => Action::Delay(DELAY_TIME),
            HANG => Action::Delay(HANG_TIME),
            ERROR => Action::Fault(Fault::Error),
            TWICE => Action::Fault(Fault::Twice),
            other => panic!("failpoint {place}: there is no action '{other}'"),
        };
        note(place, &argument);
        Some(action)
    });
    None
}

fn note(place: &str, action: &str) {
    let directory = DIRECTORY.get().expect("nothing is armed without the directory");
    let noted = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("hits"))
        .and_then(|mut hits| writeln!(hits, "{place} {action}"));
    noted.expect("the test's directory can be written to");
}

/// SIGKILL leaves no more to the process than a power failure leaves to it.
fn crash() -> ! {
    // It cannot fail, and does not return.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        thread::park();
    }
}
