//! Which settings must be equal on all orchestrators of a store, and digests by which they compare
//! them.
//!
//! After a takeover the next leader's settings apply. Where they differ, nodes are lost earlier, jobs
//! removed sooner, or people refused who could sign in before. Files, and the addresses by which this
//! machine reaches others and is reached, are each machine's own. The URLs of OpenID Connect are not
//! addresses in this sense: they say who is trusted, and which cookie a browser sends.

use ring::digest::{Context, SHA256, digest};
use serde_json::{Map, Value};

use super::Settings;

/// Bytes of a digest that are kept: enough to tell values apart, and values are no secrets.
const DIGEST_BYTES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The same on all orchestrators.
    Equal,
    /// Each machine's own.
    Own,
}

use Side::{Equal, Own};

/// Every setting, the nested ones with the name of their table.
const SIDES: &[(&str, Side)] = &[
    ("listen", Own),
    ("data_dir", Own),
    ("store", Own),
    ("advertise", Own),
    ("status_listen", Own),
    ("auth", Equal),
    ("node_ttl", Equal),
    ("approve_new_nodes", Equal),
    ("drain_deadline", Equal),
    ("starvation_seconds", Equal),
    ("node_retention", Equal),
    ("job_retention", Equal),
    ("job_retention_count", Equal),
    ("ui", Equal),
    ("allowed_hosts", Equal),
    ("insecure", Equal),
    ("cluster_key_file", Own),
    ("join_token_file", Own),
    ("tls.cert", Own),
    ("tls.key", Own),
    ("tls.names", Own),
    ("tls.node_lifetime", Equal),
    ("postgres.url", Own),
    ("postgres.ca_file", Own),
    ("oidc.issuer", Equal),
    ("oidc.audience", Equal),
    ("oidc.client_id", Equal),
    ("oidc.cli_client_id", Equal),
    ("oidc.client_secret_file", Own),
    ("oidc.ca_file", Own),
    ("oidc.name_claim", Equal),
    ("oidc.email_is_verified", Equal),
    ("oidc.scopes", Equal),
    ("oidc.public_url", Equal),
    ("oidc.rules", Equal),
    ("log_format", Own),
    ("otlp.endpoint", Own),
    ("otlp.headers", Own),
    ("otlp.sampling_ratio", Own),
];

/// Each setting that must be equal, with the digest of its value.
pub(crate) fn digests(settings: &Settings) -> Vec<(String, String)> {
    let values = flat(settings);
    let equal = SIDES.iter().filter(|(_, side)| *side == Equal);
    let digests = equal.filter_map(|(name, _)| {
        let value = values.iter().find(|(known, _)| known == name);
        value.map(|(_, value)| ((*name).to_owned(), short(&value.to_string())))
    });
    digests.collect()
}

/// One digest of all of them.
pub(crate) fn hash(digests: &[(String, String)]) -> String {
    let mut context = Context::new(&SHA256);
    for (name, digest) in digests {
        context.update(format!("{name}={digest}\n").as_bytes());
    }
    hex(context.finish().as_ref())
}

/// The settings in which two orchestrators differ. One that only one of two releases knows is none.
pub(crate) fn differing(one: &[(String, String)], other: &[(String, String)]) -> Vec<String> {
    let differs = |(name, digest): &&(String, String)| {
        other.iter().any(|(known, of_other)| known == name && of_other != digest)
    };
    one.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

fn short(value: &str) -> String {
    hex(digest(&SHA256, value.as_bytes()).as_ref())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// All settings by name.
fn flat(settings: &Settings) -> Vec<(String, Value)> {
    let table = match serde_json::to_value(settings) {
        Ok(Value::Object(table)) => table,
        // A path that is no text, which no settings file can name.
        Ok(_) | Err(_) => Map::new(),
    };
    let mut values = Vec::new();
    for (name, value) in table {
        match value {
            Value::Object(nested) => {
                let nested = nested.into_iter();
                values.extend(nested.map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            value => values.push((name, value)),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::settings::TlsSettings;

    #[test]
    fn every_setting_is_equal_or_each_machines_own() {
        let mut known: Vec<_> =
            flat(&Settings::default()).into_iter().map(|(name, _)| name).collect();
        let mut sides: Vec<_> = SIDES.iter().map(|(name, _)| (*name).to_owned()).collect();
        known.sort();
        sides.sort();
        assert_eq!(sides, known, "say of a new setting whether it must be equal");
    }

    #[test]
    fn orchestrators_that_differ_in_a_setting_find_out_in_which() {
        let settings = Settings::default();
        let same = Settings {
            data_dir: PathBuf::from("/elsewhere"),
            advertise: "b:1".to_owned(),
            tls: TlsSettings { names: vec!["b".to_owned()], ..TlsSettings::default() },
            ..settings.clone()
        };
        let (own, of_same) = (digests(&settings), digests(&same));
        assert_eq!(hash(&own), hash(&of_same));
        let tls = TlsSettings { node_lifetime: 60, ..TlsSettings::default() };
        let other = digests(&Settings { node_ttl: 11, tls, ..settings });
        assert_ne!(hash(&own), hash(&other));
        assert_eq!(differing(&own, &other), ["node_ttl", "tls.node_lifetime"]);
        let of_older_release =
            other.into_iter().filter(|(name, _)| name != "node_ttl").collect::<Vec<_>>();
        assert_eq!(differing(&own, &of_older_release), ["tls.node_lifetime"]);
    }
}
