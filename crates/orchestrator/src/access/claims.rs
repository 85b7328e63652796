//! The role, the namespaces and the name of an identity that an issuer has confirmed.
//!
//! The first rule that matches gives the role; further matching rules with the same role add their
//! namespaces. A role is never combined with the namespaces of a rule for another role, so each caller
//! gets what one rule states and no more.

use std::collections::BTreeSet;

use api_types::access::{ALL_NAMESPACES, Role};
use api_types::text::is_control;
use serde_json::{Map, Value};

use crate::settings::{ClaimValue, RuleSettings};

/// The longest name that is made of a claim, in characters.
const MAX_NAME_CHARS: usize = 100;

const EMAIL: &str = "email";

/// The claims that name a person or program, the best one first.
const NAMES: [&str; 3] = [EMAIL, "preferred_username", "sub"];

/// The role of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) role: Role,
    /// As tokens have them.
    pub(crate) namespaces: Vec<String>,
}

/// The claims that an issuer has confirmed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Confirmed<'a> {
    pub(crate) all: &'a Map<String, Value>,
    /// Whether it verifies every email address, without saying so of each.
    pub(crate) email_is_verified: bool,
}

/// What the rules give to a caller with these claims.
pub(crate) fn grant(rules: &[RuleSettings], claims: Confirmed<'_>) -> Option<Grant> {
    let mut matching = rules.iter().filter(|rule| matches(rule, claims));
    let first = matching.next()?;
    let role = first.role;
    let of_same_role = matching.filter(|rule| rule.role == role);
    let namespaces: BTreeSet<&String> =
        std::iter::once(first).chain(of_same_role).flat_map(|rule| &rule.namespaces).collect();
    let is_everywhere =
        role.is_of_the_cluster() || namespaces.iter().any(|it| *it == ALL_NAMESPACES);
    let namespaces = match is_everywhere {
        true => vec![ALL_NAMESPACES.to_owned()],
        false => namespaces.into_iter().cloned().collect(),
    };
    Some(Grant { role, namespaces })
}

/// The names of the claims that rules compare.
pub(crate) fn compared(rules: &[RuleSettings]) -> BTreeSet<&str> {
    rules.iter().flat_map(|rule| rule.claims.keys().map(String::as_str)).collect()
}

fn matches(rule: &RuleSettings, claims: Confirmed<'_>) -> bool {
    let mut wanted = rule.claims.iter();
    wanted.all(|(name, value)| claims.find(name).is_some_and(|found| has(found, value)))
}

/// Whether the claim is the value, or a list that contains it. A number is no text of its digits.
fn has(found: &Value, wanted: &ClaimValue) -> bool {
    match found {
        Value::Array(items) => items.iter().any(|item| is(item, wanted)),
        found => is(found, wanted),
    }
}

fn is(found: &Value, wanted: &ClaimValue) -> bool {
    match wanted {
        ClaimValue::Truth(wanted) => found.as_bool() == Some(*wanted),
        ClaimValue::Number(wanted) => found.as_i64() == Some(*wanted),
        ClaimValue::Text(wanted) => found.as_str() == Some(wanted),
    }
}

/// As whom people know a caller with these claims: by this claim, or by the best that there is.
pub(crate) fn name(claims: Confirmed<'_>, claim: &str) -> String {
    let text = |claim: &str| {
        let text = claims.find(claim)?.as_str()?;
        let text = text.chars().filter(|it| !is_control(*it)).take(MAX_NAME_CHARS);
        Some(text.collect::<String>().trim().to_owned()).filter(|text| !text.is_empty())
    };
    if !claim.is_empty()
        && let Some(name) = text(claim)
    {
        return name;
    }
    NAMES.into_iter().find_map(text).unwrap_or_else(|| "unnamed".to_owned())
}

// === impl Confirmed ===

impl<'a> Confirmed<'a> {
    /// A claim by its name, or by a JSON pointer (RFC 6901) if the name begins with a slash. An address
    /// that the issuer has not verified is no claim: people can often enter any.
    fn find(self, name: &str) -> Option<&'a Value> {
        let (first, rest) = match name.strip_prefix('/') {
            None => (name.to_owned(), ""),
            Some(pointer) => {
                let first = pointer.split('/').next().unwrap_or_default();
                (first.replace("~1", "/").replace("~0", "~"), &pointer[first.len()..])
            }
        };
        // Of the claim itself, and of whatever a pointer finds in it.
        if first == EMAIL && !self.has_verified_email() {
            return None;
        }
        self.all.get(&first)?.pointer(rest)
    }

    /// Some issuers say it in words.
    fn has_verified_email(self) -> bool {
        match self.all.get("email_verified") {
            None => self.email_is_verified,
            Some(Value::String(word)) => word == "true",
            Some(verified) => *verified == Value::Bool(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn rule(claims: &Value, role: Role, namespaces: &[&str]) -> RuleSettings {
        let claims = serde_json::from_value::<BTreeMap<_, _>>(claims.clone()).unwrap();
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        RuleSettings { claims, role, namespaces }
    }

    fn confirmed(all: &Map<String, Value>) -> Confirmed<'_> {
        Confirmed { all, email_is_verified: false }
    }

    fn claims(claims: Value) -> Map<String, Value> {
        let Value::Object(claims) = claims else { panic!("an object") };
        claims
    }

    #[test]
    fn all_claims_of_a_rule_must_match() {
        let only = |wanted: Value| [rule(&wanted, Role::Viewer, &["a"])];
        let person = claims(json!({
            "groups": ["platform", "ops"], "level": 3, "email_verified": true, "digits": "3",
            "kubernetes.io": { "namespace": "build", "pods": [{ "name": "p" }] }, "a/b": { "~": 1 },
        }));
        for (wanted, is_matched) in [
            (json!({ "groups": "platform" }), true),
            (json!({ "groups": "ops", "level": 3 }), true),
            (json!({ "email_verified": true }), true),
            (json!({ "/kubernetes.io/namespace": "build" }), true),
            (json!({ "/kubernetes.io/pods/0/name": "p" }), true),
            (json!({ "/groups/1": "ops" }), true),
            (json!({ "/a~1b/~0": 1 }), true),
            (json!({ "groups": "platform", "level": 4 }), false),
            (json!({ "groups": "plat" }), false),
            (json!({ "groups": "Platform" }), false),
            (json!({ "level": "3" }), false),
            (json!({ "digits": 3 }), false),
            (json!({ "email_verified": "true" }), false),
            (json!({ "kubernetes.io": "build" }), false),
            (json!({ "/kubernetes.io": "build" }), false),
            (json!({ "/": "build" }), false),
            (json!({ "absent": "x" }), false),
        ] {
            assert_eq!(
                grant(&only(wanted.clone()), confirmed(&person)).is_some(),
                is_matched,
                "{wanted}"
            );
        }
    }

    #[test]
    fn an_address_that_the_issuer_has_not_verified_matches_nothing() {
        // The second is whether it matches where the operator says that all addresses are verified.
        for (verified, is_matched, is_matched_on_trust) in [
            (json!({}), false, true),
            (json!({ "email_verified": true }), true, true),
            (json!({ "email_verified": "true" }), true, true),
            (json!({ "email_verified": false }), false, false),
            (json!({ "email_verified": "false" }), false, false),
            (json!({ "email_verified": null }), false, false),
            (json!({ "email_verified": 1 }), false, false),
            (json!({ "email_verified": ["true"] }), false, false),
        ] {
            let mut person = claims(verified.clone());
            // Most issuers send a text; a list leads a pointer to its items.
            for (email, paths) in [
                (json!("ada@example.org"), &["email", "/email"][..]),
                (json!(["ada@example.org"]), &["email", "/email", "/email/0"]),
                (json!({ "a": "ada@example.org" }), &["/email/a"]),
            ] {
                person.insert("email".to_owned(), email);
                for claim in paths {
                    let rules = [rule(&json!({ *claim: "ada@example.org" }), Role::Viewer, &["a"])];
                    let matches = |email_is_verified| {
                        let claims = Confirmed { all: &person, email_is_verified };
                        grant(&rules, claims).is_some()
                    };
                    assert_eq!(matches(false), is_matched, "{claim} {verified}");
                    assert_eq!(matches(true), is_matched_on_trust, "{claim} {verified}");
                }
            }
            person.insert("email".to_owned(), json!("ada@example.org"));
            for claim in ["email", "/email", ""] {
                let name = name(confirmed(&person), claim);
                assert_eq!(name == "ada@example.org", is_matched, "{claim} {verified}");
            }
        }
        // A claim of another name is not the address.
        let mut person = claims(json!({ "e~mail": "x", "email/0": "x" }));
        person.insert("emails".to_owned(), json!(["x"]));
        for claim in ["/e~0mail", "/email~10", "/emails/0"] {
            let rules = [rule(&json!({ claim: "x" }), Role::Viewer, &["a"])];
            assert!(grant(&rules, confirmed(&person)).is_some(), "{claim}");
        }
    }

    #[test]
    fn the_first_match_gives_the_role_and_its_equals_add_namespaces() {
        let rules = [
            rule(&json!({ "g": "a" }), Role::Owner, &["one"]),
            rule(&json!({ "g": "b" }), Role::Submitter, &["two"]),
            rule(&json!({ "g": "c" }), Role::Submitter, &["three"]),
            rule(&json!({ "g": "d" }), Role::Submitter, &["*"]),
            rule(&json!({ "g": "e" }), Role::Operator, &[]),
        ];
        let of = |groups: Value| {
            let granted = grant(&rules, confirmed(&claims(json!({ "g": groups }))))?;
            Some((granted.role, granted.namespaces.join(" ")))
        };
        assert_eq!(of(json!([])), None);
        // The role of an owner does not reach the namespaces of a submitter.
        assert_eq!(of(json!(["b", "a"])), Some((Role::Owner, "one".to_owned())));
        assert_eq!(of(json!(["c", "b"])), Some((Role::Submitter, "three two".to_owned())));
        assert_eq!(of(json!(["d", "b"])), Some((Role::Submitter, "*".to_owned())));
        assert_eq!(of(json!(["e"])), Some((Role::Operator, "*".to_owned())));
        assert_eq!(compared(&rules).into_iter().collect::<Vec<_>>(), ["g"]);
    }

    #[test]
    fn somebody_is_named_by_what_the_issuer_verified() {
        let all = json!({
            "sub": "7f", "email": "ada@example.org", "email_verified": true,
            "preferred_username": "ada",
        });
        let mut person = claims(all);
        assert_eq!(name(confirmed(&person), ""), "ada@example.org");
        assert_eq!(name(confirmed(&person), "preferred_username"), "ada");
        assert_eq!(name(confirmed(&person), "absent"), "ada@example.org");
        person.remove("email_verified");
        assert_eq!(name(confirmed(&person), ""), "ada");
        let long = format!("\u{7}{}", "x".repeat(200));
        assert_eq!(
            name(confirmed(&claims(json!({ "sub": long }))), ""),
            "x".repeat(MAX_NAME_CHARS)
        );
        assert_eq!(name(confirmed(&claims(json!({}))), ""), "unnamed");
    }
}
