//! Registry logins, and the hub's address in them.

use crate::host::settings::Secret;

/// The hub's address in logins.
pub(super) const ADDRESS_OF_THE_HUB: &str = "https://index.docker.io/v1/";

/// The credentials of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    Password { username: String, password: Secret },
    IdentityToken(Secret),
}
