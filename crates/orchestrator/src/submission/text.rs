//! Rules for names and keys in a submission.

use std::collections::BTreeMap;

use api_types::job::MAX_NAMESPACE_BYTES;
use api_types::text::is_control;

use super::findings::Findings;

/// Bytes of a name (job, task, result path, alias): they end up in lists, logs and file names.
const MAX_NAME_BYTES: usize = 255;

/// Bytes of a key of Labels, Meta or Env.
const MAX_KEY_BYTES: usize = 256;

/// Bytes of a label's value: labels are kept per job and searched.
const MAX_LABEL_VALUE_BYTES: usize = 1024;

/// Bytes of a value of Meta or Env; Linux accepts arguments and variables up to 128 KiB.
const MAX_VALUE_BYTES: usize = 128 * 1024;

/// Entries of one map.
const MAX_ENTRIES: usize = 1024;

/// Which rules the keys and values of a map follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MapKind {
    /// Keys that a selector can name.
    Labels,
    Meta,
    /// Names of environment variables.
    Env,
}

impl Findings {
    /// A name: one line of text, not blank.
    pub(super) fn check_name(&mut self, path: &str, name: &str) {
        if name.trim().is_empty() {
            self.refuse(path, "must not be blank");
        } else if name.len() > MAX_NAME_BYTES {
            self.refuse(path, format!("must not be longer than {MAX_NAME_BYTES} bytes"));
        } else if name.chars().any(is_control) {
            self.refuse(path, "must not contain control characters");
        }
    }

    /// A namespace: one word that a query can name.
    pub(super) fn check_namespace(&mut self, path: &str, namespace: &str) {
        if namespace == "*" {
            self.refuse(path, "'*' stands for all namespaces and cannot be the name of one");
        } else if namespace.len() > MAX_NAMESPACE_BYTES {
            self.refuse(path, format!("must not be longer than {MAX_NAMESPACE_BYTES} bytes"));
        } else if namespace.chars().any(|c| is_control(c) || c.is_whitespace()) {
            self.refuse(path, "must not contain white space or control characters");
        }
    }

    pub(super) fn check_map(&mut self, path: &str, map: &BTreeMap<String, String>, kind: MapKind) {
        if map.len() > MAX_ENTRIES {
            self.refuse(path, format!("must not have more than {MAX_ENTRIES} entries"));
            return;
        }
        let longest = match kind {
            MapKind::Labels => MAX_LABEL_VALUE_BYTES,
            MapKind::Meta | MapKind::Env => MAX_VALUE_BYTES,
        };
        for (key, value) in map {
            if let Err(reason) = check_key(key, kind) {
                self.refuse(format!("{path}.{key}"), reason);
            }
            if value.len() > longest {
                let place = format!("{path}.{key}");
                self.refuse(place, format!("must not be longer than {longest} bytes"));
            }
        }
    }

    /// The name of an environment variable.
    pub(super) fn check_variable(&mut self, path: &str, name: &str) {
        if let Err(reason) = check_key(name, MapKind::Env) {
            self.refuse(path, reason);
        }
    }
}

fn check_key(key: &str, kind: MapKind) -> Result<(), String> {
    if key.trim().is_empty() {
        return Err("a key must not be blank".to_owned());
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(format!("a key must not be longer than {MAX_KEY_BYTES} bytes"));
    }
    if key.chars().any(is_control) {
        return Err("a key must not contain control characters".to_owned());
    }
    match kind {
        MapKind::Labels if key.contains(|c: char| c.is_whitespace() || "=!<>,()".contains(c)) => {
            Err("a label's key must not contain white space or any of = ! < > , ( )".to_owned())
        }
        MapKind::Env if key.contains('=') => {
            Err("a variable's name must not contain '='".to_owned())
        }
        MapKind::Labels | MapKind::Meta | MapKind::Env => Ok(()),
    }
}
