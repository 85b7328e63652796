//! Restricts what this network namespace reaches, before a task joins it.
//!
//! Packets are filtered where they leave a socket, so that it does not matter how a task sends
//! them: with unreachable routes alone, a socket that is bound to the interface takes every address
//! for a neighbour, and reaches all addresses of the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::addresses::{self, Range};
use crate::nft::{Batch, Chain, Expression, Family};

const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP_V6: u8 = 58;
const DNS_PORT: u16 = 53;

/// Router and neighbour messages of ICMPv6, without which IPv6 finds no gateway; no task can send
/// them itself.
const NEIGHBOUR_MESSAGES: [u8; 4] = [133, 134, 135, 136];

/// Far more than any settings and any host have; the whole batch has to fit into a socket's buffer.
const MAX_RANGES: usize = 512;

/// What is neither allowed nor denied can be reached; nothing can connect to here.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) denied: BTreeSet<Range>,
    /// Take precedence.
    pub(crate) allowed: BTreeSet<Range>,
}

// === impl Policy ===

impl Policy {
    /// Both lists, each separated by commas.
    pub(crate) fn parse(denied: &str, allowed: &str) -> Result<Self, String> {
        let list = |text: &str| -> Result<BTreeSet<Range>, String> {
            text.split(',').filter(|range| !range.is_empty()).map(str::parse).collect()
        };
        Ok(Self { denied: list(denied)?, allowed: list(allowed)? })
    }

    /// In effect when this returns.
    pub(crate) fn apply(mut self) -> Result<(), String> {
        self.denied.extend(addresses::neighbours());
        let count = self.denied.len() + self.allowed.len();
        if count > MAX_RANGES {
            return Err(format!("{count} ranges of addresses are more than {MAX_RANGES}"));
        }
        let resolvers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let resolvers = addresses::resolvers(&resolvers).into_iter().map(Range::from).collect();
        self.apply_to(Family::V4, &resolvers)?;
        // A kernel without IPv6 has no such packets.
        if Path::new("/proc/self/net/if_inet6").exists() {
            self.apply_to(Family::V6, &resolvers)?;
        }
        Ok(())
    }

    fn apply_to(&self, family: Family, resolvers: &BTreeSet<Range>) -> Result<(), String> {
        let of_family = |ranges: &BTreeSet<Range>| -> Vec<Range> {
            ranges.iter().copied().filter(|range| range.family() == family).collect()
        };
        let to = |range: Range| Expression::to_addresses(family, &range.bytes(), &range.mask());
        let mut batch = Batch::new(family);
        batch.chain(Chain::Output, true);
        batch.chain(Chain::Input, false);
        for chain in [Chain::Output, Chain::Input] {
            batch.rule(chain, and(Expression::on_loopback(chain), [], Expression::accept()));
            batch.rule(chain, and(Expression::of_known_connections(), [], Expression::accept()));
            if family == Family::V6 {
                for number in NEIGHBOUR_MESSAGES {
                    let message = and(
                        Expression::of_protocol(ICMP_V6),
                        Expression::of_type(number),
                        Expression::accept(),
                    );
                    batch.rule(chain, message);
                }
            }
        }
        for resolver in of_family(resolvers) {
            for protocol in [UDP, TCP] {
                let query = Expression::of_protocol(protocol)
                    .into_iter()
                    .chain(Expression::to_port(DNS_PORT));
                batch.rule(Chain::Output, and(to(resolver), query, Expression::accept()));
            }
        }
        for range in of_family(&self.allowed) {
            batch.rule(Chain::Output, and(to(range), [], Expression::accept()));
        }
        for range in of_family(&self.denied) {
            batch.rule(Chain::Output, and(to(range), [], Expression::reject(family)));
        }
        batch.commit().map_err(|error| format!("the kernel does not take its nftables: {error}"))
    }
}

fn and(
    expressions: Vec<Expression>,
    more: impl IntoIterator<Item = Expression>,
    last: Expression,
) -> Vec<Expression> {
    expressions.into_iter().chain(more).chain([last]).collect()
}
