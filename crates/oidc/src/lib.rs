//! OpenID Connect for a relying party: discovery, keys, ID tokens, and the code flow with PKCE.
//!
//! The orchestrator verifies ID tokens with it, and both the orchestrator and the command line sign
//! people in with it. It knows nothing of roles and namespaces, reads no clock, and stores nothing.
//!
//! A library parses and checks tokens; `ring`, which the workspace has anyway, checks their
//! signatures. Rejected: the library's own backends, which add a second and a third implementation of
//! RSA and elliptic curves to the programs; and a client library of OpenID Connect, for the same
//! reason.

mod crypto;
mod flow;
mod key;
mod keys;
mod provider;
mod token;
mod url;

pub use flow::{Callback, Flow, Refused, SEED_BYTES};
pub use keys::{KEYS_SERVE, Now, UNKNOWN_KEY_INTERVAL, Unavailable, Verifier};
pub use provider::{Client, InvalidIssuer, Metadata, Provider, ProviderError};
pub use token::{Claims, InvalidToken, MAX_TOKEN_BYTES, VerifyError, nonce_of};
pub use url::{check_issuer, form};

#[cfg(test)]
mod tests;
