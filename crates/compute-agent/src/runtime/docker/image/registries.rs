//! Which registries images may be pulled from.
//!
//! The Engine follows the name of an image wherever it leads, with the node's own place in the
//! network. So a registry on a private address is only asked if the operator lists it, gives
//! credentials for it, or allows private addresses altogether.

use std::collections::BTreeSet;
use std::net::IpAddr;

use reqwest::dns::Resolve;

use super::credentials::Credentials;
use super::reference::{registry, registry_of_key};
use crate::data::egress::addresses::{EgressPolicy, FilteringResolver};
use crate::host::settings::Settings;

/// Allows every registry that is not on a private address.
const ANY: &str = "*";

pub(super) struct Registries {
    /// None for any.
    listed: Option<BTreeSet<String>>,
    /// The operator vouches for these, wherever they are.
    named: BTreeSet<String>,
    policy: EgressPolicy,
    resolver: FilteringResolver,
}

// === impl Registries ===

impl Registries {
    pub(super) fn new(settings: &Settings) -> Self {
        let named = settings.docker.registries.iter().filter(|name| *name != ANY);
        let named: BTreeSet<_> = named.map(|name| registry_of_key(name)).collect();
        let policy = EgressPolicy::of(settings);
        Self {
            listed: (!settings.docker.registries.iter().any(|name| name == ANY))
                .then(|| named.clone()),
            named,
            policy,
            resolver: FilteringResolver::new(policy),
        }
    }

    /// Why this node does not pull the image, if so.
    pub(super) async fn check(&self, image: &str, known: &Credentials) -> Result<(), String> {
        let registry = registry(image);
        if self.listed.as_ref().is_some_and(|listed| !listed.contains(&registry)) {
            return Err(format!(
                "registry '{registry}' is not one that this node's settings allow \
                 (docker.registries)"
            ));
        }
        if self.named.contains(&registry) || self.policy == EgressPolicy::Anywhere {
            return Ok(());
        }
        match self.check_address(&registry).await {
            Err(_) if known.of(&registry).await.login.is_some() => Ok(()),
            Err(reason) => {
                Err(format!("registry '{registry}' is not asked: {reason}, or docker.registries"))
            }
            Ok(()) => Ok(()),
        }
    }

    async fn check_address(&self, registry: &str) -> Result<(), String> {
        let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            return self.policy.check(host, address).map_err(|error| error.to_string());
        }
        let Ok(name) = host.parse() else { return Err("it has no valid name".to_owned()) };
        match self.resolver.resolve(name).await {
            Err(error) if error.is::<crate::data::egress::addresses::Forbidden>() => {
                Err(error.to_string())
            }
            // A name that does not resolve here is the Engine's to report.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
