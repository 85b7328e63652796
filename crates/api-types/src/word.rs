//! Closed sets of words: enums with their spelling on the wire.

/// A word outside its closed set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {kind}; known: {known}")]
pub struct UnknownWord {
    pub text: String,
    pub kind: &'static str,
    pub known: String,
}

/// A closed set of words: an enum and its spelling on the wire.
///
/// Parsing ignores case; serialization uses the spelling given here.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $kind:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$vdoc])*
            #[serde(rename = $word)]
            $variant),+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// All of its words, for messages.
            pub fn known() -> String {
                let words = Self::ALL.iter().map(|word| match word.as_str() {
                    "" => "(empty)",
                    word => word,
                });
                words.collect::<Vec<_>>().join(", ")
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let words: Vec<&str> = Self::ALL.iter().map(|word| word.as_str()).collect();
                crate::openapi::schema::schema(serde_json::json!({ "type": "string", "enum": words }))
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::word::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|word| word.as_str().eq_ignore_ascii_case(text))
                    .ok_or_else(|| $crate::word::UnknownWord {
                        text: text.to_owned(),
                        kind: $kind,
                        known: Self::known(),
                    })
            }
        }
    };
}
pub(crate) use words;
