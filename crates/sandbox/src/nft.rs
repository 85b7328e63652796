//! The part of nftables that the guard needs, in the kernel's own messages (netlink).
//!
//! A batch takes effect as a whole or not at all. Numbers are those of `linux/netfilter.h` and
//! `linux/netfilter/nf_tables.h`.

use std::io;

use rustix::net::netlink::NETFILTER;

use crate::netlink::{ACKNOWLEDGE, Connection, NESTED, REQUEST, attribute, message, text};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;

const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

const TABLE: &str = "guard";

/// The register that holds the value to compare.
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Where packets of this network namespace are judged.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chain {
    Input,
    Output,
}

/// An expression of a rule, encoded.
pub(crate) struct Expression(Vec<u8>);

pub(crate) struct Batch {
    family: Family,
    bytes: Vec<u8>,
    sequence: u32,
}

// === impl Family ===

impl Family {
    fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    /// Offset of the destination in the header, and the bytes of an address.
    fn destination(self) -> (u32, usize) {
        match self {
            Self::V4 => (16, 4),
            Self::V6 => (24, 16),
        }
    }
}

// === impl Chain ===

impl Chain {
    fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }

    fn hook(self) -> u32 {
        match self {
            Self::Input => 1,
            Self::Output => 3,
        }
    }
}

// === impl Expression ===

impl Expression {
    fn new(name: &str, data: &[u8]) -> Self {
        let mut expression = Vec::new();
        text(&mut expression, 1, name);
        attribute(&mut expression, 2 | NESTED, data);
        Self(expression)
    }

    fn meta(key: u32) -> Self {
        Self::new("meta", &numbers(&[(1, REGISTER), (2, key)]))
    }

    fn payload(base: u32, offset: u32, length: u32) -> Self {
        let fields = [(1, REGISTER), (2, base), (3, offset), (4, length)];
        Self::new("payload", &numbers(&fields))
    }

    fn compare(is_equal: bool, value: &[u8]) -> Self {
        let mut data = numbers(&[(1, REGISTER), (2, u32::from(!is_equal))]);
        attribute(&mut data, 3 | NESTED, &wrapped(1, value));
        Self::new("cmp", &data)
    }

    fn mask(mask: &[u8]) -> Self {
        let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
        let mut data = numbers(&[(1, REGISTER), (2, REGISTER), (3, length)]);
        attribute(&mut data, 4 | NESTED, &wrapped(1, mask));
        attribute(&mut data, 5 | NESTED, &wrapped(1, &vec![0; mask.len()]));
        Self::new("bitwise", &data)
    }

    fn verdict(code: u32) -> Self {
        let verdict = wrapped(2 | NESTED, &numbers(&[(1, code)]));
        let mut data = numbers(&[(1, VERDICT_REGISTER)]);
        attribute(&mut data, 2 | NESTED, &verdict);
        Self::new("immediate", &data)
    }

    pub(crate) fn accept() -> Self {
        Self::verdict(1)
    }

    /// Answers that the host is unreachable.
    pub(crate) fn reject(family: Family) -> Self {
        let code = match family {
            Family::V4 => 1,
            Family::V6 => 3,
        };
        let mut data = numbers(&[(1, 0)]);
        attribute(&mut data, 2, &[code]);
        Self::new("reject", &data)
    }

    /// Packets that leave or enter by the loopback interface, which is the first of each namespace.
    pub(crate) fn on_loopback(chain: Chain) -> Vec<Self> {
        let key = match chain {
            Chain::Input => 4,
            Chain::Output => 5,
        };
        vec![Self::meta(key), Self::compare(true, &1_u32.to_ne_bytes())]
    }

    /// Packets of connections that were allowed when they began, and errors about them.
    pub(crate) fn of_known_connections() -> Vec<Self> {
        const ESTABLISHED_OR_RELATED: u32 = 2 | 4;
        vec![
            Self::new("ct", &numbers(&[(1, REGISTER), (2, 0)])),
            Self::mask(&ESTABLISHED_OR_RELATED.to_ne_bytes()),
            Self::compare(false, &0_u32.to_ne_bytes()),
        ]
    }

    /// Packets to these addresses.
    pub(crate) fn to_addresses(family: Family, address: &[u8], mask: &[u8]) -> Vec<Self> {
        let (offset, bytes) = family.destination();
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let network: Vec<u8> = address.iter().zip(mask).map(|(byte, mask)| byte & mask).collect();
        vec![Self::payload(1, offset, length), Self::mask(mask), Self::compare(true, &network)]
    }

    pub(crate) fn of_protocol(protocol: u8) -> Vec<Self> {
        vec![Self::meta(16), Self::compare(true, &[protocol])]
    }

    pub(crate) fn to_port(port: u16) -> Vec<Self> {
        vec![Self::payload(2, 2, 2), Self::compare(true, &port.to_be_bytes())]
    }

    /// Compares the first byte after the IP header: the type of an ICMP message.
    pub(crate) fn of_type(number: u8) -> Vec<Self> {
        vec![Self::payload(2, 0, 1), Self::compare(true, &[number])]
    }
}

// === impl Batch ===

impl Batch {
    /// Makes the table; it must not exist.
    pub(crate) fn new(family: Family) -> Self {
        let mut batch = Self { family, bytes: Vec::new(), sequence: 0 };
        batch.message(BATCH_BEGIN, REQUEST, |_| ());
        batch.message(NEW_TABLE, REQUEST | CREATE, |bytes| text(bytes, 1, TABLE));
        batch
    }

    pub(crate) fn chain(&mut self, chain: Chain, is_accepting: bool) {
        self.message(NEW_CHAIN, REQUEST | CREATE, |bytes| {
            text(bytes, 1, TABLE);
            text(bytes, 3, chain.name());
            attribute(bytes, 4 | NESTED, &numbers(&[(1, chain.hook()), (2, 0)]));
            attribute(bytes, 5, &u32::from(is_accepting).to_be_bytes());
            text(bytes, 7, "filter");
        });
    }

    pub(crate) fn rule(&mut self, chain: Chain, expressions: Vec<Expression>) {
        let mut encoded = Vec::new();
        for expression in expressions {
            attribute(&mut encoded, 1 | NESTED, &expression.0);
        }
        self.message(NEW_RULE, REQUEST | CREATE | APPEND | ACKNOWLEDGE, |bytes| {
            text(bytes, 1, TABLE);
            text(bytes, 2, chain.name());
            attribute(bytes, 4 | NESTED, &encoded);
        });
    }

    fn message(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Vec<u8>)) {
        self.sequence += 1;
        // A batch names the subsystem that it is for, everything within it the family.
        let (family, resource) = match kind {
            BATCH_BEGIN | BATCH_END => (0, SUBSYSTEM),
            _ => (self.family.number(), 0),
        };
        message(&mut self.bytes, kind, flags, self.sequence, |bytes| {
            bytes.extend([family, 0]);
            bytes.extend(resource.to_be_bytes());
            body(bytes);
        });
    }

    /// In effect, as a whole, when this returns.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        let last = self.sequence;
        self.message(BATCH_END, REQUEST, |_| ());
        Connection::open(Some(NETFILTER))?.exchange(&self.bytes, last, |_, _| ())
    }
}

fn wrapped(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    attribute(&mut bytes, kind, value);
    bytes
}

fn numbers(fields: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in fields {
        attribute(&mut bytes, *kind, &value.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_names_the_subsystem_and_its_messages_the_family() {
        let mut batch = Batch::new(Family::V6);
        let (begin, table) = batch.bytes.split_at(20);
        assert_eq!(begin[16..], [0, 0, 0, 10]);
        let name = [10, 0, 1, 0, b'g', b'u', b'a', b'r', b'd', 0, 0, 0];
        assert_eq!(table[16..20], [10, 0, 0, 0]);
        assert_eq!(table[20..], name);
        batch.chain(Chain::Input, false);
        assert_eq!(batch.sequence, 3, "each is acknowledged by its own number");
    }
}
