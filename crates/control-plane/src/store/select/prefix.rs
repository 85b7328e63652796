//! Ranges of the names and IDs that begin with a text.

use api_types::JobId;
use api_types::job::GENERATED_DIGITS;

/// The first text, in the order of bytes, after all that begin with this one; none if there is none.
pub(super) fn prefix_end(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        // The surrogates are no characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}

/// The first and the last ID whose text begins with this one; none if no ID does.
pub(super) fn ids_with_prefix(prefix: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut nibbles = Vec::new();
    for (at, character) in prefix.chars().enumerate() {
        match (at, character) {
            (0, JobId::LETTER) | (1 | 10 | 15 | 20 | 25, '-') => {}
            (0 | 1 | 10 | 15 | 20 | 25 | 38.., _) => return None,
            // IDs are written in lower case.
            (_, 'A'..='F') => return None,
            (_, digit) => nibbles.push(u8::try_from(digit.to_digit(16)?).ok()?),
        }
    }
    let padded = |fill: u8| -> Vec<u8> {
        let nibble = |at: usize| nibbles.get(at).copied().unwrap_or(fill);
        (0..16).map(|byte| nibble(2 * byte) << 4 | nibble(2 * byte + 1)).collect()
    };
    Some((padded(0), padded(0xf)))
}

/// The stem, and the first and the last ID, of the generated names that begin with this text and
/// have it whole up to their last dash; none if there are none.
pub(super) fn generated(text: &str) -> Option<(&str, Vec<u8>, Vec<u8>)> {
    let (stem, digits) = text.rsplit_once('-')?;
    // IDs are written in lower case.
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if stem.is_empty() || digits.len() > GENERATED_DIGITS || !digits.bytes().all(is_digit) {
        return None;
    }
    let padded = |fill: char| {
        let digits = digits.chars().chain(std::iter::repeat(fill)).take(GENERATED_DIGITS);
        let number = u16::from_str_radix(&digits.collect::<String>(), 16).unwrap_or_default();
        let rest = if fill == '0' { 0 } else { u8::MAX };
        let mut id = [rest; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        id.to_vec()
    };
    Some((stem, padded('0'), padded('f')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::row::Id;

    #[test]
    fn the_end_of_a_prefix_is_after_everything_that_begins_with_it() {
        for (prefix, end) in [
            ("a", Some("b")),
            ("az", Some("a{")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("", None),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    #[test]
    fn a_prefix_of_an_id_is_a_range_of_ids() {
        let id = "j-12ab34cd-0000-4000-8000-000000000001";
        let bytes = id.parse::<JobId>().unwrap().bytes().to_vec();
        for length in 0..=id.len() {
            let (low, high) = ids_with_prefix(&id[..length]).unwrap();
            assert!(low <= bytes && bytes <= high, "{length}");
        }
        let (low, high) = ids_with_prefix("j-12a").unwrap();
        assert_eq!((&low[..2], &high[..2]), (&[0x12, 0xa0][..], &[0x12, 0xaf][..]));
        assert_eq!(ids_with_prefix(id).map(|(low, high)| low == high), Some(true));
        for other in ["e", "j1", "j-x", "j-12AB", "j-12ab34cd0", &format!("{id}0")] {
            assert_eq!(ids_with_prefix(other), None, "{other}");
        }
    }
}
