//! Settings of sign-in with OpenID Connect, and which of them are refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use api_types::access::{ALL_NAMESPACES, Role};
use http::uri::Authority;
use serde::{Deserialize, Serialize};

use crate::names;

/// The most rules: each is tested at every sign-in.
const MAX_RULES: usize = 1000;

/// Claims that every token for this service has, regardless of its subject.
const SAYS_NOTHING: [&str; 3] = ["iss", "aud", "azp"];

/// The scope without which there is no ID token.
const OPENID: &str = "openid";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OidcSettings {
    /// The issuer of ID tokens, as its tokens name it; none turns all of this off.
    pub issuer: String,
    /// The audience that ID tokens must have.
    pub audience: String,
    /// As whom people sign in on the pages; the audience without one.
    pub client_id: String,
    /// As whom people sign in with the command line; the client of the pages without one.
    pub cli_client_id: String,
    /// A file with the secret of a confidential client.
    pub client_secret_file: PathBuf,
    /// The CA of the issuer, in PEM; those that the machine trusts without one.
    pub ca_file: PathBuf,
    /// The claim that people and programs are named by.
    pub name_claim: String,
    /// Whether the issuer verifies every email address, although its ID tokens do not say so.
    pub email_is_verified: bool,
    /// What people are asked to share, separated by spaces.
    pub scopes: String,
    /// The URL of this service, where it is not the one that browsers ask for.
    pub public_url: String,
    /// Who gets which role.
    pub rules: Vec<RuleSettings>,
}

/// Gives a role to everybody with these claims.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    pub claims: BTreeMap<String, ClaimValue>,
    pub role: Role,
    #[serde(default)]
    pub namespaces: Vec<String>,
}

/// What a claim must be, or contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a claim is compared with a text, a whole number, true or false")]
pub enum ClaimValue {
    Truth(bool),
    Number(i64),
    Text(String),
}

// === impl OidcSettings ===

impl OidcSettings {
    /// The ID of the client that people sign in with.
    pub(crate) fn client(&self) -> &str {
        if self.client_id.is_empty() { &self.audience } else { &self.client_id }
    }

    /// The same for the command line.
    pub(crate) fn cli_client(&self) -> &str {
        if self.cli_client_id.is_empty() { self.client() } else { &self.cli_client_id }
    }

    /// The name by which browsers reach this service, if the operator says so.
    pub(crate) fn public_host(&self) -> Option<String> {
        authority(&self.public_url).map(|authority| authority.host().to_owned())
    }

    /// A setting that an operator has set, although no one signs in this way.
    pub(super) fn set_in_vain(&self) -> Option<&'static str> {
        let is_path_set = |path: &PathBuf| !path.as_os_str().is_empty();
        let set = [
            ("oidc.audience", !self.audience.is_empty()),
            ("oidc.client_id", !self.client_id.is_empty()),
            ("oidc.cli_client_id", !self.cli_client_id.is_empty()),
            ("oidc.client_secret_file", is_path_set(&self.client_secret_file)),
            ("oidc.ca_file", is_path_set(&self.ca_file)),
            ("oidc.name_claim", !self.name_claim.is_empty()),
            ("oidc.email_is_verified", self.email_is_verified),
            ("oidc.public_url", !self.public_url.is_empty()),
            ("oidc.rules", !self.rules.is_empty()),
        ];
        set.into_iter().find_map(|(key, is_set)| is_set.then_some(key))
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let refused = |key, reason: &str| Err((key, reason.to_owned()));
        if self.audience.is_empty() {
            return refused(
                "oidc.audience",
                "is required: it is the audience that ID tokens must have",
            );
        }
        if !self.scopes.split(' ').any(|scope| scope == OPENID) {
            return refused("oidc.scopes", "must contain openid, or there is no ID token");
        }
        if !self.public_url.is_empty() && authority(&self.public_url).is_none() {
            let reason = "is no http or https URL without a path, like https://jobs.example.com";
            return refused("oidc.public_url", reason);
        }
        if self.rules.is_empty() {
            let reason = "are empty, so no one could sign in; write who gets which role";
            return refused("oidc.rules", reason);
        }
        if self.rules.len() > MAX_RULES {
            return Err(("oidc.rules", format!("are more than {MAX_RULES}")));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check()
                .map_err(|reason| ("oidc.rules", format!("rule {}: {reason}", index + 1)))?;
        }
        Ok(())
    }
}

// === impl RuleSettings ===

impl RuleSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.claims.keys().all(|claim| SAYS_NOTHING.contains(&root(claim))) {
            return Err("has no claim other than iss, aud and azp, so everyone for whom the issuer \
                        makes a token would get the role; add a claim that says who it is for, such \
                        as groups, email, sub, or repository"
                .to_owned());
        }
        let is_empty = |value: &ClaimValue| *value == ClaimValue::Text(String::new());
        if let Some((claim, _)) = self.claims.iter().find(|(_, value)| is_empty(value)) {
            return Err(format!("claim '{claim}' is compared with an empty text"));
        }
        let names_all = self.namespaces.iter().any(|name| name == ALL_NAMESPACES);
        if names_all && self.namespaces.len() > 1 {
            return Err(format!("'{ALL_NAMESPACES}' stands alone among the namespaces"));
        }
        if self.role.is_of_the_cluster() {
            return match self.namespaces.is_empty() || names_all {
                true => Ok(()),
                false => Err(format!("the role {} applies to all namespaces", self.role)),
            };
        }
        if self.namespaces.is_empty() {
            let role = self.role;
            return Err(format!(
                "names no namespaces for the role {role}; '{ALL_NAMESPACES}' stands for all"
            ));
        }
        let mut names = self.namespaces.iter().filter(|name| *name != ALL_NAMESPACES);
        match names.find(|name| !names::is_name(name)) {
            Some(name) => Err(format!("namespace '{name}': {}", names::RULE)),
            None => Ok(()),
        }
    }
}

/// The claim that a name or a pointer begins at.
fn root(claim: &str) -> &str {
    match claim.strip_prefix('/') {
        Some(pointer) => pointer.split('/').next().unwrap_or_default(),
        None => claim,
    }
}

/// Host and port of a URL without a path; none if it is something else.
fn authority(url: &str) -> Option<Authority> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let parsed: Authority = rest.trim_end_matches('/').parse().ok()?;
    (!parsed.as_str().contains('@')).then_some(parsed)
}

impl Default for OidcSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: String::new(),
            client_id: String::new(),
            cli_client_id: String::new(),
            client_secret_file: PathBuf::new(),
            ca_file: PathBuf::new(),
            name_claim: String::new(),
            email_is_verified: false,
            scopes: "openid profile email".to_owned(),
            public_url: String::new(),
            rules: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use figment::Figment;
    use figment::providers::{Format, Serialized, Toml};

    use super::super::Settings;
    use super::*;

    const GOOD: &str = "auth = 'required'\n[oidc]\nissuer = 'https://issuer.example'\n\
                        audience = 'jobs'\n";
    const RULE: &str =
        "{ claims = { groups = 'platform' }, role = 'submitter', namespaces = ['ci'] }";

    fn extract(toml: &str) -> Result<Settings, String> {
        let figment = Figment::from(Serialized::defaults(Settings::default()));
        Settings::extract(&figment.merge(Toml::string(toml))).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_compare_claims_with_texts_numbers_and_truths() {
        let rules = format!(
            "rules = [{RULE}, {{ claims = {{ level = 3, email_verified = true, \
             '/kubernetes.io/namespace' = 'build' }}, role = 'admin' }}]"
        );
        let settings = extract(&format!("{GOOD}{rules}")).unwrap().oidc;
        assert_eq!(settings.client(), "jobs");
        let claims: Vec<_> = settings.rules[1].claims.values().cloned().collect();
        let text = ClaimValue::Text("build".to_owned());
        assert_eq!(claims, [text, ClaimValue::Truth(true), ClaimValue::Number(3)]);
        assert_eq!(
            (settings.rules[0].role, settings.rules[1].role),
            (Role::Submitter, Role::Admin)
        );
    }

    #[test]
    fn rules_can_come_from_the_environment() {
        let value: figment::value::Value =
            "[{claims={groups=\"platform\"},role=\"submitter\",namespaces=[\"ci\"]}]"
                .parse()
                .unwrap();
        let rules: Vec<RuleSettings> = value.deserialize().unwrap();
        let written = extract(&format!("{GOOD}rules = [{RULE}]")).unwrap().oidc.rules;
        assert_eq!(rules, written);
    }

    #[test]
    fn settings_that_would_let_in_everybody_or_nobody_are_refused() {
        let good = format!("{GOOD}rules = [{RULE}]\n");
        extract(&good).unwrap();
        let with_rule = |rule: &str| format!("{GOOD}rules = [{rule}]");
        for (toml, words) in [
            (
                with_rule("{ claims = {}, role = 'admin' }"),
                "rule 1: has no claim other than iss, aud",
            ),
            (
                with_rule("{ claims = { aud = 'jobs', iss = 'x' }, role = 'admin' }"),
                "no claim other than",
            ),
            (
                with_rule("{ claims = { '/aud/0' = 'jobs' }, role = 'admin' }"),
                "no claim other than",
            ),
            (with_rule("{ claims = { azp = 'jobs' }, role = 'admin' }"), "no claim other than"),
            (with_rule("{ claims = { a = '' }, role = 'admin' }"), "'a' is compared with an empty"),
            (with_rule("{ claims = { a = 1.5 }, role = 'admin' }"), "a text, a whole number, true"),
            (with_rule("{ claims = { a = 'b' }, role = 'king' }"), "king"),
            (with_rule("{ claims = { a = 'b' }, role = 'owner' }"), "names no namespaces"),
            (
                with_rule("{ claims = { a = 'b' }, role = 'owner', namespaces = ['*', 'a'] }"),
                "'*' stands alone",
            ),
            (
                with_rule("{ claims = { a = 'b' }, role = 'admin', namespaces = ['a'] }"),
                "applies to all namespaces",
            ),
            (
                with_rule("{ claims = { a = 'b' }, role = 'owner', namespaces = ['a/b'] }"),
                "namespace 'a/b'",
            ),
            (GOOD.to_owned(), "oidc.rules: are empty"),
            (good.replace("'jobs'", "''"), "oidc.audience: is required"),
            (good.replace("https:", "http:"), "oidc.issuer: is neither an https URL"),
            (good.replace("required", "auto"), "oidc.issuer: has no effect: "),
            (good.replace("issuer =", "name_claim ="), "oidc.audience: is not used without"),
            (format!("{good}scopes = 'email'"), "oidc.scopes: must contain openid"),
            (format!("{good}public_url = 'https://a/b'"), "oidc.public_url: is no http or https"),
            (format!("{good}isuer = 'x'"), "isuer"),
        ] {
            let error = extract(&toml).expect_err(&toml);
            assert!(error.contains(words), "{toml}\n{error}");
        }
    }
}
