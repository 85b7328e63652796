//! What connections leave in this network namespace apart from sockets, and how it is removed.
//!
//! Everything is first removed and then read again; only what is read decides. So a kernel that
//! cannot remove something, or a program without the right to do it, never passes for clean.
//! Numbers are those of `linux/netfilter/nfnetlink_conntrack.h`, `linux/genetlink.h`,
//! `linux/tcp_metrics.h`, `linux/inet_diag.h`, `linux/sock_diag.h` and `linux/rtnetlink.h`.

use std::time::Duration;
use std::{fs, io, thread};

use rustix::net::netlink::{GENERIC, NETFILTER, SOCK_DIAG};

use crate::netlink::{ACKNOWLEDGE, Connection, DUMP, is_missing, text, value_of};
use crate::sockets::Lingering;

const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;

const DELETE_TRACKED: u16 = (1 << 8) | 2;
/// Of this namespace.
const TRACKED_COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
/// A packet that is being dropped counts until it is.
const COUNTS: usize = 10;
const COUNT_AGAIN: Duration = Duration::from_millis(5);

const GENERIC_CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const METRICS: &str = "tcp_metrics";
const GET_METRICS: u8 = 1;
const DELETE_METRICS: u8 = 2;

const DESTROY_SOCKET: u16 = 21;
/// Instead of a number that only a list of the same subsystem has.
const NO_COOKIE: [u8; 8] = [0xff; 8];

const GET_ROUTE: u16 = 26;
/// Marks a route that the kernel learnt.
const CLONED: u32 = 0x200;
/// Where a route's message has its marks.
const ROUTE_FLAGS: std::ops::Range<usize> = 8..12;

/// Open connections to the subsystems that have to do with it: when one is closed, the kernel
/// counts its socket for a while.
pub(crate) struct Traces {
    netfilter: Connection,
    generic: Connection,
    diagnosis: Connection,
    routes: Connection,
    /// The number by which the kernel knows its metrics; none if it has none.
    metrics: Option<u16>,
}

// === impl Traces ===

impl Traces {
    pub(crate) fn open() -> io::Result<Self> {
        let mut generic = Connection::open(Some(GENERIC))?;
        let metrics = number_of_metrics(&mut generic)?;
        Ok(Self {
            netfilter: Connection::open(Some(NETFILTER))?,
            generic,
            diagnosis: Connection::open(Some(SOCK_DIAG))?,
            routes: Connection::open(None)?,
            metrics,
        })
    }

    /// Removes what can be removed.
    pub(crate) fn remove(&mut self, lingering: &[Lingering]) {
        for connection in lingering {
            let _ =
                self.diagnosis.request(DESTROY_SOCKET, ACKNOWLEDGE, &named(connection), |_, _| ());
        }
        for family in [IPV4, IPV6] {
            let all = [family, 0, 0, 0];
            let _ = self.netfilter.request(DELETE_TRACKED, ACKNOWLEDGE, &all, |_, _| ());
        }
        if let Some(metrics) = self.metrics {
            let all = [DELETE_METRICS, 1, 0, 0];
            let _ = self.generic.request(metrics, ACKNOWLEDGE, &all, |_, _| ());
        }
    }

    /// What is left, if anything.
    pub(crate) fn left(&mut self) -> Result<Option<&'static str>, String> {
        if !nothing_is_tracked()? {
            return Ok(Some("conntrack"));
        }
        let mut count = 0;
        if let Some(metrics) = self.metrics {
            let all = [GET_METRICS, 1, 0, 0];
            let outcome = self.generic.request(metrics, DUMP, &all, |_, _| count += 1);
            outcome.map_err(|error| format!("cannot list the metrics of TCP: {error}"))?;
        }
        if count > 0 {
            return Ok(Some(METRICS));
        }
        for family in [IPV4, IPV6] {
            let mut request = vec![family, 0, 0, 0, 0, 0, 0, 0];
            request.extend(CLONED.to_ne_bytes());
            let each = |_, body: &[u8]| count += usize::from(is_learnt(body));
            let outcome = self.routes.request(GET_ROUTE, DUMP, &request, each);
            outcome.map_err(|error| format!("cannot list the routes: {error}"))?;
        }
        Ok((count > 0).then_some("routes"))
    }
}

/// A kernel without this count cannot show that it forgot everything.
fn nothing_is_tracked() -> Result<bool, String> {
    for _ in 0..COUNTS {
        let count = fs::read_to_string(TRACKED_COUNT)
            .map_err(|error| format!("cannot read the number of tracked connections: {error}"))?;
        if count.trim() == "0" {
            return Ok(true);
        }
        thread::sleep(COUNT_AGAIN);
    }
    Ok(false)
}

fn number_of_metrics(generic: &mut Connection) -> io::Result<Option<u16>> {
    let mut request = vec![GET_FAMILY, 1, 0, 0];
    text(&mut request, FAMILY_NAME, METRICS);
    let mut number = None;
    let each = |_, body: &[u8]| {
        let value = body.get(4..).and_then(|attributes| value_of(attributes, FAMILY_ID));
        number = value.and_then(|value| value.try_into().ok()).map(u16::from_ne_bytes);
    };
    match generic.request(GENERIC_CONTROL, ACKNOWLEDGE, &request, each) {
        Err(error) if !is_missing(&error) => Err(error),
        _ => Ok(number),
    }
}

/// The message's body that names a connection.
fn named(connection: &Lingering) -> Vec<u8> {
    let Lingering { is_v6, local, remote } = connection;
    let mut bytes = vec![if *is_v6 { IPV6 } else { IPV4 }, TCP, 0, 0];
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port.to_be_bytes());
    bytes.extend(remote.port.to_be_bytes());
    bytes.extend(local.address);
    bytes.extend(remote.address);
    // Of any interface.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(NO_COOKIE);
    bytes
}

fn is_learnt(route: &[u8]) -> bool {
    let flags = route.get(ROUTE_FLAGS).and_then(|flags| flags.try_into().ok());
    // What cannot be read is no reason to trust it.
    flags.is_none_or(|flags| u32::from_ne_bytes(flags) & CLONED != 0)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::process::Command;

    use rustix::thread::{
        CapabilitySet, CapabilitySets, UnshareFlags, capabilities, set_capabilities,
    };

    use super::*;
    use crate::sockets::End;

    #[test]
    fn a_connection_is_named_as_the_kernel_reads_it() {
        let mut local = End { address: [0; 16], port: 0x1234 };
        local.address[..4].copy_from_slice(&[127, 0, 0, 1]);
        let remote = End { port: 443, ..local.clone() };
        let bytes = named(&Lingering { is_v6: false, local, remote });
        assert_eq!(bytes.len(), 56, "the size of inet_diag_req_v2");
        assert_eq!(bytes[..4], [2, 6, 0, 0]);
        assert_eq!(bytes[8..16], [0x12, 0x34, 1, 0xbb, 127, 0, 0, 1]);
        assert_eq!(bytes[28..32], [127, 0, 0, 1]);
    }

    #[test]
    fn a_route_that_was_learnt_is_marked() {
        let route = |flags: u32| [&[2, 32, 0, 0, 254, 3, 0, 1], &flags.to_ne_bytes()[..]].concat();
        assert!(is_learnt(&route(CLONED)));
        assert!(!is_learnt(&route(0)));
        assert!(is_learnt(&[]));
    }

    /// A connection within a separate namespace leaves metrics.
    fn with_metrics() -> io::Result<Traces> {
        #[expect(deprecated, reason = "it is safe without the flag for files")]
        rustix::thread::unshare(UnshareFlags::NEWNET)?;
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
        assert!(up.success(), "{up}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        drop(listener.accept()?);
        drop(client);
        Traces::open()
    }

    #[test]
    fn only_a_program_with_the_right_to_remove_traces_finds_none() {
        let test = || {
            let mut traces = match with_metrics() {
                Ok(traces) => traces,
                Err(error) if std::env::var_os("CI").is_some() => panic!("{error}"),
                Err(error) => return eprintln!("skipped: {error}"),
            };
            let all = capabilities(None).expect("this thread's");
            let none = CapabilitySets { effective: CapabilitySet::empty(), ..all };
            set_capabilities(None, none).expect("fewer are always possible");
            traces.remove(&[]);
            assert_eq!(traces.left(), Ok(Some(METRICS)));
            set_capabilities(None, all).expect("they are still permitted");
            traces.remove(&[]);
            assert_eq!(traces.left(), Ok(None));
        };
        thread::spawn(test).join().expect("it does not panic");
    }
}
