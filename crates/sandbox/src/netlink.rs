//! Messages to the kernel's network subsystems (netlink), and their answers.
//!
//! Numbers are those of `linux/netlink.h`.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};

/// The kernel answers while it takes a message; a missing answer would hold the program forever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) const REQUEST: u16 = 0x001;
pub(crate) const ACKNOWLEDGE: u16 = 0x004;
/// Asks for everything that there is; the answer is a list.
pub(crate) const DUMP: u16 = 0x300;

pub(crate) const NESTED: u16 = 0x8000;

const HEADER_BYTES: usize = 16;

/// Errors and acknowledgements alike.
const ANSWER: u16 = 2;
/// The end of a list.
const DONE: u16 = 3;

/// The kernel fills no larger buffer with a list, and no other answer is longer.
const BUFFER_BYTES: usize = 32 << 10;

/// A socket to one subsystem.
pub(crate) struct Connection {
    socket: OwnedFd,
    sequence: u32,
}

/// One message of an answer.
#[derive(Debug, PartialEq)]
struct Part<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

// === impl Connection ===

impl Connection {
    /// Without a protocol, to the subsystem of addresses and routes.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
        // Only then the kernel's table of such sockets has it.
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one message, and waits until the kernel has carried it out; `each` sees the kind and
    /// the body of what it sends before that.
    pub(crate) fn request(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        message(&mut bytes, kind, REQUEST | flags, sequence, |bytes| bytes.extend(body));
        self.exchange(&bytes, sequence, each)
    }

    /// Sends messages of which the last that is acknowledged has the number `last`; those before it
    /// have the numbers after the last exchange's.
    pub(crate) fn exchange(
        &mut self,
        bytes: &[u8],
        last: u32,
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let before = std::mem::replace(&mut self.sequence, last);
        sendto(&self.socket, bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let (length, _, sender) = recvfrom(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            // The number of the kernel, which no process can have.
            let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
            if sender.is_none_or(|sender| sender.pid() != 0) {
                continue;
            }
            for part in parts(&buffer[..length]) {
                // An answer to an exchange that was given up says nothing about this one.
                if part.sequence <= before || part.sequence > last {
                    continue;
                }
                match part.kind {
                    ANSWER | DONE => match word(part.body, 0).map_or(0, i32::from_ne_bytes) {
                        0 if part.sequence == last => return Ok(()),
                        0 => {}
                        error => return Err(io::Error::from_raw_os_error(-error)),
                    },
                    kind => each(kind, part.body),
                }
            }
        }
    }
}

/// Whether the kernel lacks what it was asked about.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOENT.raw_os_error())
}

/// Adds a message whose body the function writes.
pub(crate) fn message(
    bytes: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    sequence: u32,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let begin = bytes.len();
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    body(bytes);
    let length = u32::try_from(bytes.len() - begin).unwrap_or(u32::MAX);
    bytes[begin..begin + 4].copy_from_slice(&length.to_ne_bytes());
}

fn word(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

fn parts(mut bytes: &[u8]) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    while let (Some(length), Some(sequence)) = (word(bytes, 0), word(bytes, 8)) {
        let length = u32::from_ne_bytes(length) as usize;
        let Some(body) = bytes.get(HEADER_BYTES..length) else { break };
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        found.push(Part { kind, sequence: u32::from_ne_bytes(sequence), body });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

// === attributes ===

pub(crate) fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Only a name or an address is in here: far below the 64 KiB that an attribute may have.
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

pub(crate) fn text(bytes: &mut Vec<u8>, kind: u16, value: &str) {
    attribute(bytes, kind, &[value.as_bytes(), &[0]].concat());
}

/// The value of the first attribute of this kind.
pub(crate) fn value_of(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let found = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let value = bytes.get(4..length)?;
        if found & !NESTED == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answers_are_read() {
        let mut both = Vec::new();
        message(&mut both, ANSWER, 0, 7, |bytes| bytes.extend(0_i32.to_ne_bytes()));
        message(&mut both, DONE, 0, 8, |bytes| bytes.extend((-1_i32).to_ne_bytes()));
        let first = Part { kind: ANSWER, sequence: 7, body: &[0; 4] };
        let second = Part { kind: DONE, sequence: 8, body: &[0xff; 4] };
        assert_eq!(parts(&both), [first, second]);
        assert_eq!(parts(&both[..39]).len(), 1, "half a message is none");
        assert!(parts(&[]).is_empty());
        // A length below that of a header must not be read forever.
        assert!(parts(&[0; 64]).is_empty());
    }

    #[test]
    fn attributes_are_padded_but_their_length_is_not() {
        let mut bytes = Vec::new();
        attribute(&mut bytes, 1, &[9]);
        text(&mut bytes, 2, "ab");
        assert_eq!(bytes, [5, 0, 1, 0, 9, 0, 0, 0, 7, 0, 2, 0, b'a', b'b', 0, 0]);
        assert_eq!(value_of(&bytes, 2), Some(&b"ab\0"[..]));
        assert_eq!(value_of(&bytes, 3), None);
        assert_eq!(value_of(&[0; 8], 3), None, "no endless loop");
    }

    #[test]
    fn an_error_of_the_kernel_is_one_of_the_request() {
        let mut connection = Connection::open(None).expect("a socket");
        let no_such_kind = connection.request(0x3fff, ACKNOWLEDGE, &[0; 4], |_, _| ());
        assert!(no_such_kind.is_err(), "{no_such_kind:?}");
        // The next exchange has a separate answer: the addresses of this namespace.
        const GET_ADDRESS: u16 = 22;
        let mut count = 0;
        connection.request(GET_ADDRESS, DUMP, &[0; 8], |_, _| count += 1).expect("a list");
        assert!(count > 0);
    }
}
