//! YAML as JSON text: what people write in files becomes what the API reads.
//!
//! The text is written while the document is parsed, so that everything the JSON reader checks is
//! checked here too: keys that occur twice, types, and the number of values. An alias may repeat what
//! it names, and an alias of aliases multiplies it, so the length of the text and the number of its
//! values are bounded.

mod nesting;

use std::cell::{Cell, RefCell};
use std::fmt;

use api_types::MAX_BODY_BYTES;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::Serialize;

use super::tree::MAX_VALUES;

/// The longest document. The parser keeps a hundred bytes for each of its events; who sends more
/// sends JSON.
pub(crate) const MAX_YAML_BYTES: usize = 1_000_000;

/// Converts one document.
///
/// # Errors
/// The reason why it cannot be converted, for its author.
pub(crate) fn to_json(yaml: &[u8]) -> Result<Vec<u8>, String> {
    if yaml.len() > MAX_YAML_BYTES {
        return Err(format!(
            "the body has {} bytes of YAML, more than {MAX_YAML_BYTES}; send it as JSON",
            yaml.len()
        ));
    }
    let text = std::str::from_utf8(yaml)
        .map_err(|error| format!("the body is not UTF-8 at byte {}", error.valid_up_to() + 1))?;
    // YAML 1.2 allows the mark at the beginning, and editors for Windows write it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err("the body is empty".to_owned());
    }
    nesting::check(text).map_err(|reason| format!("the body is not usable YAML: {reason}"))?;
    let (out, left) = (RefCell::new(Vec::with_capacity(text.len())), Cell::new(MAX_VALUES));
    Writer { out: &out, left: &left }
        .deserialize(yaml_serde::Deserializer::from_str(text))
        .map_err(|error| format!("the body is not YAML: {error}"))?;
    Ok(out.into_inner())
}

/// Writes one value at the end of the text.
#[derive(Clone, Copy)]
struct Writer<'a> {
    out: &'a RefCell<Vec<u8>>,
    /// Values that may still follow.
    left: &'a Cell<usize>,
}

/// The key of a map, which must be a text.
struct Key<'a>(Writer<'a>);

// === impl Writer ===

impl Writer<'_> {
    fn put<E: Error>(self, bytes: &[u8]) -> Result<(), E> {
        let mut out = self.out.borrow_mut();
        if out.len() + bytes.len() > MAX_BODY_BYTES {
            let limit = format!("its aliases make it longer than {MAX_BODY_BYTES} bytes");
            return Err(E::custom(limit));
        }
        out.extend_from_slice(bytes);
        Ok(())
    }

    fn put_value<E: Error>(self, value: impl Serialize) -> Result<(), E> {
        self.put(&serde_json::to_vec(&value).map_err(E::custom)?)
    }
}

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        // Values without text, such as empty lists, cost the parser much and the text little.
        let left = self.left.get().checked_sub(1).ok_or_else(|| {
            D::Error::custom(format_args!("it holds more than {MAX_VALUES} values"))
        })?;
        self.left.set(left);
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that JSON has too")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put_value(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.put_value(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.put_value(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom(format!("{value} is not a number in JSON")));
        }
        self.put_value(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.put_value(value)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(b"null")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.put(b"null")
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.put(b"[")?;
        let mut is_first = true;
        loop {
            let before = self.out.borrow().len();
            if !is_first {
                self.put(b",")?;
            }
            if items.next_element_seed(self)?.is_none() {
                self.out.borrow_mut().truncate(before);
                return self.put(b"]");
            }
            is_first = false;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.put(b"{")?;
        let mut is_first = true;
        loop {
            let before = self.out.borrow().len();
            if !is_first {
                self.put(b",")?;
            }
            if entries.next_key_seed(Key(self))?.is_none() {
                self.out.borrow_mut().truncate(before);
                return self.put(b"}");
            }
            self.put(b":")?;
            entries.next_value_seed(self)?;
            is_first = false;
        }
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom("tags have no meaning here"))
    }
}

// === impl Key ===

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key that is a text (put it in quotes)")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.0.put_value(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(yaml: &str) -> String {
        String::from_utf8(to_json(yaml.as_bytes()).unwrap()).unwrap()
    }

    fn refused(yaml: &str) -> String {
        to_json(yaml.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(json("\u{feff}a: 1\n"), r#"{"a":1}"#);
        assert!(refused("\u{feff}").contains("empty"));
    }

    #[test]
    fn every_kind_of_value_becomes_json() {
        let yaml = "b: {x: [1, -2, 0.5, true, null, ~, '7', \"q\\\"\"], e: {}, l: []}\n\
                    a: |\n  two\n  lines\nc: no\n";
        let expected = r#"{"b":{"x":[1,-2,0.5,true,null,null,"7","q\""],"e":{},"l":[]},"a":"two\nlines\n","c":"no"}"#;
        assert_eq!(json(yaml), expected);
        assert_eq!(
            json("{\"Job\": {\"Count\": 18446744073709551615}}"),
            r#"{"Job":{"Count":18446744073709551615}}"#
        );
        assert_eq!(json("base: &b [1, 2]\ncopy: *b\n"), r#"{"base":[1,2],"copy":[1,2]}"#);
        // The JSON reader refuses it with its path.
        assert_eq!(json("a: 1\nA: 2\n"), r#"{"a":1,"A":2}"#);
    }

    #[test]
    fn what_json_does_not_have_is_refused() {
        for (yaml, part) in [
            ("", "the body is empty"),
            (" \n", "the body is empty"),
            ("a: [1", "the body is not YAML"),
            ("a: .inf", "not a number in JSON"),
            ("1: x", "a key that is a text"),
            ("? [a]\n: b", "a key that is a text"),
            ("a: !tag b", "tags have no meaning here"),
            ("a: 1\n---\na: 2\n", "more than one document"),
            ("a: *nowhere", "unknown anchor"),
        ] {
            let reason = refused(yaml);
            assert!(reason.contains(part), "{yaml:?}: {reason}");
        }
        assert!(to_json(b"a: \xff").unwrap_err().contains("not UTF-8 at byte 4"));
    }

    #[test]
    fn aliases_do_not_multiply_without_bound() {
        let mut yaml = "a0: &a0 [xxxxxxxxxx,xxxxxxxxxx,xxxxxxxxxx]\n".to_owned();
        for level in 1..30 {
            let below = format!("*a{}", level - 1);
            let items = [below.as_str(); 9].join(",");
            yaml.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        let begin = std::time::Instant::now();
        refused(&yaml);
        assert!(begin.elapsed() < std::time::Duration::from_secs(10), "{:?}", begin.elapsed());
        let deep = "[".repeat(2000);
        refused(&deep);
        let long = format!("a: {}", "x".repeat(MAX_YAML_BYTES));
        assert!(refused(&long).ends_with("send it as JSON"));
    }
}
