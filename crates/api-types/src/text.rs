//! Characters that are not what a reader sees.

/// The longest name of a host (RFC 1035).
const MAX_HOST_BYTES: usize = 253;

/// Whether the character reorders the text around it, or breaks its line, without being seen: marks,
/// embeddings, overrides and isolates of direction, and the separators of lines and paragraphs.
pub const fn is_directional(character: char) -> bool {
    matches!(
        character,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Whether a name must not contain the character, and a terminal must not get it in the text of
/// others: it controls the terminal, or makes text look like another one.
pub fn is_control(character: char) -> bool {
    character.is_control() || is_directional(character)
}

/// A text that should have been a URL, for messages: its scheme and host and nothing else, since what
/// cannot be parsed may have a password anywhere.
pub fn unparsed_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        // A port has five digits at most.
        let is_port =
            |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
        let host = match text.split_once(':') {
            Some((host, port)) if is_port(port) => host,
            _ => text,
        };
        let is_host = text.len() <= MAX_HOST_BYTES && host.bytes().all(is_word);
        return if is_host { format!("'{text}'") } else { "'…'".to_owned() };
    };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if scheme.is_empty() || !scheme.bytes().all(is_scheme) {
        return "'…'".to_owned();
    }
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, beyond) = rest.split_at(end);
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => host,
        // What looks like the host may be a user and a part of a password with a slash.
        None if beyond.contains('@') => "",
        None => authority,
    };
    let host = match host.find(']') {
        Some(end) if host.starts_with('[') => &host[..=end],
        _ => host.split(':').next().unwrap_or_default(),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let host = if host.bytes().all(is_host) { host } else { "" };
    format!("'{scheme}://{host}…'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_url_is_quoted_without_what_may_be_a_password() {
        for (text, expected) in [
            ("https://u:secret@h.example:99999/a", "'https://h.example…'"),
            ("https://u:sec/ret@h.example/a", "'https://…'"),
            ("https://u:sec#ret@h.example/a", "'https://…'"),
            ("https://u:s@cret@h.example:x/a?token=secret@h", "'https://h.example…'"),
            ("https://h.example:port/a?sig=secret", "'https://h.example…'"),
            ("https://[::1]:port/secret", "'https://[::1]…'"),
            ("https://u:secret@h example/", "'https://…'"),
            ("https://user:secret", "'https://user…'"),
            ("git@h.example:secret/repo", "'…'"),
            ("secret ://h", "'…'"),
            ("", "''"),
            ("nowhere", "'nowhere'"),
            ("127.0.0.1:1234", "'127.0.0.1:1234'"),
            ("user:secret", "'…'"),
        ] {
            assert_eq!(unparsed_url(text), expected, "{text}");
        }
    }

    #[test]
    fn what_reorders_text_is_a_control_character() {
        for character in
            "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\u{7}\u{9b}"
                .chars()
        {
            assert!(is_control(character), "{character:?}");
        }
        // Letters of every direction, and what joins them in words and emoji.
        for character in "aß\u{5d0}\u{627}\u{200c}\u{200d}\u{202f}\u{a0}😀".chars() {
            assert!(!is_control(character), "{character:?}");
        }
    }
}
