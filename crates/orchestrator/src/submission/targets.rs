//! Which inputs may share a directory: files with different names, as far as their specifications
//! tell what they are.
//!
//! What this cannot tell, such as whether a content ID is a file, the agent finds out when it has
//! fetched the inputs.

use std::io::Read;

use api_types::source::{InputSource, SourceSpec, SourceType};
use data_url::DataUrl;
use flate2::read::GzDecoder;

use super::findings::Findings;
use super::paths::components;

/// The position of `ustar` in a tar.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

/// What a task sees of an input.
#[derive(Debug, PartialEq, Eq)]
enum Seen<'a> {
    /// A directory, or whatever a node has, at its Target.
    AtTarget,
    /// A file, which has this name in a directory.
    File(&'a str),
    /// Either of them, as the content decides.
    Unknown,
}

// === impl Findings ===

impl Findings {
    /// No input may hide another one, or need a directory inside another one.
    /// Of one whose source is unknown, the target alone is compared.
    pub(super) fn check_targets(
        &mut self,
        place: &str,
        (source, target, alias): (Option<&SourceSpec>, &str, &str),
        others: &[InputSource],
    ) {
        for other in others {
            if !share_a_directory(target, &other.target) {
                self.check_nesting(place, target, std::slice::from_ref(other));
                continue;
            }
            let Some(source) = source else { continue };
            match (seen(source, alias), seen(&other.source, &other.alias)) {
                (Seen::AtTarget, _) | (_, Seen::AtTarget) => {
                    let reason = format!(
                        "'{target}' is the target of an input already, and a directory shares its \
                         target with no other input"
                    );
                    self.refuse(place, reason);
                }
                (Seen::File(name), Seen::File(same)) if name == same => {
                    let reason = format!(
                        "'{target}' has an input named '{name}' already: give one of them another \
                         Alias"
                    );
                    self.refuse(place, reason);
                }
                (Seen::File(_) | Seen::Unknown, Seen::File(_) | Seen::Unknown) => {}
            }
        }
    }
}

/// Whether both targets are the same directory and say so. The root is refused by itself.
fn share_a_directory(one: &str, other: &str) -> bool {
    one.ends_with('/')
        && other.ends_with('/')
        && components(one).next().is_some()
        && components(one).eq(components(other))
}

/// The names of files without an Alias are those that agents give them.
fn seen<'a>(source: &'a SourceSpec, alias: &'a str) -> Seen<'a> {
    let SourceSpec { source_type, params } = source;
    let text = |field| params.get(field).and_then(|value| value.as_str()).unwrap_or_default();
    let named = |own: &'a str, default| match (alias, own) {
        ("", "" | "." | "..") => Seen::File(default),
        ("", own) => Seen::File(own),
        (alias, _) => Seen::File(alias),
    };
    match source_type {
        SourceType::RepoClone | SourceType::RepoCloneLfs | SourceType::LocalDirectory => {
            Seen::AtTarget
        }
        SourceType::S3 if text("Key").ends_with(['/', '*']) => Seen::AtTarget,
        SourceType::S3 => named(after_last_slash(text("Key")), "object"),
        SourceType::Inline if is_archive(text("URL")) => Seen::AtTarget,
        SourceType::Inline => named("", "inline"),
        SourceType::UrlDownload => named(after_last_slash(path_of(text("URL"))), "download"),
        SourceType::Ipfs => Seen::Unknown,
        // Directories, one for each index.
        SourceType::Job if params.get("Index").is_none_or(serde_json::Value::is_null) => {
            Seen::AtTarget
        }
        SourceType::Job if text("Path").is_empty() => Seen::AtTarget,
        SourceType::Job => Seen::Unknown,
    }
}

fn after_last_slash(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The path of a URL, without its query and fragment.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    rest.split_once('/').map_or("", |(_, path)| path)
}

/// Whether nodes unpack it: both its content type and its bytes say that it is a tar.
fn is_archive(url: &str) -> bool {
    let Ok(url) = DataUrl::process(url) else { return false };
    let mime = url.mime_type();
    let says_so = mime.type_.eq_ignore_ascii_case("application")
        && ["gzip", "x-gzip", "x-tar"].iter().any(|known| mime.subtype.eq_ignore_ascii_case(known));
    if !says_so {
        return false;
    }
    let Ok((bytes, _)) = url.decode_to_vec() else { return false };
    let mut head = Vec::new();
    let unpacked = GzDecoder::new(&bytes[..]).take(TAR_MAGIC.end as u64).read_to_end(&mut head);
    let is_tar = |bytes: &[u8]| bytes.get(TAR_MAGIC) == Some(b"ustar");
    is_tar(&bytes) || (unpacked.is_ok() && is_tar(&head))
}
