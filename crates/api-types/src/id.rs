//! Identifiers: a letter for the kind, a hyphen and a UUID.
//!
//! Ids are random (UUID version 4), so that the short form (the letter and the first eight
//! characters of the UUID) is nearly unique. Order comes from creation times, never from ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Minimum number of characters of the UUID in an id prefix.
pub const SHORT_ID_CHARS: usize = 8;

/// Characters of a full UUID in its hyphenated form.
const UUID_CHARS: usize = 36;

/// A text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {kind}: it is '{letter}-' followed by a UUID")]
pub struct InvalidId {
    pub text: String,
    pub kind: &'static str,
    pub letter: char,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            pub const LETTER: char = $letter;
            pub const KIND: &'static str = $kind;

            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn uuid(self) -> Uuid {
                self.0
            }

            /// The letter and the first eight characters of the UUID.
            pub fn short(self) -> String {
                let mut text = self.to_string();
                text.truncate(2 + SHORT_ID_CHARS);
                text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}-{}", $letter, self.0.hyphenated())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid =
                    || InvalidId { text: text.to_owned(), kind: $kind, letter: $letter };
                let rest = text
                    .strip_prefix($letter)
                    .and_then(|rest| rest.strip_prefix('-'))
                    .ok_or_else(invalid)?;
                if rest.len() != UUID_CHARS {
                    return Err(invalid());
                }
                Uuid::try_parse(rest).map(Self).map_err(|_| invalid())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// `j-` and a UUID.
    JobId, 'j', "a job ID"
);
id!(
    /// `e-` and a UUID.
    ExecutionId, 'e', "an execution ID"
);
id!(
    /// `n-` and a UUID.
    NodeId, 'n', "a node ID"
);
id!(
    /// `v-` and a UUID.
    EvaluationId, 'v', "an evaluation ID"
);

id!(
    /// `g-` and a UUID.
    GraphId, 'g', "a graph ID"
);

/// The ids that a path parameter matches: those with a UUID from `low` to `high`, both included.
///
/// A full id is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdPrefix {
    pub low: Uuid,
    pub high: Uuid,
}

impl IdPrefix {
    /// Parses a full id, or a prefix with at least [`SHORT_ID_CHARS`] characters of the UUID.
    pub fn parse(text: &str, letter: char) -> Option<Self> {
        let rest = text.strip_prefix(letter)?.strip_prefix('-')?;
        if rest.len() < SHORT_ID_CHARS || rest.len() > UUID_CHARS {
            return None;
        }
        let mut digits = String::with_capacity(32);
        for (at, character) in rest.chars().enumerate() {
            match (at, character) {
                (8 | 13 | 18 | 23, '-') => {}
                (8 | 13 | 18 | 23, _) => return None,
                (_, digit) if digit.is_ascii_hexdigit() => digits.push(digit),
                _ => return None,
            }
        }
        let low = u128::from_str_radix(&format!("{digits:0<32}"), 16).ok()?;
        let high = u128::from_str_radix(&format!("{digits:f<32}"), 16).ok()?;
        Some(Self { low: Uuid::from_u128(low), high: Uuid::from_u128(high) })
    }

    pub fn contains(&self, uuid: Uuid) -> bool {
        self.low <= uuid && uuid <= self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "j-12ab34cd-0000-4000-8000-0123456789ab";

    #[test]
    fn an_id_survives_a_round_trip() {
        let id: JobId = TEXT.parse().unwrap();
        assert_eq!(id.to_string(), TEXT);
        assert_eq!(id.short(), "j-12ab34cd");
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        assert!(TEXT.parse::<NodeId>().is_err());
        assert!("j-12ab34cd".parse::<JobId>().is_err());
        assert!("j-12ab34cd00004000800001234567890000000".parse::<JobId>().is_err());
    }

    #[test]
    fn a_prefix_contains_the_ids_that_begin_with_it() {
        let id: JobId = TEXT.parse().unwrap();
        for text in ["j-12ab34cd", "j-12ab34cd-", "j-12ab34cd-00", TEXT] {
            assert!(IdPrefix::parse(text, 'j').unwrap().contains(id.uuid()), "{text}");
        }
        assert!(!IdPrefix::parse("j-12ab34ce", 'j').unwrap().contains(id.uuid()));
    }

    #[test]
    fn a_prefix_that_is_too_short_or_of_another_kind_is_refused() {
        for text in ["j-12ab34c", "12ab34cd", "n-12ab34cd", "j-12ab34cx", "j-12ab34cd0", "j-", ""] {
            assert_eq!(IdPrefix::parse(text, 'j'), None, "{text}");
        }
        assert_eq!(IdPrefix::parse(&format!("{TEXT}0"), 'j'), None);
    }
}
