//! Names of registries and images in what the operator or the Engine writes.

pub(super) use api_types::image::DOCKER_HUB;
use api_types::image::{ImageReference, canonical_registry};

/// The registry that a key in the settings or in docker's configuration means: such keys are hosts
/// or URLs, like `https://index.docker.io/v1/`.
pub(super) fn registry_of_key(key: &str) -> String {
    let key = key.trim();
    let host = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    canonical_registry(host.split('/').next().unwrap_or_default())
}

/// The full name of an image that the Engine lists; itself where the Engine lists another text.
pub(super) fn full_name(listed: &str) -> String {
    ImageReference::parse(listed).map_or_else(|_| listed.to_owned(), |image| image.full_name())
}

/// The repository of an image that the Engine lists, or of a full name.
pub(super) fn repository(listed: &str) -> String {
    ImageReference::parse(listed).map_or_else(|_| listed.to_owned(), |image| image.repository())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hosts_or_urls() {
        for (key, wanted) in [
            ("https://index.docker.io/v1/", "docker.io"),
            ("registry-1.docker.io", "docker.io"),
            ("docker.io", "docker.io"),
            ("registry.example.com:5000", "registry.example.com:5000"),
            ("http://registry.example.com:5000/v2/", "registry.example.com:5000"),
            ("https://Example.com", "example.com"),
        ] {
            assert_eq!(registry_of_key(key), wanted, "{key}");
        }
    }
}
