//! Which jobs a search scans, and how the text of a search may be a part of an ID.

/// The jobs to search: of each kind the newest.
pub(in crate::store) struct Window {
    pub(in crate::store) live: u32,
    pub(in crate::store) ended: u32,
}

/// What [`crate::store::Reads::search_jobs`] promises.
pub(in crate::store) const WINDOW: Window = Window { live: 100_000, ended: 10_000 };

/// Shorter parts of an ID are in too many IDs: of 10,000 random ones, three digits are in every
/// eighteenth.
const MIN_ID_DIGITS: usize = 4;

/// The digits of a part of an ID, as in `j-4f2a` or `4f2a-9c01`.
pub(in crate::store) fn id_digits(text: &str) -> Option<String> {
    let digits = text.strip_prefix("j-").unwrap_or(text).replace('-', "");
    let is_id = digits.len() >= MIN_ID_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_ids_are_told_from_names() {
        for (text, digits) in [
            ("j-4f2a", Some("4f2a")),
            ("4f2a-9c01", Some("4f2a9c01")),
            ("4f2", None),
            ("j-build", None),
            ("report-4f2a", None),
            ("", None),
        ] {
            assert_eq!(id_digits(text).as_deref(), digits, "{text}");
        }
    }
}
