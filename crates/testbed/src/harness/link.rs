//! A network of its own for an agent, and the one link to it, which a test can cut.
//!
//! A cut link drops every packet silently, in both directions, as a broken switch does: no
//! connection is refused or reset, and all of them go on when it is healed in time.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Links of this host at the same time; each has a subnet of four addresses below 10.213.0.0/18.
const SUBNETS: u32 = 4096;

/// Gone, with everything in it, when this is dropped.
#[derive(Debug)]
pub struct Link {
    namespace: String,
    /// Our end, and the agent's.
    devices: [String; 2],
    addresses: [Ipv4Addr; 2],
}

// === impl Link ===

impl Link {
    /// None, with the reason printed, where this process may not make one; where `CI` is set that
    /// is a failure.
    pub fn make() -> Option<Self> {
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

    /// This side's address.
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

    /// Every packet is dropped from now on.
    pub fn cut(&self) {
        // A queue of no length; other means need kernel modules that are not everywhere.
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
        // The agent's end goes with ours. What was never made cannot be removed, which is fine.
        let _ = run(&format!("ip link del {}", self.devices[0]));
        let _ = run(&format!("ip netns del {}", self.namespace));
    }
}

/// Runs a command whose words have no spaces in them.
fn run(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("'{line}': {}", String::from_utf8_lossy(&output.stderr).trim()))
}
