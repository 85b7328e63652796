//! Free ports for daemons that have to be found again on the same port after a restart.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up):
/// otherwise an agent that keeps dialling a killed orchestrator could by chance connect to
/// itself and hold the port against the restart.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// An address of this host that nothing listens on now. Another process may take it before the daemon
/// does; who starts the daemon tries again with another.
pub(crate) fn free_address(host: Ipv4Addr) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run side by side begin at different places.
    let offset = u16::try_from(std::process::id().wrapping_mul(97) % u32::from(COUNT)).unwrap_or(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (offset + step) % COUNT;
        let address = SocketAddr::from((host, port));
        // An address of another network namespace cannot be tried from here.
        if !matches!(TcpListener::bind(address), Err(error) if error.kind() == ErrorKind::AddrInUse)
        {
            return address;
        }
    }
    panic!("none of {COUNT} ports from {FIRST} on is free");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_not_offered() {
        let taken = TcpListener::bind(free_address(Ipv4Addr::LOCALHOST)).unwrap();
        for _ in 0..3 {
            assert_ne!(free_address(Ipv4Addr::LOCALHOST), taken.local_addr().unwrap());
        }
    }
}
