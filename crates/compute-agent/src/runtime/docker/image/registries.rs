//! Which registries images may be pulled from.
//!
//! The Engine resolves the name of an image from the node's position in the network. So the agent
//! contacts a registry on a private address only if the operator lists it, provides credentials for
//! it, or allows private addresses altogether.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::image::ImageReference;
use reqwest::Url;

use super::credentials::Credentials;
use super::reference::{DOCKER_HUB, registry_of_key};
use crate::data::egress::EgressClient;
use crate::data::egress::addresses::{EgressPolicy, Unreached};
use crate::host::settings::Settings;

/// Allows every registry that is not on a private address.
const ANY: &str = "*";

/// Why the ID of an image is not pulled.
const AN_ID: &str = "it is the ID of an image that is not on this node, and an ID names no registry; \
                     name the image by its registry and its tag or digest";

pub(super) struct Registries {
    /// None for any.
    listed: Option<BTreeSet<String>>,
    /// The operator vouches for these, wherever they are.
    named: BTreeSet<String>,
    credentials: Arc<Credentials>,
    pub(super) policy: EgressPolicy,
    /// For servers that the operator does not vouch for.
    pub(super) guarded: EgressClient,
    pub(super) unguarded: EgressClient,
}

// === impl Registries ===

impl Registries {
    pub(super) fn new(settings: &Settings, credentials: Arc<Credentials>) -> Self {
        let named = settings.docker.registries.iter().filter(|name| *name != ANY);
        let named: BTreeSet<_> = named.map(|name| registry_of_key(name)).collect();
        let policy = EgressPolicy::from_settings(settings);
        Self {
            listed: (!settings.docker.registries.iter().any(|name| name == ANY))
                .then(|| named.clone()),
            named,
            credentials,
            policy,
            guarded: EgressClient::new(policy),
            unguarded: EgressClient::new(EgressPolicy::Anywhere),
        }
    }

    /// Why this node does not pull the image, if so.
    pub(super) async fn check(&self, image: &ImageReference) -> Result<(), String> {
        let registry = image.registry().ok_or_else(|| AN_ID.to_owned())?;
        if self.listed.as_ref().is_some_and(|listed| !listed.contains(registry)) {
            return Err(format!(
                "registry '{registry}' is not one that this node's settings allow \
                 (docker.registries)"
            ));
        }
        if self.policy == EgressPolicy::Anywhere || self.names(registry) {
            return Ok(());
        }
        match self.check_address(registry).await {
            Err(_) if self.vouches_for(registry).await => Ok(()),
            Err(reason) => Err(format!(
                "registry '{registry}' is not asked: {reason}; if jobs may use it, list it in \
                 docker.registries"
            )),
            Ok(()) => Ok(()),
        }
    }

    /// Whether the operator lists the server, written like a registry.
    pub(super) fn names(&self, server: &str) -> bool {
        self.named.contains(&registry_of_key(server))
    }

    /// Whether the operator lists the registry, or gives credentials for it.
    pub(super) async fn vouches_for(&self, registry: &str) -> bool {
        self.names(registry) || self.credentials.for_registry(registry).await.login.is_some()
    }

    async fn check_address(&self, registry: &str) -> Result<(), String> {
        // Parsed as a URL, `127.1` and `0x7f000001` are the address that they are to the Engine.
        let url = Url::parse(&format!("https://{registry}/"))
            .map_err(|error| format!("it has no valid name ({error})"))?;
        match self.guarded.reaches(&url).await {
            Ok(()) => Ok(()),
            // No job chooses what this name leads to, and the Engine may reach it by a proxy.
            Err(Unreached::Unknown { .. }) if registry == DOCKER_HUB => Ok(()),
            // The Engine may know it from files that the agent does not see.
            Err(refused) => Err(refused.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::settings::DockerSettings;

    fn registries(listed: &[&str]) -> Registries {
        let docker = DockerSettings {
            registries: listed.iter().map(|name| (*name).to_owned()).collect(),
            config_file: std::path::PathBuf::new(),
            ..DockerSettings::default()
        };
        let credentials = Arc::new(Credentials::new(&docker));
        Registries::new(&Settings { docker, ..Settings::default() }, credentials)
    }

    fn image(text: &str) -> ImageReference {
        ImageReference::parse(text).unwrap()
    }

    #[tokio::test]
    async fn the_id_of_an_image_is_not_pulled() {
        let id = format!("sha256:{}", "0".repeat(64));
        let refused = registries(&[ANY]).check(&image(&id)).await.expect_err("an ID");
        assert!(refused.contains("names no registry"), "{refused}");
    }

    #[tokio::test]
    async fn no_spelling_of_a_private_address_is_a_registry() {
        let any = registries(&[ANY]);
        for host in [
            "127.0.0.1:29003",
            "127.1:29003",
            "0x7f.1",
            "0x7f000001:29003",
            "2130706433.:29003",
            "[::1]",
            "[::1]:29003",
            "[::ffff:127.0.0.1]:29003",
            "localhost",
            "localhost:29003",
            "LOCALHOST:29003",
            "10.0.0.1",
            "169.254.169.254",
            "a..b",
            "absent.invalid",
        ] {
            // Some of them are no names of registries at all.
            let Ok(image) = ImageReference::parse(&format!("{host}/a/b:1")) else { continue };
            let refused = any.check(&image).await.expect_err(host);
            assert!(refused.contains("docker.registries"), "{refused}");
        }
        any.check(&image("1.1.1.1/a/b:1")).await.expect("a public address");
    }

    #[tokio::test]
    async fn a_registry_that_the_operator_lists_may_be_on_any_address() {
        let listed = registries(&["127.0.0.1:5000"]);
        listed.check(&image("127.0.0.1:5000/a:1")).await.expect("it is listed");
        let refused = listed.check(&image("1.1.1.1/a:1")).await.expect_err("not listed");
        assert!(refused.contains("this node's settings allow"), "{refused}");
    }
}
