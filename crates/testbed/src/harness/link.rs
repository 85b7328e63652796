//! A network namespace for an agent, and the link to it, which a test can cut.
//!
//! A cut link silently drops every packet in both directions, like a broken switch: no connection
//! is refused or reset, and all connections continue when the link is healed in time.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most links at a time on a host; each has a subnet of four addresses below 10.213.0.0/18.
const SUBNETS: u32 = 4096;

/// A namespace with its link; dropping it removes both.
#[derive(Debug)]
pub struct Link {
    namespace: String,
    /// This end of the link, and the agent's.
    devices: [String; 2],
    addresses: [Ipv4Addr; 2],
}

// === impl Link ===

impl Link {
    /// Creates a link. Without the permission it prints the reason and returns `None`, or panics
    /// when `CI` is set.
    pub fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let subnet = process.wrapping_mul(97).wrapping_add(number) % SUBNETS;
        let base = u32::from(Ipv4Addr::new(10, 213, 0, 0)) + 4 * subnet;
        let link = Self {
            namespace: format!("testbed-{process}-{number}"),
            devices: [format!("tb{process}o{number}"), format!("tb{process}i{number}")],
            addresses: [Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2)],
        };
        match link.set_up() {
            Ok(()) => Some(link),
            Err(reason) if std::env::var_os("CI").is_some() => panic!("{reason}"),
            Err(reason) => {
                eprintln!("skipped: {reason}");
                None
            }
        }
    }

    /// The address of this end.
    pub fn outside(&self) -> Ipv4Addr {
        self.addresses[0]
    }

    /// The agent's address.
    pub fn inside(&self) -> Ipv4Addr {
        self.addresses[1]
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Drops all packets from now on.
    pub fn cut(&self) {
        // A queue of length 0; alternatives need kernel modules that some hosts lack.
        for line in self.at_both_ends(["tc qdisc replace dev", "root pfifo limit 0"]) {
            run(&line).unwrap_or_else(|reason| panic!("{reason}"));
        }
    }

    pub fn heal(&self) {
        for line in self.at_both_ends(["tc qdisc del dev", "root"]) {
            run(&line).unwrap_or_else(|reason| panic!("{reason}"));
        }
    }

    fn at_both_ends(&self, [verb, rest]: [&str; 2]) -> [String; 2] {
        let ([out, inner], namespace) = (&self.devices, &self.namespace);
        [format!("{verb} {out} {rest}"), format!("ip netns exec {namespace} {verb} {inner} {rest}")]
    }

    fn set_up(&self) -> Result<(), String> {
        let ([out, inner], namespace) = (&self.devices, &self.namespace);
        let [outside, inside] = self.addresses;
        let within = format!("ip -n {namespace}");
        for line in [
            format!("ip netns add {namespace}"),
            format!("ip link add {out} type veth peer name {inner} netns {namespace}"),
            format!("ip address add {outside}/30 dev {out}"),
            format!("ip link set {out} up"),
            format!("{within} address add {inside}/30 dev {inner}"),
            format!("{within} link set {inner} up"),
            format!("{within} link set lo up"),
        ] {
            run(&line)?;
        }
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Removes the agent's end too. Fails harmlessly when set-up was incomplete.
        let _ = run(&format!("ip link del {}", self.devices[0]));
        let _ = run(&format!("ip netns del {}", self.namespace));
    }
}

/// Runs a command whose words contain no spaces.
fn run(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("'{line}': {}", String::from_utf8_lossy(&output.stderr).trim()))
}
