//! Deserializers of values that people write as text, or in a form that TOML has for them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use api_types::engine::{EngineType, UnknownWord};
use api_types::quantity::{InvalidQuantity, parse_bytes, parse_cpu_millis, parse_gpus};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// An amount, quoted or not.
#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Whole(u64),
    Fraction(f64),
    Text(String),
}

/// A comma-separated string, or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

pub(super) fn cpu_millis<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    amount(from, parse_cpu_millis)
}

pub(super) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    amount(from, parse_bytes)
}

pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    bytes(from).map(Option::unwrap_or_default)
}

pub(super) fn gpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    amount(from, parse_gpus)
}

fn amount<'de, D: Deserializer<'de>>(
    from: D,
    parse: fn(&str) -> Result<u64, InvalidQuantity>,
) -> Result<Option<u64>, D::Error> {
    let text = match Amount::deserialize(from)? {
        Amount::Whole(number) => number.to_string(),
        Amount::Fraction(number) => number.to_string(),
        Amount::Text(text) => text,
    };
    parse(&text).map(Some).map_err(D::Error::custom)
}

pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let texts = match Texts::deserialize(from)? {
        Texts::One(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        Texts::Many(texts) => texts,
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// A word of a closed set, in any case.
pub(super) fn word<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = UnknownWord>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

pub(super) fn engines<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<EngineType>, D::Error> {
    let mut engines = list(from)?
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom))
        .collect::<Result<Vec<EngineType>, _>>()?;
    engines.sort_unstable();
    engines.dedup();
    Ok(engines)
}

/// `k=v,k=v`, or a table.
pub(super) fn labels<'de, D>(from: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    from.deserialize_any(LabelsVisitor)
}

struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels as 'key=value,key=value' or as a table")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| match part.split_once('=') {
                Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
                None => Err(E::custom(format!("'{part}' is not a label: it is written key=value"))),
            })
            .collect()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut labels = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, Label>()? {
            labels.insert(key, value.0);
        }
        Ok(labels)
    }
}

/// The value of a label; numbers and booleans become their text.
struct Label(String);

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Plain {
            Text(String),
            Whole(i64),
            Truth(bool),
        }
        Ok(Self(match Plain::deserialize(from)? {
            Plain::Text(text) => text,
            Plain::Whole(number) => number.to_string(),
            Plain::Truth(truth) => truth.to_string(),
        }))
    }
}
