//! Secrets in the settings: they are read, but never shown.

use std::fmt;

use figment::error::Kind;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A string that no log, error or `Debug` output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

struct SecretVisitor;

// === impl Secret ===

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, only for its recipient.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SecretVisitor)
    }
}

/// serde's own error would repeat the value.
fn refuse<T, E: Error>() -> Result<T, E> {
    Err(E::custom("a secret is a text; put it in quotes"))
}

impl Visitor<'_> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Secret, E> {
        Ok(Secret(text))
    }

    // A number has already lost its leading zeros.
    fn visit_u64<E: Error>(self, _: u64) -> Result<Secret, E> {
        refuse()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Secret, E> {
        refuse()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Secret, E> {
        refuse()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Secret, E> {
        refuse()
    }
}

/// The error of a file that is not TOML, without the quoted lines of the file: one of them may
/// hold a secret.
pub(super) fn without_source(mut error: figment::Error) -> figment::Error {
    if let Kind::Message(text) = &mut error.kind {
        let quotes = |line: &str| {
            let line = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
            line.trim_start().starts_with('|')
        };
        let kept: Vec<_> = text.lines().filter(|line| !quotes(line)).collect();
        *text = kept.join(": ");
    }
    error
}
