//! How many tokens the callers of a namespace may make.

use api_types::Timestamp;

use super::token::StoredToken;

/// Valid tokens of a namespace beyond which its own callers make no more. Without a bound, one owner
/// could use up the records of all.
pub(crate) const MAX_OF_NAMESPACE: usize = 1000;

/// The first namespace of a new token that has as many as it may have, with `others` that are being
/// created in each of them. Tokens from sign-ins have bounds of their own.
pub(crate) fn full_namespace(
    tokens: impl IntoIterator<Item = StoredToken>,
    new: &StoredToken,
    others: Vec<usize>,
    now: Timestamp,
) -> Option<&str> {
    let mut counts = others;
    for token in tokens {
        if token.subject.is_some() || token.is_over(now) {
            continue;
        }
        for (count, name) in counts.iter_mut().zip(&new.namespaces) {
            *count += usize::from(token.namespaces.contains(name));
        }
    }
    let full = counts.iter().position(|count| *count >= MAX_OF_NAMESPACE)?;
    Some(&new.namespaces[full])
}

#[cfg(test)]
mod tests {
    use api_types::access::Role;

    use super::*;

    fn token(namespaces: &[&str]) -> StoredToken {
        StoredToken {
            name: String::new(),
            role: Role::Viewer,
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            created_by: String::new(),
            create_time: Timestamp(0),
            expire_time: None,
            last_use_time: None,
            subject: None,
            ancestors: Vec::new(),
            person: None,
            hash: String::new(),
        }
    }

    #[test]
    fn a_namespace_has_so_many_tokens_and_no_one_else_pays_for_it() {
        let now = Timestamp(5);
        let full = |tokens: Vec<StoredToken>, new: &[&str]| {
            full_namespace(tokens, &token(new), vec![0; new.len()], now).map(str::to_owned)
        };
        let of = |namespaces: &[&str], count: usize| vec![token(namespaces); count];
        assert_eq!(full(of(&["a"], MAX_OF_NAMESPACE - 1), &["a"]), None);
        assert_eq!(full(of(&["a"], MAX_OF_NAMESPACE), &["a"]).as_deref(), Some("a"));
        let almost = of(&["b"], MAX_OF_NAMESPACE - 1);
        let both = token(&["a", "b"]);
        assert_eq!(full_namespace(almost, &both, vec![0, 1], now), Some("b"), "one is on its way");
        assert_eq!(full(of(&["a"], 100_000), &["b"]), None);
        // A token of several namespaces counts in each, so that no combination evades the bound.
        let both = of(&["a", "b"], MAX_OF_NAMESPACE);
        assert_eq!(full(both.clone(), &["c", "b"]).as_deref(), Some("b"));
        assert_eq!(full(both, &["c"]), None);
        let expired = StoredToken { expire_time: Some(Timestamp(4)), ..token(&["a"]) };
        assert_eq!(full(vec![expired; MAX_OF_NAMESPACE], &["a"]), None);
        let signed_in = StoredToken { subject: Some("ada".to_owned()), ..token(&["a"]) };
        assert_eq!(full(vec![signed_in; MAX_OF_NAMESPACE], &["a"]), None);
    }
}
