//! Notifies the service manager: ready, stopping, current status, and watchdog.
//!
//! The protocol is that of `sd_notify(3)`: datagrams to the socket that `NOTIFY_SOCKET` names.
//! Without the variable, nothing is sent.
//!
//! The watchdog is not a timer: the daemon's own work feeds it. The thread that owns the daemon's
//! state beats a [`Pulse`] in each iteration, even while it waits for disk space, and the watchdog
//! task on the daemon's runtime forwards it. So a hanging thread or runtime is detected, and a full
//! disk does not get the daemon killed.
//!
//! Rejected: the crate `sd-notify`, which sends with a call that blocks while the service manager
//! does not read.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Names the socket: a path, or an abstract name after `@`.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The watchdog interval in microseconds, and the process that it applies to.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";
const WATCHDOG_PID_VARIABLE: &str = "WATCHDOG_PID";

/// Checks by the watchdog within the service manager's interval: one late beat must not get the
/// daemon killed.
const CHECKS_PER_INTERVAL: u32 = 3;

/// Time for stopping in addition to what it waits for.
const STOP_MARGIN: Duration = Duration::from_secs(30);

/// Beaten by the thread whose progress is monitored.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

// === impl Pulse ===

impl Pulse {
    pub fn beat(&self) {
        // Only a change matters.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reports that the daemon is ready.
pub fn ready(status: &str) {
    notify(&format!("READY=1\nSTATUS={status}"));
}

/// Reports the current status, for people.
pub fn status(status: &str) {
    notify(&format!("STATUS={status}"));
}

/// Reports that the daemon stops, and waits at most this long for its work first.
pub fn stopping(status: &str, waits: Duration) {
    let timeout_us = waits.saturating_add(STOP_MARGIN).as_micros();
    notify(&format!("STOPPING=1\nSTATUS={status}\nEXTEND_TIMEOUT_USEC={timeout_us}"));
}

/// Forwards the pulse as long as it runs; returns immediately if no watchdog is requested.
pub async fn watchdog(pulse: Pulse) {
    let Some(limit) = watchdog_limit() else { return };
    let pause = limit / CHECKS_PER_INTERVAL;
    let mut passed_on = pulse.beats();
    loop {
        tokio::time::sleep(pause).await;
        let beats = pulse.beats();
        if beats == passed_on {
            tracing::warn!(?limit, "no progress; the watchdog will end this process");
        } else {
            passed_on = beats;
            notify("WATCHDOG=1");
        }
    }
}

/// `None` if no watchdog is requested, or one for a parent process.
fn watchdog_limit() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let of_another =
        number(WATCHDOG_PID_VARIABLE).is_some_and(|pid| pid != u64::from(std::process::id()));
    let limit = number(WATCHDOG_VARIABLE).filter(|limit| *limit > 0 && !of_another)?;
    Some(Duration::from_micros(limit))
}

fn notify(state: &str) {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, ?socket, "cannot notify systemd");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A service manager that does not read must not block the daemon.
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
