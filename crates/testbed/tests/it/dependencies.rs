//! A house rule: each crate is there in one version, unless `deny.toml` explains another.
//!
//! `cargo deny` checks the same where it is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regex::Regex;

use super::tidy::{assert_none, root};

/// `name@version` of every crate in the lock file, but for the newest version of each.
fn older_versions(lock: &str) -> BTreeSet<String> {
    let package = Regex::new(r#"(?m)^name = "([^"]+)"\nversion = "([^"]+)""#).expect("a pattern");
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for found in package.captures_iter(lock) {
        let (_, [name, version]) = found.extract();
        versions.entry(name).or_default().push(version);
    }
    let numbers = |version: &&str| -> Vec<u64> {
        version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0)).collect()
    };
    let mut older = BTreeSet::new();
    for (name, mut versions) in versions {
        versions.sort_by_key(numbers);
        versions.pop();
        older.extend(versions.iter().map(|version| format!("{name}@{version}")));
    }
    older
}

#[test]
fn a_second_version_of_a_crate_is_explained() {
    let read = |file| fs::read_to_string(root().join(file)).expect("the repository can be read");
    let older = older_versions(&read("Cargo.lock"));
    let entry = Regex::new(r#"crate = "([^"]+)", reason = "[^"]{9,}""#).expect("a pattern");
    let deny = read("deny.toml");
    let explained: BTreeSet<_> =
        entry.captures_iter(&deny).map(|found| found[1].to_owned()).collect();
    let missing: Vec<_> = older.difference(&explained).cloned().collect();
    assert_none("deny.toml does not say why these are there", &missing);
    let gone: Vec<_> = explained.difference(&older).cloned().collect();
    assert_none("these are there no longer: remove them from deny.toml", &gone);
}

#[test]
fn versions_are_compared_by_their_numbers() {
    let lock = "name = \"a\"\nversion = \"0.10.0\"\n\nname = \"a\"\nversion = \"0.9.1\"\n";
    assert_eq!(older_versions(lock), BTreeSet::from(["a@0.9.1".to_owned()]));
}
