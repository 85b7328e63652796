//! Ranges of addresses, as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::Deserializer;

use super::values;

/// Addresses with a common prefix, like `10.0.0.0/8`, or a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    address: IpAddr,
    prefix: u8,
}

/// What tasks with a network do not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedAddresses {
    /// Everything that is not public.
    Private,
    /// The addresses of the node.
    Host,
    Range(AddressRange),
}

/// The error of a range that is none.
#[derive(Debug, thiserror::Error)]
#[error("'{text}' is neither {words}an address nor a range of addresses like 10.0.0.0/8")]
pub struct NotARange {
    text: String,
    words: &'static str,
}

// === impl AddressRange ===

impl AddressRange {
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let bits = |address| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
            IpAddr::V6(address) => u128::from(address),
        };
        let differ = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4()
            && differ.leading_zeros() >= u32::from(self.prefix)
    }

    /// The IPv6 forms that carry a range of IPv4: translated (RFC 6052) and 6to4.
    pub(crate) fn carried_by_v6(self) -> Vec<Self> {
        const TRANSLATED: u128 = 0x0064_ff9b << 96;
        const SIX_TO_FOUR: u128 = 0x2002 << 112;
        let IpAddr::V4(address) = self.address else { return Vec::new() };
        let bits = u128::from(u32::from(address));
        let range = |bits, prefix| Self { address: IpAddr::V6(Ipv6Addr::from_bits(bits)), prefix };
        vec![
            range(TRANSLATED | bits, self.prefix + 96),
            range(SIX_TO_FOUR | (bits << 80), self.prefix + 16),
        ]
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> Self {
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for AddressRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let broken = || NotARange { text: text.to_owned(), words: "" };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let whole = Self::from(address.parse::<IpAddr>().map_err(|_| broken())?);
        let Some(prefix) = prefix else { return Ok(whole) };
        match prefix.parse() {
            Ok(prefix) if prefix <= whole.prefix => Ok(Self { prefix, ..whole }),
            Ok(_) | Err(_) => Err(broken()),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

// === impl DeniedAddresses ===

impl FromStr for DeniedAddresses {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        match text {
            "private" => Ok(Self::Private),
            "host" => Ok(Self::Host),
            range => range
                .parse()
                .map(Self::Range)
                .map_err(|error: NotARange| NotARange { words: "'private', 'host', ", ..error }),
        }
    }
}

/// Most entries of one list: the kernel compares each new connection with all of them.
const MAX_ENTRIES: usize = 64;

pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = NotARange>,
{
    use serde::de::Error;
    let texts = values::list(from)?;
    if texts.len() > MAX_ENTRIES {
        return Err(D::Error::custom(format!("at most {MAX_ENTRIES} entries are possible")));
    }
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_contains_what_shares_its_prefix() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("172.16.0.0/12", "172.31.255.255", "172.32.0.0"),
            ("1.2.3.4", "1.2.3.4", "1.2.3.5"),
            ("0.0.0.0/0", "8.8.8.8", "::"),
            ("fe80::/10", "febf::1", "fec0::1"),
            ("::/0", "::1", "0.0.0.0"),
        ] {
            assert!(range(text).contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!range(text).contains(outside.parse().unwrap()), "{text} {outside}");
        }
    }

    #[test]
    fn the_forms_of_ipv6_that_carry_a_range_are_known() {
        let carried: Vec<_> =
            range("10.0.0.0/8").carried_by_v6().iter().map(ToString::to_string).collect();
        assert_eq!(carried, ["64:ff9b::a00:0/104", "2002:a00::/24"]);
        assert!(range("fd00::/8").carried_by_v6().is_empty());
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_would_be_one() {
        for text in ["", "10.0.0.0/33", "::/129", "10/8", "example.com", "10.0.0.0/-1"] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
        let refused = "privat".parse::<DeniedAddresses>().unwrap_err().to_string();
        assert!(refused.contains("'private', 'host', an address"), "{refused}");
    }
}
