//! Free ports for daemons that keep their port across restarts.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below Linux's range for outgoing connections (32768 and up): an agent that keeps dialling a killed
/// orchestrator could otherwise connect to itself and occupy the port.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// An unused address of this host. Another process may take it before the daemon does, so that the
/// caller must retry.
pub(crate) fn free_address(host: Ipv4Addr) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Concurrent processes begin at different offsets.
    let offset = u16::try_from(std::process::id().wrapping_mul(97) % u32::from(COUNT)).unwrap_or(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (offset + step) % COUNT;
        let address = SocketAddr::from((host, port));
        // Addresses of other network namespaces cannot be tested and count as free.
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
    fn a_port_in_use_is_not_returned() {
        let taken = TcpListener::bind(free_address(Ipv4Addr::LOCALHOST)).unwrap();
        for _ in 0..3 {
            assert_ne!(free_address(Ipv4Addr::LOCALHOST), taken.local_addr().unwrap());
        }
    }
}
