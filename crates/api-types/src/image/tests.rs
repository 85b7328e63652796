//! The grammar of references, with what must never be one.

use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn named(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn equivalent_names_are_equal_in_full() {
    for (text, registry, full) in [
        ("alpine", "docker.io", "docker.io/library/alpine:latest"),
        ("alpine:3", "docker.io", "docker.io/library/alpine:3"),
        ("user/image:1", "docker.io", "docker.io/user/image:1"),
        ("docker.io/library/alpine:latest", "docker.io", "docker.io/library/alpine:latest"),
        ("index.docker.io/alpine", "docker.io", "docker.io/library/alpine:latest"),
        ("localhost/image", "localhost", "localhost/image:latest"),
        ("local/image", "docker.io", "docker.io/local/image:latest"),
        ("host:5000/image", "host:5000", "host:5000/image:latest"),
        ("127.0.0.1:5000/a/b:1", "127.0.0.1:5000", "127.0.0.1:5000/a/b:1"),
        ("[::1]:5000/a", "[::1]:5000", "[::1]:5000/a:latest"),
        ("Registry.Example.com/a", "registry.example.com", "registry.example.com/a:latest"),
        ("REGISTRY/a", "registry", "registry/a:latest"),
        ("a.b/c__d/e", "a.b", "a.b/c__d/e:latest"),
        ("x/a---b.c_d:_.-", "docker.io", "docker.io/x/a---b.c_d:_.-"),
    ] {
        let image = named(text);
        assert_eq!(image.registry(), Some(registry), "{text}");
        assert_eq!(image.full_name(), full, "{text}");
        // Only its capitals make a registry of that name.
        assert!(text == "REGISTRY/a" || named(full).full_name() == full, "{text}");
    }
    assert_eq!(named("h:5000/a:1").repository(), "h:5000/a");
}

#[test]
fn a_digest_takes_precedence_over_a_tag() {
    let image = named(&format!("h:5000/a/b:1@{DIGEST}"));
    assert_eq!(image.manifest(), Some(("a/b", DIGEST)));
    assert_eq!(image.pulled(), Some(("h:5000/a/b", DIGEST)));
    assert_eq!(image.repository(), "h:5000/a/b");
    assert_eq!(image.full_name(), format!("h:5000/a/b:1@{DIGEST}"));
    assert_eq!(named("alpine").manifest(), Some(("library/alpine", "latest")));
    assert_eq!(named("index.docker.io/a").pulled(), Some(("index.docker.io/a", "latest")));
    assert_eq!(named("h:5000/a:1").pulled(), Some(("h:5000/a", "1")));
}

#[test]
fn the_id_of_an_image_has_no_registry() {
    let image = named(DIGEST);
    assert_eq!((image.registry(), image.manifest(), image.pulled()), (None, None, None));
    assert_eq!((image.full_name(), image.repository()), (DIGEST.to_owned(), DIGEST.to_owned()));
}

#[test]
fn nothing_else_is_a_reference() {
    let long = "a".repeat(MAX_NAME_BYTES + 1);
    let tag = format!("a:{}", "t".repeat(MAX_TAG_BYTES + 1));
    let digits = &DIGEST["sha256:".len()..];
    let short = &DIGEST[..DIGEST.len() - 1];
    for text in [
        "",
        " ",
        "../containers/x/archive?path=/etc/shadow&x=",
        "../distribution/127.0.0.1:5000/a",
        "..",
        ".",
        "a/../b",
        "a/./b",
        "a//b",
        "/a",
        "a/",
        "a?b",
        "a#b",
        "a%2fb",
        "a%2e%2e",
        "a\\b",
        "a b",
        "a\nb",
        "a\r\nHost: b",
        "a\0b",
        "ä",
        "a\u{202e}b",
        "A",
        "user/Image",
        "-a",
        "a-",
        "a..b",
        "a___b",
        "a._b",
        "a:",
        "a:.b",
        "a:-b",
        "a:b:c",
        "a@",
        "a@sha256:00",
        "a:1@",
        "@",
        ":1",
        "host:/a",
        "host:x/a",
        "host:70000/a",
        "host:+1/a",
        "host:5000:6000/a",
        "user@host:5000/a",
        ".host/a",
        "host./a",
        "-host.example/a",
        "a..b/c",
        "[::1/a",
        "[::1]x/a",
        "[not an address]/a",
        "[::1%25eth0]/a",
        "http://host/a",
        "sha256:00",
        digits,
        short,
        &format!("a@{DIGEST}@{DIGEST}"),
        &format!("a@{}", DIGEST.to_uppercase()),
        &format!("sha512:{digits}{digits}"),
        &long,
        &tag,
    ] {
        let refused = ImageReference::parse(text);
        assert!(refused.is_err(), "{text:?}: {refused:?}");
    }
}

#[test]
fn a_refusal_shows_the_beginning_of_the_text_without_controls() {
    let refused = ImageReference::parse(&format!("a\n\u{1b}[1m{}", "x".repeat(200)));
    let message = refused.unwrap_err().to_string();
    assert!(message.len() < 600 && !message.chars().any(char::is_control), "{message}");
    assert!(message.contains("'a\\n\\u{1b}[1mxxx") && message.contains("its path"), "{message}");
}
