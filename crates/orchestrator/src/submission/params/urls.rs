//! URLs in `Params`.

use api_types::text::is_control;
use data_url::DataUrl;

use crate::submission::findings::Findings;

pub(super) fn check_data_url(text: &str, path: &str, findings: &mut Findings) {
    match DataUrl::process(text) {
        Ok(url) => {
            if url.decode_to_vec().is_err() {
                findings.refuse(path, "is a data URL with invalid base64");
            }
        }
        Err(_) => {
            findings.refuse(path, "must be a data URL (RFC 2397), like 'data:text/plain,hello'");
        }
    }
}

pub(super) fn check_http_url(text: &str, path: &str, findings: &mut Findings) {
    if !is_http_url(text) {
        findings.refuse(path, "must be a URL that begins with http:// or https://");
    }
}

fn is_http_url(text: &str) -> bool {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|scheme| lower.starts_with(scheme).then(|| &text[scheme.len()..]));
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    has_host && !text.chars().any(|c| c.is_whitespace() || is_control(c))
}

pub(super) fn check_repository_url(text: &str, path: &str, findings: &mut Findings) {
    let is_local = text.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case("file:///"));
    if !is_local && !is_http_url(text) {
        findings.refuse(path, "must be a URL that begins with https://, http:// or file:///");
    }
}
