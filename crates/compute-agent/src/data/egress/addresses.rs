//! The egress policy: which addresses the URL of a job may lead to.
//!
//! The resolver checks every address of a name, and the client connects only to checked addresses.
//! A name that resolves differently the second time gains nothing, because nothing resolves it a
//! second time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use crate::host::settings::Settings;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// An address that this node does not connect to on behalf of a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{host}' leads to {address}, {kind}, which this node's settings do not allow \
     (allow_private_addresses)"
)]
pub(crate) struct Forbidden {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
    pub(crate) kind: &'static str,
}

/// Why a server is not to be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error("'{host}' does not resolve on this node ({reason})")]
    Unknown { host: String, reason: String },
}

/// Whether jobs may reach addresses that are not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EgressPolicy {
    PublicOnly,
    Anywhere,
}

/// Resolves names for the HTTP client, and refuses those with a denied address.
pub(crate) struct FilteringResolver {
    policy: EgressPolicy,
    /// Created with the first lookup: it needs the runtime.
    resolver: OnceLock<TokioResolver>,
}

// === impl EgressPolicy ===

impl EgressPolicy {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        if settings.allow_private_addresses { Self::Anywhere } else { Self::PublicOnly }
    }

    pub(crate) fn check(self, host: &str, address: IpAddr) -> Result<(), Forbidden> {
        match (self, kind(address)) {
            (Self::Anywhere, _) | (Self::PublicOnly, None) => Ok(()),
            (Self::PublicOnly, Some(kind)) => {
                Err(Forbidden { host: host.to_owned(), address, kind })
            }
        }
    }
}

// === impl FilteringResolver ===

impl FilteringResolver {
    pub(crate) fn new(policy: EgressPolicy) -> Self {
        Self { policy, resolver: OnceLock::new() }
    }

    /// Whether the policy allows what the name leads to.
    pub(crate) async fn check(&self, host: &str) -> Result<(), Unreached> {
        let unknown = |reason: &dyn std::fmt::Display| Unreached::Unknown {
            host: host.to_owned(),
            reason: reason.to_string(),
        };
        let name = host.parse().map_err(|_| unknown(&"not a name"))?;
        match self.resolve(name).await {
            Ok(_) => Ok(()),
            Err(error) => match error.downcast::<Forbidden>() {
                Ok(forbidden) => Err(Unreached::Forbidden(*forbidden)),
                Err(error) => Err(unknown(&error)),
            },
        }
    }

    fn resolver(&self) -> Result<TokioResolver, hickory_resolver::net::NetError> {
        if let Some(resolver) = self.resolver.get() {
            return Ok(resolver.clone());
        }
        let mut builder = TokioResolver::builder_tokio()?;
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
        let resolver = builder.build()?;
        Ok(self.resolver.get_or_init(|| resolver).clone())
    }
}

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, resolver) = (self.policy, self.resolver());
        Box::pin(async move {
            let found = resolver?.lookup_ip(name.as_str()).await?;
            let addresses: Vec<IpAddr> = found.iter().collect();
            Ok(filtered(policy, name.as_str(), &addresses)?)
        })
    }
}

/// The addresses, if the policy allows all of them: one denied address suggests that the name was
/// made to mislead.
pub(crate) fn filtered(
    policy: EgressPolicy,
    host: &str,
    addresses: &[IpAddr],
) -> Result<Addrs, Forbidden> {
    for address in addresses {
        policy.check(host, *address)?;
    }
    // Port 0 stands for the port of the URL.
    let addresses: Vec<_> = addresses.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
    Ok(Box::new(addresses.into_iter()))
}

/// The ranges of addresses that are not public, for those who cannot ask for single addresses.
pub(crate) const NOT_PUBLIC: [&str; 24] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2001:db8::/32",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];

/// What makes an address special; none for a public one.
fn kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

/// Follows the registry of special-purpose addresses, RFC 6890 and its updates.
fn kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    /// Addresses of metadata services of clouds that do not use a link-local address.
    const METADATA: [Ipv4Addr; 2] =
        [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
    let [first, second, third, _] = address.octets();
    match (first, second, third) {
        _ if METADATA.contains(&address) => Some("a metadata address"),
        (0, ..) => Some("an address of this host"),
        (127, ..) => Some("a loopback address"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some("a private address"),
        (169, 254, _) => Some("a link-local address, where clouds serve metadata"),
        (100, 64..=127, _) => Some("a shared address of a provider's network"),
        (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) | (240.., ..) => {
            Some("a reserved address")
        }
        (224..=239, ..) => Some("a multicast address"),
        _ => None,
    }
}

fn kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        kind_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an address of this host"),
        // Forms that carry an IPv4 address: mapped and compatible, translated (RFC 6052), 6to4.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => Some("a private address"),
        [0x2001, 0, ..] => Some("a tunnel's address"),
        [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] => Some("a reserved address"),
        [0xfc00..=0xfdff, ..] => Some("a private address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "100.64.0.1",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "2002:7f00:1::",
            "2001:0:1::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            let address: IpAddr = address.parse().unwrap();
            let refused = EgressPolicy::PublicOnly.check("name", address).unwrap_err();
            assert!(refused.to_string().contains("allow_private_addresses"), "{refused}");
            EgressPolicy::Anywhere.check("name", address).unwrap();
        }
        for address in
            ["1.1.1.1", "172.15.0.1", "172.32.0.1", "193.0.0.1", "2606:4700::1", "::ffff:1.1.1.1"]
        {
            EgressPolicy::PublicOnly.check("name", address.parse().unwrap()).unwrap();
        }
    }

    #[test]
    fn one_denied_address_denies_the_name() {
        let mixed = ["1.1.1.1".parse().unwrap(), "10.0.0.1".parse().unwrap()];
        let refused = filtered(EgressPolicy::PublicOnly, "trap.example", &mixed).err().unwrap();
        assert_eq!(refused.address, mixed[1]);
        assert_eq!(filtered(EgressPolicy::Anywhere, "trap.example", &mixed).unwrap().count(), 2);
    }

    #[test]
    fn the_ranges_are_those_of_the_addresses() {
        use crate::host::settings::AddressRange;

        let ranges = NOT_PUBLIC.map(|range| range.parse::<AddressRange>().unwrap());
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        for range in NOT_PUBLIC {
            let (first, prefix) = range.split_once('/').unwrap();
            let (first, prefix) =
                (first.parse::<IpAddr>().unwrap(), prefix.parse::<u32>().unwrap());
            let width = if first.is_ipv4() { 32 } else { 128 };
            let last = bits(first) + ((1_u128 << (width - prefix)) - 1);
            let address = |bits: u128| match first {
                IpAddr::V4(_) => u32::try_from(bits).ok().map(|bits| Ipv4Addr::from(bits).into()),
                IpAddr::V6(_) => Some(Ipv6Addr::from(bits).into()),
            };
            let around = [bits(first).checked_sub(1), last.checked_add(1)];
            let around = around.into_iter().flatten().filter_map(address);
            for address in [Some(first), address(last)].into_iter().flatten().chain(around) {
                let is_listed = ranges.iter().any(|range| range.contains(address));
                // Forms of IPv6 that carry an IPv4 address are as public as that one.
                let carries = matches!(address, IpAddr::V6(it)
                    if it.segments()[..5] == [0; 5] && it.segments()[5] == 0xffff);
                assert!(is_listed == kind(address).is_some() || carries, "{range} {address}");
            }
        }
    }
}
