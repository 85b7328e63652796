//! Processes that this agent did not start, and whose end it waits for.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A process; while this is open, no other process takes its pid.
#[derive(Debug)]
pub(crate) struct Watched(AsyncFd<OwnedFd>);

// === impl Watched ===

impl Watched {
    /// None when there is no process of this pid.
    pub(crate) fn open(pid: Pid) -> io::Result<Option<Self>> {
        match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(pidfd) => Ok(Some(Self(watched(pidfd)?))),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns when the process has ended.
    pub(crate) async fn end(&self) -> io::Result<()> {
        self.0.readable().await.map(drop)
    }

    /// Kills it, unless it has ended.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(self.0.get_ref(), Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe; an OwnedFd stays open while it is watched"
)]
fn watched(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}
