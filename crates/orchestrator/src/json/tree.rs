//! Parsed JSON that keeps what a map would lose: the order of keys, and duplicate keys.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// Values that one body may hold. Each costs 32 bytes, so a hostile body of ten million bytes
/// cannot become hundreds of megabytes; the largest useful batch of reports has a tenth of this.
pub(super) const MAX_VALUES: usize = 250_000;

/// Characters of a text that a message echoes.
const SHOWN_CHARS: usize = 40;

/// Texts without escapes are those of the body.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Tree<'a>>),
    Object(Vec<(Cow<'a, str>, Tree<'a>)>),
}

// === impl Tree ===

impl<'a> Tree<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let left = Cell::new(MAX_VALUES);
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let tree = Node { left: &left }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(tree)
    }
}

/// How a message names a value.
impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(number) => write!(f, "the number {number}"),
            Self::Text(text) => {
                let shown: String = text.chars().take(SHOWN_CHARS).collect();
                let more = if shown.len() < text.len() { "…" } else { "" };
                write!(f, "the string {shown:?}{more}")
            }
            Self::List(_) => f.write_str("an array"),
            Self::Object(_) => f.write_str("an object"),
        }
    }
}

/// Builds one value, and counts it.
#[derive(Clone, Copy)]
struct Node<'a> {
    left: &'a Cell<usize>,
}

/// Reads the key of an object.
struct Key;

// === impl Node ===

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Tree<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree<'de>, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| {
            D::Error::custom(format_args!("it holds more than {MAX_VALUES} values"))
        })?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree<'de>, E> {
        Number::from_f64(value)
            .map(Tree::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(value)))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            entries.push((key, map.next_value_seed(self)?));
        }
        Ok(Tree::Object(entries))
    }
}

// === impl Key ===

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }
}
