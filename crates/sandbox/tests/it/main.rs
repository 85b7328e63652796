//! The program as it restricts a network namespace of this machine, over IPv6: Docker seldom has it.

mod namespaces;
mod renewal;

use namespaces::{GATEWAY, Namespaces, OWN, PRIVATE, PUBLIC, Program};

#[test]
fn a_guarded_namespace_reaches_public_addresses_alone_over_ipv6() {
    let Some(namespaces) = Namespaces::create() else { return };
    let Namespaces { guarded, other } = &namespaces;
    for address in [PUBLIC, PRIVATE, GATEWAY] {
        assert_eq!(Namespaces::failure(guarded, address), "Connection refused", "{address}");
    }
    assert_eq!(Namespaces::failure(other, OWN), "Connection refused");

    let mut program = Program::start(guarded, &[]);
    assert_eq!(program.ask("hold"), "held");

    assert_eq!(Namespaces::failure(guarded, PUBLIC), "Connection refused");
    // The gateway is an address of the node.
    for address in [PRIVATE, GATEWAY] {
        assert_eq!(Namespaces::failure(guarded, address), "No route to host", "{address}");
    }
    assert_eq!(Namespaces::failure(other, OWN), "no answer");
    program.end();
}
