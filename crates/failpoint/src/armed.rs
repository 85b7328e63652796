//! Failpoints that a test arms in the running process.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    BOOT_CLOCK, BOOT_CLOCK_OFFSET_VARIABLE, BOOT_ID_VARIABLE, CRASH, DELAY, DIRECTORY_VARIABLE,
    ERROR, Fault, HANG, NEXT_FORMAT_VARIABLE, NextFormat, POISON_VARIABLE, STUCK, TWICE,
    WALL_CLOCK_OFFSET_VARIABLE,
};

/// Longer than any step takes on its own, shorter than any lease.
const DELAY_TIME: Duration = Duration::from_millis(600);

/// Longer than the watchdog timeout of tests.
const HANG_TIME: Duration = Duration::from_secs(8);

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_hours(24);

/// Interval between checks for a new request of the test; dozens of daemons check at the same time.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// A boot clock that may stand still.
struct BootClock {
    /// Since when it stands still, by the machine's clock.
    still_since: Option<u64>,
    /// For how long it stood still before.
    stood: u64,
}

static CLOCK: Mutex<BootClock> = Mutex::new(BootClock { still_since: None, stood: 0 });

enum Action {
    Crash,
    Delay(Duration),
    Fault(Fault),
}

pub(crate) fn listen() {
    let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) else { return };
    let directory = DIRECTORY.get_or_init(|| directory.into());
    let polling = thread::Builder::new().name("failpoints".to_owned()).spawn(|| {
        loop {
            thread::sleep(POLL_INTERVAL);
            take_request(directory);
        }
    });
    polling.expect("a test build may fail when no thread is available");
}

/// Arms the failpoint named in `arm`, then removes the file to confirm it to the test.
fn take_request(directory: &Path) {
    let path = directory.join("arm");
    let Ok(request) = fs::read_to_string(&path) else { return };
    let (place, actions) = request.split_once('=').expect("a request has the form place=actions");
    match place {
        BOOT_CLOCK => set_boot_clock(actions != "off"),
        _ => fail::cfg(place, actions).expect("actions follow the grammar of the fail crate"),
    }
    fs::remove_file(&path).expect("the file was just read");
}

pub(crate) fn wall_clock_offset_nanos() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let Ok(seconds) = std::env::var(WALL_CLOCK_OFFSET_VARIABLE) else { return 0 };
        let seconds: i64 = seconds.parse().expect("an offset is a number of seconds");
        seconds * 1_000_000_000
    })
}

pub(crate) fn boot_clock_offset_nanos() -> u64 {
    static OFFSET: OnceLock<u64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let Ok(seconds) = std::env::var(BOOT_CLOCK_OFFSET_VARIABLE) else { return 0 };
        let seconds: u64 = seconds.parse().expect("the boot clock is a number of seconds ahead");
        seconds * 1_000_000_000
    })
}

/// Stops the boot clock, or lets it go on from where it stands.
fn set_boot_clock(stands: bool) {
    let mut clock = boot_clock();
    if stands {
        clock.still_since = Some(machine_nanos());
    } else if let Some(since) = clock.still_since.take() {
        clock.stood += machine_nanos() - since;
    }
}

pub(crate) fn boot_clock_nanos(read: impl FnOnce() -> u64) -> u64 {
    let clock = boot_clock();
    clock.still_since.unwrap_or_else(read) - clock.stood
}

fn machine_nanos() -> u64 {
    let boot = clock_gettime(ClockId::Boottime);
    let nanos = i128::from(boot.tv_sec) * 1_000_000_000 + i128::from(boot.tv_nsec);
    u64::try_from(nanos).expect("a machine has not run for centuries")
}

fn boot_clock() -> MutexGuard<'static, BootClock> {
    CLOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn handle(step: &str, job_name: &str) {
    let Ok(poison) = std::env::var(POISON_VARIABLE) else { return };
    if poison.split_once('=') == Some((step, job_name)) {
        crash();
    }
}

pub(crate) fn boot_id() -> Option<String> {
    std::env::var(BOOT_ID_VARIABLE).ok()
}

pub(crate) fn next_format() -> Option<NextFormat> {
    let value = std::env::var(NEXT_FORMAT_VARIABLE).ok().filter(|value| !value.is_empty())?;
    let (kind, seconds) = value.split_once('=').expect("a format has the form kind=seconds");
    let is_compatible = match kind {
        "compatible" => true,
        "incompatible" => false,
        other => panic!("{NEXT_FORMAT_VARIABLE}: unknown kind '{other}'"),
    };
    let seconds = seconds.parse().expect("a migration takes a number of seconds");
    Some(NextFormat { is_compatible, migration: Duration::from_secs(seconds) })
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
            STUCK => Action::Delay(FOR_EVER),
            ERROR => Action::Fault(Fault::Error),
            TWICE => Action::Fault(Fault::Twice),
            other => panic!("failpoint {place}: unknown action '{other}'"),
        };
        record_hit(place, &argument);
        Some(action)
    });
    None
}

fn record_hit(place: &str, action: &str) {
    let directory = DIRECTORY.get().expect("failpoints are armed through the directory");
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("hits"))
        .and_then(|mut hits| writeln!(hits, "{place} {action}"));
    written.expect("the test's directory is writable");
}

/// SIGKILL runs no cleanup, like a power failure.
fn crash() -> ! {
    // Cannot fail, and does not return.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        thread::park();
    }
}
