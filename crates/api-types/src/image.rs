//! References to container images: the only form in which a job's image reaches a registry or the
//! Docker Engine.
//!
//! The grammar is that of the distribution project (`reference`), which registries and Engines
//! share: `[registry[:port]/]path[:tag][@digest]`, or the ID of an image, `sha256:` and 64
//! hexadecimal digits. Everything that depends on an image's name (its registry, whose credentials
//! it may use, what is pulled) reads it from here, so that no two parts disagree about it.

use core::fmt;
use core::net::Ipv6Addr;
use core::str::FromStr;

/// The registry of an image whose name has none.
pub const DOCKER_HUB: &str = "docker.io";

/// Bytes of a name without tag and digest, as the Engine limits it.
pub const MAX_NAME_BYTES: usize = 255;

const MAX_TAG_BYTES: usize = 128;

/// The algorithms that the Engine knows, with the hexadecimal digits of their digests.
const ALGORITHMS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// The tag of an image for which none is named: without a tag the Engine would pull every tag.
const LATEST: &str = "latest";

/// A valid reference to an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageReference {
    /// As it was written.
    text: String,
    target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Target {
    /// The ID of an image that an Engine has; it says nothing about a registry.
    Id,
    Named {
        registry: String,
        /// Below the registry; official images of the hub are below `library/`.
        path: String,
        tag: Option<String>,
        digest: Option<String>,
        /// Bytes of the text before tag and digest.
        name_bytes: usize,
    },
}

/// Why a text is not a reference to an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not a reference to an image: {problem}; write [registry[:port]/]path[:tag][@digest], \
     like 'alpine:3.20' or 'ghcr.io/team/image@sha256:…'",
    Quoted(text)
)]
pub struct InvalidImage {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("it is empty")]
    Empty,
    #[error("its registry is not a host with an optional port")]
    Registry,
    #[error(
        "each part of its path must be lower-case letters and digits, separated by single '.', \
         one or two '_', or any number of '-'"
    )]
    Path,
    #[error("its name is longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
    #[error(
        "its tag must be at most {MAX_TAG_BYTES} letters, digits, '_', '.' or '-', and must not begin with '.' or '-'"
    )]
    Tag,
    #[error(
        "its digest must be sha256, sha384 or sha512, a ':' and all of the digest's lower-case hexadecimal digits"
    )]
    Digest,
    #[error(
        "64 hexadecimal digits are the ID of an image, which is written 'sha256:' and the digits"
    )]
    BareId,
}

/// The beginning of a text, in quotes and without control characters.
struct Quoted<'a>(&'a str);

// === impl ImageReference ===

impl ImageReference {
    pub fn parse(text: &str) -> Result<Self, InvalidImage> {
        match Target::parse(text) {
            Ok(target) => Ok(Self { text: text.to_owned(), target }),
            Err(problem) => Err(InvalidImage { text: text.to_owned(), problem }),
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `host` or `host:port`; none for the ID of an image.
    pub fn registry(&self) -> Option<&str> {
        match &self.target {
            Target::Id => None,
            Target::Named { registry, .. } => Some(registry),
        }
    }

    /// The name with its registry, its path and its tag or digest, so that equivalent names are
    /// equal.
    pub fn full_name(&self) -> String {
        let Target::Named { tag, digest, .. } = &self.target else { return self.text.clone() };
        let mut name = self.repository();
        if let Some(tag) = tag.as_deref().or(digest.is_none().then_some(LATEST)) {
            name.push(':');
            name.push_str(tag);
        }
        if let Some(digest) = digest {
            name.push('@');
            name.push_str(digest);
        }
        name
    }

    /// The full name without tag and digest.
    pub fn repository(&self) -> String {
        match &self.target {
            Target::Id => self.text.clone(),
            Target::Named { registry, path, .. } => format!("{registry}/{path}"),
        }
    }

    /// What a registry is asked for: the path below it, and the digest or tag.
    pub fn manifest(&self) -> Option<(&str, &str)> {
        match &self.target {
            Target::Id => None,
            Target::Named { path, tag, digest, .. } => {
                Some((path, digest.as_deref().or(tag.as_deref()).unwrap_or(LATEST)))
            }
        }
    }

    /// What the Engine pulls: the name as it was written, and the digest or tag.
    pub fn pulled(&self) -> Option<(&str, &str)> {
        let Target::Named { name_bytes, .. } = &self.target else { return None };
        let (_, version) = self.manifest()?;
        Some((self.text.get(..*name_bytes)?, version))
    }
}

impl FromStr for ImageReference {
    type Err = InvalidImage;

    fn from_str(text: &str) -> Result<Self, InvalidImage> {
        Self::parse(text)
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl Target ===

impl Target {
    fn parse(text: &str) -> Result<Self, Problem> {
        if text.is_empty() {
            return Err(Problem::Empty);
        }
        if text.len() == 64 && text.bytes().all(is_digest_digit) {
            return Err(Problem::BareId);
        }
        // A repository of the name of an algorithm would be valid, and never what is meant.
        if let Some((algorithm, _)) = text.split_once(':')
            && ALGORITHMS.iter().any(|(known, _)| *known == algorithm)
        {
            return match is_digest(text) && algorithm == "sha256" {
                true => Ok(Self::Id),
                false => Err(Problem::Digest),
            };
        }
        let (name_and_tag, digest) = match text.split_once('@') {
            Some((_, digest)) if !is_digest(digest) => return Err(Problem::Digest),
            Some((rest, digest)) => (rest, Some(digest.to_owned())),
            None => (text, None),
        };
        // A colon before the last slash belongs to the registry's port.
        let last = name_and_tag.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name_and_tag[last..].find(':') {
            Some(colon) => {
                let (name, tag) = name_and_tag.split_at(last + colon);
                (name, Some(&tag[1..]))
            }
            None => (name_and_tag, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(Problem::Tag);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(Problem::TooLong);
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if is_registry(first) => {
                if !is_host_and_port(first) {
                    return Err(Problem::Registry);
                }
                (canonical_registry(first), rest)
            }
            _ => (DOCKER_HUB.to_owned(), name),
        };
        if !path.split('/').all(is_component) {
            return Err(Problem::Path);
        }
        let path = match registry == DOCKER_HUB && !path.contains('/') {
            true => format!("library/{path}"),
            false => path.to_owned(),
        };
        let tag = tag.map(str::to_owned);
        Ok(Self::Named { registry, path, tag, digest, name_bytes: name.len() })
    }
}

/// The first component of an image's name is a registry if it cannot be a user of the hub.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// One name for each registry: the hub has several.
pub fn canonical_registry(host: &str) -> String {
    const NAMES_OF_THE_HUB: [&str; 3] = [DOCKER_HUB, "index.docker.io", "registry-1.docker.io"];
    let host = host.to_ascii_lowercase();
    match NAMES_OF_THE_HUB.contains(&host.as_str()) {
        true => DOCKER_HUB.to_owned(),
        false => host,
    }
}

fn is_host_and_port(text: &str) -> bool {
    let after_address = text.rfind(']').map_or(0, |bracket| bracket + 1);
    let (host, port) = match text[after_address..].find(':') {
        Some(colon) => {
            let (host, port) = text.split_at(after_address + colon);
            (host, Some(&port[1..]))
        }
        None => (text, None),
    };
    // `parse` alone would accept a sign.
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if !port.is_none_or(is_port) {
        return false;
    }
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.split('.').all(|label| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
            label.bytes().all(allowed)
                && is_end(label.bytes().next())
                && is_end(label.bytes().next_back())
        }),
    }
}

/// Lower-case letters and digits, with separators only between them.
fn is_component(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut rest = text.as_bytes();
    loop {
        let letters = rest.iter().take_while(|byte| is_alphanumeric(**byte)).count();
        if letters == 0 {
            return false;
        }
        rest = &rest[letters..];
        if rest.is_empty() {
            return true;
        }
        let separators = match rest {
            [b'.', ..] => 1,
            [b'_', b'_', ..] => 2,
            [b'_', ..] => 1,
            _ => rest.iter().take_while(|byte| **byte == b'-').count(),
        };
        if separators == 0 {
            return false;
        }
        rest = &rest[separators..];
    }
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= MAX_TAG_BYTES
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || b".-".contains(&byte))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, digits)| {
        ALGORITHMS.contains(&(algorithm, digits.len())) && digits.bytes().all(is_digest_digit)
    })
}

fn is_digest_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

// === impl Quoted ===

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 100;
        let Self(text) = self;
        let shown = text.chars().take(MOST).flat_map(char::escape_debug).collect::<String>();
        let more = if text.chars().nth(MOST).is_some() { "…" } else { "" };
        write!(f, "'{shown}{more}'")
    }
}

#[cfg(test)]
mod tests;
