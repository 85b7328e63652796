//! Parses the name of an image: its registry and its tag, by docker's rules.

pub(super) use api_types::credential::{DOCKER_HUB, registry};
use api_types::credential::{canonical_registry, is_registry};

/// The registry that a key in the settings or in docker's configuration means: such keys are hosts
/// or URLs, like `https://index.docker.io/v1/`.
pub(super) fn registry_of_key(key: &str) -> String {
    let key = key.trim();
    let host = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    canonical_registry(host.split('/').next().unwrap_or_default())
}

/// The name with its registry, its repository path and its tag or digest, so that equivalent names
/// are equal.
pub(super) fn full_name(image: &str) -> String {
    let registry = registry(image);
    let path = match image.split_once('/') {
        Some((first, rest)) if is_registry(first) => rest,
        _ => image,
    };
    // Official images of the hub have an implicit namespace.
    let library = if registry == DOCKER_HUB && !path.contains('/') { "library/" } else { "" };
    match name_and_tag(path).1 {
        Some(tag) => format!("{registry}/{library}{path}:{tag}"),
        None => format!("{registry}/{library}{path}"),
    }
}

/// A full name without its tag or digest.
pub(super) fn repository(full_name: &str) -> &str {
    let name = full_name.split('@').next().unwrap_or_default();
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    name[last..].rfind(':').map_or(name, |colon| &name[..last + colon])
}

/// The tag `latest` is explicit: without a tag the Engine would pull every tag.
pub(super) fn name_and_tag(image: &str) -> (&str, Option<&str>) {
    // A colon before the last slash belongs to the registry's port.
    let last = image.rfind('/').map_or(0, |slash| slash + 1);
    match image[last..].rfind([':', '@']) {
        Some(_) => (image, None),
        None => (image, Some("latest")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_pulled_as_latest() {
        assert_eq!(name_and_tag("alpine"), ("alpine", Some("latest")));
        assert_eq!(name_and_tag("host:5000/a/b"), ("host:5000/a/b", Some("latest")));
        assert_eq!(name_and_tag("host:5000/a/b:1"), ("host:5000/a/b:1", None));
        assert_eq!(name_and_tag("a@sha256:00"), ("a@sha256:00", None));
    }

    #[test]
    fn the_registry_follows_dockers_rules() {
        for (image, wanted) in [
            ("alpine", "docker.io"),
            ("alpine:3", "docker.io"),
            ("user/image:1", "docker.io"),
            ("docker.io/library/alpine", "docker.io"),
            ("index.docker.io/library/alpine", "docker.io"),
            ("localhost/image", "localhost"),
            ("local/image", "docker.io"),
            ("host:5000/image", "host:5000"),
            ("127.0.0.1:5000/a/b:1", "127.0.0.1:5000"),
            ("registry.example.com/a/b@sha256:00", "registry.example.com"),
            ("Registry.Example.com/a", "registry.example.com"),
            ("REGISTRY/a", "registry"),
        ] {
            assert_eq!(registry(image), wanted, "{image}");
        }
    }

    #[test]
    fn equivalent_names_are_equal_in_full() {
        for (image, wanted) in [
            ("alpine", "docker.io/library/alpine:latest"),
            ("docker.io/library/alpine:latest", "docker.io/library/alpine:latest"),
            ("index.docker.io/alpine", "docker.io/library/alpine:latest"),
            ("user/image:1", "docker.io/user/image:1"),
            ("h:5000/a", "h:5000/a:latest"),
            ("h:5000/a/b@sha256:00", "h:5000/a/b@sha256:00"),
        ] {
            assert_eq!(full_name(image), wanted, "{image}");
        }
        assert_eq!(repository("h:5000/a/b@sha256:00"), "h:5000/a/b");
        assert_eq!(repository("h:5000/a/b:1@sha256:00"), "h:5000/a/b");
        assert_eq!(repository("h:5000/a:1"), "h:5000/a");
    }

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
