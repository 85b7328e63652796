//! The names that operators and users give to namespaces and secrets.

/// The longest name.
pub(crate) const MAX_NAME_CHARS: usize = 63;

/// The rule, as the reason why a name is refused.
pub(crate) const RULE: &str =
    "must have 1 to 63 letters, digits, '-', '_' and '.', and begin with a letter or digit";

/// Whether the name can stand in a path, a file name and a query as it is.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_CHARS
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_says_what_is_checked() {
        assert!(RULE.contains(&MAX_NAME_CHARS.to_string()));
        for name in ["a", "db.password_2", &"x".repeat(MAX_NAME_CHARS)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", ".", "a/b", "a b", "ä", &"x".repeat(MAX_NAME_CHARS + 1)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
