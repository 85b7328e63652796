//! A deserializer over a parsed body that records mistakes and continues.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

use api_types::error::FieldError;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::seen::Seen;
use super::tree::Tree;
use super::{Author, MAX_PROBLEMS, Texts};

/// The current path, and the mistakes so far.
pub(super) struct Context<'a> {
    author: Author,
    texts: Texts,
    /// Segments are popped only after a successful read: after an error, this is its path.
    path: RefCell<Vec<PathSegment<'a>>>,
    problems: RefCell<Vec<FieldError>>,
    /// Paths of unknown fields.
    unknown: RefCell<Vec<String>>,
}

#[derive(Clone, Copy)]
enum PathSegment<'a> {
    Key(&'a str),
    Index(usize),
}

/// One segment of a path.
#[derive(Clone, Copy)]
pub(super) struct Lenient<'a> {
    tree: &'a Tree<'a>,
    context: &'a Context<'a>,
}

struct List<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Tree<'a>>>,
    context: &'a Context<'a>,
}

struct Object<'a> {
    entries: std::slice::Iter<'a, (Cow<'a, str>, Tree<'a>)>,
    keys: Keys,
    seen: Seen<'a>,
    /// The entry whose key was returned last.
    current: Option<(&'a str, &'a Tree<'a>)>,
    context: &'a Context<'a>,
}

/// How keys are matched.
enum Keys {
    AsTheyAre,
    /// Against these, as the author's rules say.
    Fields(&'static [&'static str]),
}

// === impl Context ===

impl<'a> Context<'a> {
    pub(super) fn new(author: Author, texts: Texts) -> Self {
        Self {
            author,
            texts,
            path: RefCell::default(),
            problems: RefCell::default(),
            unknown: RefCell::default(),
        }
    }

    pub(super) fn path(&self) -> String {
        let mut text = String::new();
        for step in self.path.borrow().iter() {
            match step {
                PathSegment::Key(key) if text.is_empty() => text.push_str(key),
                // Writing to a string cannot fail.
                PathSegment::Key(key) => drop(write!(text, ".{key}")),
                PathSegment::Index(index) => drop(write!(text, "[{index}]")),
            }
        }
        text
    }

    pub(super) fn take_problems(&self) -> Vec<FieldError> {
        self.problems.take()
    }

    pub(super) fn take_unknown(&self) -> Vec<String> {
        self.unknown.take()
    }

    fn note(&self, reason: impl Into<String>) {
        let path = self.path();
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MAX_PROBLEMS {
            problems.push(FieldError { path, reason: reason.into() });
        }
    }

    fn descend<T, E>(
        &self,
        segment: PathSegment<'a>,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.path.borrow_mut().push(segment);
        let value = read()?;
        self.path.borrow_mut().pop();
        Ok(value)
    }
}

// === impl Lenient ===

impl<'a> Lenient<'a> {
    pub(super) fn new(tree: &'a Tree<'a>, context: &'a Context<'a>) -> Self {
        Self { tree, context }
    }

    fn mismatch(self, expected: &str) {
        self.context.note(format!("expected {expected}, got {}", self.tree));
    }

    fn text(self, text: &'a str) -> &'a str {
        if self.context.texts == Texts::WithoutNul && text.contains('\0') {
            self.context.note("must not contain the NUL character");
        }
        text
    }

    fn list(self, items: &'a [Tree<'a>]) -> List<'a> {
        List { items: items.iter().enumerate(), context: self.context }
    }

    fn object(self, keys: Keys) -> Object<'a> {
        let entries = match self.tree {
            Tree::Object(entries) => entries.as_slice(),
            _ => {
                self.mismatch("an object");
                &[]
            }
        };
        Object {
            entries: entries.iter(),
            keys,
            seen: Seen::default(),
            current: None,
            context: self.context,
        }
    }
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty, $expected:literal;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = match self.tree {
                Tree::Number(number) => number
                    .as_i64()
                    .and_then(|number| <$type>::try_from(number).ok())
                    .or_else(|| number.as_u64().and_then(|number| <$type>::try_from(number).ok())),
                _ => None,
            };
            visitor.$visit(number.unwrap_or_else(|| {
                self.mismatch($expected);
                0
            }))
        })*
    };
}

impl<'de: 'a, 'a> Deserializer<'de> for Lenient<'a> {
    type Error = Error;

    whole_numbers! {
        deserialize_i8 visit_i8 i8, "an 8-bit integer";
        deserialize_i16 visit_i16 i16, "a 16-bit integer";
        deserialize_i32 visit_i32 i32, "a 32-bit integer";
        deserialize_i64 visit_i64 i64, "a 64-bit integer";
        deserialize_u8 visit_u8 u8, "an integer from 0 to 255";
        deserialize_u16 visit_u16 u16, "an integer from 0 to 65535";
        deserialize_u32 visit_u32 u32, "an integer from 0 to 4294967295";
        deserialize_u64 visit_u64 u64, "a non-negative integer";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => visitor.visit_u64(number),
                (None, Some(number), _) => visitor.visit_i64(number),
                (None, None, number) => visitor.visit_f64(number.unwrap_or_default()),
            },
            Tree::Text(text) => visitor.visit_str(self.text(text)),
            Tree::List(items) => visitor.visit_seq(self.list(items)),
            Tree::Object(_) => visitor.visit_map(self.object(Keys::AsTheyAre)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Bool(value) => visitor.visit_bool(*value),
            _ => {
                self.mismatch("true or false");
                visitor.visit_bool(false)
            }
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Number(number) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            _ => {
                self.mismatch("a number");
                visitor.visit_f64(0.0)
            }
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Text(text) => visitor.visit_str(self.text(text)),
            _ => {
                self.mismatch("a string");
                visitor.visit_str("")
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::List(items) => visitor.visit_seq(self.list(items)),
            _ => {
                self.mismatch("an array");
                visitor.visit_seq(self.list(&[]))
            }
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.object(Keys::AsTheyAre))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(self.object(Keys::Fields(fields)))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Text(text) => {
                let word: StrDeserializer<'_, Error> = (**text).into_deserializer();
                visitor.visit_enum(word)
            }
            // There is no default for an enum: this ends the parse.
            other => Err(serde::de::Error::custom(format_args!("expected a string, got {other}"))),
        }
    }

    /// The value of an unknown field.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut unknown = self.context.unknown.borrow_mut();
        if unknown.len() < MAX_PROBLEMS {
            unknown.push(self.context.path());
        }
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

// === impl List ===

impl<'de: 'a, 'a> SeqAccess<'de> for List<'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((index, tree)) = self.items.next() else { return Ok(None) };
        let item = Lenient::new(tree, self.context);
        self.context.descend(PathSegment::Index(index), || seed.deserialize(item)).map(Some)
    }
}

// === impl Object ===

impl<'a> Object<'a> {
    /// The next entry, with its key spelled as in the type; duplicate keys are recorded and
    /// skipped, and so are fields that a person wrote as null.
    fn next_entry(&mut self) -> Option<(&'a str, &'a Tree<'a>)> {
        for (written, tree) in self.entries.by_ref() {
            let field = match self.keys {
                Keys::AsTheyAre => None,
                Keys::Fields(fields) => fields.iter().position(|field| match self.context.author {
                    Author::Person => field.eq_ignore_ascii_case(written),
                    Author::Program => *field == written,
                }),
            };
            let is_map = matches!(self.keys, Keys::AsTheyAre);
            let key = match (&self.keys, field) {
                (Keys::Fields(fields), Some(at)) => fields[at],
                (Keys::Fields(_) | Keys::AsTheyAre, _) => written,
            };
            if (field.is_some() || is_map) && !self.seen.insert(field, key) {
                self.context.path.borrow_mut().push(PathSegment::Key(key));
                self.context.note("is given more than once");
                self.context.path.borrow_mut().pop();
                continue;
            }
            let is_absent = *tree == Tree::Null && self.context.author == Author::Person;
            if field.is_some() && is_absent {
                continue;
            }
            if is_map && self.context.texts == Texts::WithoutNul && key.contains('\0') {
                self.context.note("keys must not contain the NUL character");
            }
            return Some((key, tree));
        }
        None
    }
}

impl<'de: 'a, 'a> MapAccess<'de> for Object<'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.current = self.next_entry();
        let Some((key, _)) = self.current else { return Ok(None) };
        let key: StrDeserializer<'_, Error> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, tree)) = self.current.take() else {
            return Err(serde::de::Error::custom("a value was asked for before its key"));
        };
        let value = Lenient::new(tree, self.context);
        self.context.descend(PathSegment::Key(key), || seed.deserialize(value))
    }
}
