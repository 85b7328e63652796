//! What a daemon tells the service manager that started it: that it is ready, that it stops, what
//! it is doing, and that it still makes progress.
//!
//! The protocol is that of `sd_notify(3)`: datagrams to the socket that `NOTIFY_SOCKET` names.
//! Where the variable is not set, nobody is told.
//!
//! The watchdog is not a timer: it is fed by what the daemon is there for. The thread that owns the
//! daemon's state beats a [`Pulse`] in each turn, also in the turns in which it can only wait for
//! room on the disk, and the watchdog, which runs on the daemon's own runtime, passes that on. A
//! thread or a runtime that hangs is thereby found out, and a full disk is no reason to be killed.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Names the socket: a path, or an abstract name behind `@`.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// How many microseconds may pass between two signs of life, and which process they are wanted of.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";
const WATCHDOG_PID_VARIABLE: &str = "WATCHDOG_PID";

/// How often the watchdog looks within the time that the service manager allows: a beat that is
/// late once is no reason to be killed.
const LOOKS_PER_LIMIT: u32 = 3;

/// What stopping may take beside what it waits for.
const STOP_MARGIN: Duration = Duration::from_secs(30);

/// Beaten by whoever is to be seen to make progress.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

// === impl Pulse ===

impl Pulse {
    pub fn beat(&self) {
        // Only whether it changes is of interest.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// It can be used from now on.
pub fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={status}"));
}

/// What it is doing, for people.
pub fn status(status: &str) {
    tell(&format!("STATUS={status}"));
}

/// It ends, and waits so long at most for something before.
pub fn stopping(status: &str, waits: Duration) {
    let patience = waits.saturating_add(STOP_MARGIN).as_micros();
    tell(&format!("STOPPING=1\nSTATUS={status}\nEXTEND_TIMEOUT_USEC={patience}"));
}

/// Passes the pulse on for as long as this runs; returns at once where no watchdog is wanted.
pub async fn watchdog(pulse: Pulse) {
    let Some(limit) = watchdog_limit() else { return };
    let pause = limit / LOOKS_PER_LIMIT;
    let mut passed_on = pulse.beats();
    loop {
        tokio::time::sleep(pause).await;
        let beats = pulse.beats();
        if beats == passed_on {
            tracing::warn!(?limit, "no progress; the watchdog will end this process");
        } else {
            passed_on = beats;
            tell("WATCHDOG=1");
        }
    }
}

/// None where no watchdog is wanted, or not of this process but of one that started it.
fn watchdog_limit() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let of_another =
        number(WATCHDOG_PID_VARIABLE).is_some_and(|pid| pid != std::process::id().into());
    let limit = number(WATCHDOG_VARIABLE).filter(|limit| *limit > 0 && !of_another)?;
    Some(Duration::from_micros(limit))
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, ?socket, "the service manager cannot be told");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not stop the daemon.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_addresses_are_reached() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("notify-{}", std::process::id()));
        let name = format!("notify-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}").into()),
        ] {
            send(&address, "READY=1\nSTATUS=here").unwrap();
            let mut datagram = [0; 64];
            let length = socket.recv(&mut datagram).unwrap();
            assert_eq!(&datagram[..length], b"READY=1\nSTATUS=here");
        }
        std::fs::remove_file(&path).unwrap();
        let error = send(path.as_os_str(), "READY=1").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
